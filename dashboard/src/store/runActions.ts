/** Actions on runs: stop, restart, labels and deletion. Each can be undone, or says why it failed. */
import { api } from "../client/api";
import type { Run, RunLabels } from "../client/models";
import { runTitle } from "../lib/format";
import { live } from "./liveStore";
import { queryClient } from "./queryClient";
import { offerUndo, useStudio } from "./studioStore";

const refreshNow = (): void => {
  void queryClient.invalidateQueries({ queryKey: ["runs"] });
  void queryClient.invalidateQueries({ queryKey: ["run"] });
};

/** Reads the runs again, and once more when the engine has stored the change. */
const refresh = (): void => {
  refreshNow();
  setTimeout(refreshNow, 1000);
};

/** Pauses the run at once; it ends when the time to undo is over. */
export async function stopRun(run: Run): Promise<void> {
  const wasPaused = run.status === "paused";
  live.setStatus(await api.pause());
  offerUndo({
    text: `Stopped ${runTitle(run)}`,
    undo: () => {
      if (wasPaused) return;
      void api.resume().then((status) => {
        live.setStatus(status);
        refresh();
      });
    },
    commit: () => {
      void api.stop().then((status) => {
        live.setStatus(status);
        refresh();
      });
    },
  });
  refresh();
}

/** Begins a new run with the settings and labels of this one. */
export async function restartRun(run: Run): Promise<void> {
  live.setStatus(await api.beginRun({ repeats: run.run_id, name: run.name, tags: run.tags, note: run.note }));
  refresh();
}

export async function describeRun(run: Run, labels: RunLabels): Promise<void> {
  await api.describeRun(run.run_id, labels);
  refresh();
  offerUndo({
    text: `Changed ${runTitle({ ...run, ...(labels.name ? { name: labels.name } : {}) })}`,
    undo: () => {
      const { name, tags, note } = run;
      void api.describeRun(run.run_id, { name, tags, note }).then(refresh);
    },
    commit: null,
  });
}

/** Hides the run at once; it is deleted when the time to undo is over. */
export function deleteRun(run: Run, onError: (message: string) => void): void {
  const id = run.run_id;
  const show = () => useStudio.setState((s) => ({ deleting: s.deleting.filter((one) => one !== id) }));
  offerUndo({
    text: `Deleted ${runTitle(run)}`,
    undo: show,
    commit: () => {
      void api
        .deleteRun(id)
        .catch((error: Error) => {
          show();
          onError(error.message);
        })
        .then(refresh);
    },
  });
  useStudio.setState((s) => ({ deleting: [...s.deleting, id] }));
}
