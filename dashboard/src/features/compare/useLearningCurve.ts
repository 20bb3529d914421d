/** Learning curve of the fastest scheduler that learns durations. */
import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { api } from "../../client/api";
import type { ComparisonRow, LearningCurve } from "../../client/models";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { useLive } from "../../store/liveStore";
import { usePollInterval } from "../../store/queryClient";
import { useSchedulerStyles } from "../../store/schedulerStyles";

const EQUAL = 1.01;

function learnerOf(comparison: readonly ComparisonRow[]): string | null {
  const learners = comparison.filter((row) => Object.keys(row.decided_by ?? {}).length > 0);
  const least = Math.min(...learners.map((row) => row.mean_latency ?? Infinity));
  // Of equal ones always the same, so that the chart does not change its subject.
  return learners.find((row) => (row.mean_latency ?? Infinity) <= least * EQUAL)?.name ?? null;
}

/** The learner, null without one, and the query of its curve. */
export function useLearningCurve(): { learner: SchedulerStyle | null; curve: UseQueryResult<LearningCurve> } {
  const runId = useLive((s) => s.runId);
  const name = useLive((s) => learnerOf(s.comparison));
  const style = useSchedulerStyles().find((item) => item.name === name);
  const poll = usePollInterval(2_000);
  const curve = useQuery({
    queryKey: ["learning", runId, name],
    queryFn: ({ signal }) => api.learning(runId as string, name as string, { signal }),
    enabled: runId !== null && name !== null,
    refetchInterval: poll,
  });
  return { learner: style ?? null, curve };
}
