import { useMutation } from "@tanstack/react-query";
import { api } from "../../client/api";
import type { Run } from "../../client/models";
import { announce } from "../../components/ui/announce";
import { Button } from "../../components/ui/Button";
import { Dialog } from "../../components/ui/Dialog";
import { count, date, shortRunId } from "../../lib/format";
import { queryClient } from "../../store/queryClient";
import { setUi, useUi } from "../../store/uiStore";
import { pick } from "./runSelection";

/** Dialog that deletes a run after a confirmation. */
export function DeleteRunDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const id = run.run_id;
  const deletion = useMutation({
    mutationFn: () => api.deleteRun(id),
    onSuccess: () => {
      const { a, b } = useUi.getState();
      if (id === a || id === b) setUi(pick({ a, b }, id));
      void queryClient.invalidateQueries({ queryKey: ["runs"] });
      announce("Run deleted");
      onClose();
    },
  });
  return (
    <Dialog title={`Delete run ${shortRunId(id)}?`} subtitle={date(run.created_at)} onClose={onClose}>
      <p>Its {count(run.tasks)} tasks, their results and its model versions are deleted for good.</p>
      <p role="alert" className="text-warn">
        {deletion.error?.message}
      </p>
      <p className="mt-4 flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button variant="primary" disabled={deletion.isPending} onClick={() => deletion.mutate()}>
          Delete
        </Button>
      </p>
    </Dialog>
  );
}
