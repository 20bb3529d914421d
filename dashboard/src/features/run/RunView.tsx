import { useQuery } from "@tanstack/react-query";
import { api } from "../../client/api";
import { EmptyPage } from "../../components/EmptyPage";
import { GanttDiff } from "../../components/GanttDiff";
import { PanelBody } from "../../components/widget/PanelBody";
import { queryState } from "../../components/widget/queryState";
import { usePollInterval } from "../../store/queryClient";
import { isRunId, isUnknownRun } from "../../store/runQueries";
import { useUi } from "../../store/uiStore";
import { RunComparison } from "./RunComparison";
import { RunConfiguration } from "./RunConfiguration";
import { RunGantt } from "./RunGantt";
import { RunSummary } from "./RunSummary";
import { RunVerdict } from "./RunVerdict";

/** View of one stored run. */
export default function RunView() {
  const route = useUi((s) => s.route);
  const id = route.view === "run" ? route.id : "";
  const poll = usePollInterval(10_000);
  const query = useQuery({
    queryKey: ["run", id],
    queryFn: ({ signal }) => api.run(id, { signal }),
    enabled: isRunId(id),
    refetchInterval: (own) => (own.state.data?.status === "stopped" || own.state.error ? false : poll),
  });
  if (!isRunId(id) || isUnknownRun(query.error))
    return (
      <EmptyPage title="Run not found" mono={id}>
        It may have been deleted, or the link comes from another server.
      </EmptyPage>
    );
  const run = query.data;
  if (!run)
    return (
      <section className="panel min-h-64 p-4">
        <h1 className="sr-only">Run {id}</h1>
        <PanelBody state={queryState(query, "Could not load the run", "table")}>{null}</PanelBody>
      </section>
    );
  return (
    <div className="space-y-4" key={run.run_id}>
      <RunSummary run={run} />
      <RunVerdict run={run} />
      <RunComparison run={run} />
      <div className="grid gap-4 xl:grid-cols-[8fr_4fr]">
        <div id="run-gantt" className="h-[472px] min-w-0 scroll-mt-16">
          <RunGantt run={run} />
        </div>
        <div className="h-[472px] min-w-0">
          <RunConfiguration run={run} />
        </div>
      </div>
      {run.schedulers.length > 1 && run.tasks > 0 ? <GanttDiff a={run} b={run} /> : null}
    </div>
  );
}
