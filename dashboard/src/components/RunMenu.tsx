import { ChartSpline, Copy, EllipsisVertical, Pencil, RotateCcw, Square, Trash2 } from "lucide-react";
import { useState } from "react";
import type { Run } from "../client/models";
import { runTitle } from "../lib/format";
import { deleteRun, describeRun, restartRun, stopRun } from "../store/runActions";
import { openStudio } from "../store/studioStore";
import { navigate, useUi } from "../store/uiStore";
import { TagsField } from "./TagsField";
import { announce } from "./ui/announce";
import { Button, IconButton } from "./ui/Button";
import { Dialog } from "./ui/Dialog";
import { Menu, type MenuItem } from "./ui/Menu";

const FIELD = "w-full rounded-control border border-control bg-transparent px-2.5 text-12";

/** Dialog with name, tags and note of a run. */
function LabelsDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const [name, setName] = useState(run.name);
  const [tags, setTags] = useState<readonly string[]>(run.tags);
  const [note, setNote] = useState(run.note);
  const [error, setError] = useState("");
  const save = () =>
    describeRun(run, { name: name.trim(), tags: [...tags], note: note.trim() }).then(onClose, (cause: Error) =>
      setError(cause.message),
    );
  return (
    <Dialog title="Name, tags and note" subtitle={run.run_id} onClose={onClose}>
      <form
        className="space-y-3 text-12"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <label className="block text-muted">
          Name
          <input
            value={name}
            maxLength={120}
            onChange={(event) => setName(event.target.value)}
            className={`${FIELD} mt-1 h-10 text-ink md:h-8`}
          />
        </label>
        <TagsField tags={tags} onChange={setTags} />
        <label className="block text-muted">
          Note
          <textarea
            value={note}
            maxLength={2000}
            rows={4}
            onChange={(event) => setNote(event.target.value)}
            className={`${FIELD} mt-1 py-2 text-ink`}
          />
        </label>
        <p role="alert" className="text-error">
          {error}
        </p>
        <p className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary">
            Save
          </Button>
        </p>
      </form>
    </Dialog>
  );
}

/** Opens the workspace with this run besides those that are chosen. */
function addToWorkspace(id: string): void {
  const { workspace } = useUi.getState();
  const runs = new Set([...(workspace.runs?.split(",") ?? []), id]);
  navigate({ view: "workspace" }, { workspace: { ...workspace, runs: [...runs].join(",") } });
}

/** Menu of a run: stop or restart, duplicate, labels and deletion. */
export function RunMenu({ run, onDeleted }: { run: Run; onDeleted?: () => void }) {
  const [labels, setLabels] = useState(false);
  const tell = (error: unknown) => announce(error instanceof Error ? error.message : "The server rejected it");
  const ended = run.status === "stopped";
  const simulated = run.source === "simulated";
  const items: MenuItem[] = [
    ...(ended || !simulated
      ? []
      : [
          { key: "stop", label: "Stop", icon: <Square size={14} />, onSelect: () => void stopRun(run).catch(tell) },
        ]),
    ...(simulated
      ? [
          {
            key: "restart",
            label: "Restart",
            icon: <RotateCcw size={14} />,
            onSelect: () => void restartRun(run).catch(tell),
          },
          {
            key: "duplicate",
            label: "Duplicate and change",
            icon: <Copy size={14} />,
            onSelect: () => openStudio(run),
          },
        ]
      : []),
    {
      key: "workspace",
      label: "Add to the workspace",
      icon: <ChartSpline size={14} />,
      onSelect: () => addToWorkspace(run.run_id),
    },
    { key: "labels", label: "Name, tags, note", icon: <Pencil size={14} />, onSelect: () => setLabels(true) },
    ...(ended
      ? [
          {
            key: "delete",
            label: "Delete",
            icon: <Trash2 size={14} />,
            onSelect: () => {
              deleteRun(run, announce);
              onDeleted?.();
            },
          },
        ]
      : []),
  ];
  return (
    <>
      <Menu
        label={`Actions for ${runTitle(run)}`}
        items={items}
        trigger={(props) => (
          <IconButton label={`Actions for ${runTitle(run)}`} {...props}>
            <EllipsisVertical size={14} aria-hidden="true" />
          </IconButton>
        )}
      />
      {labels ? <LabelsDialog run={run} onClose={() => setLabels(false)} /> : null}
    </>
  );
}
