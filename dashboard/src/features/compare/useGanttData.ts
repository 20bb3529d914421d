/** Gantt lanes of one scheduler: live blocks, and older ones from REST where the range begins earlier. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { LaneOfKind } from "../../charts/ganttModel";
import { api } from "../../client/api";
import { lanesFromColumns } from "../../store/ganttLanes";
import { useLive, useStream } from "../../store/liveStore";
import { boundsOf, useDevices } from "../../store/selectors";
import { useUi } from "../../store/uiStore";
import { rangeKey } from "../../store/urlState";

const GANTT_LIMIT = 50_000;

interface GanttData {
  lanes: LaneOfKind[];
  /** First and last second of the data. */
  from: number;
  to: number;
  lastFinish: number | null;
  truncated: boolean;
  blocks: number;
  error: Error | null;
}

export function useGanttData(scheduler: string | null): GanttData {
  const devices = useDevices();
  const stream = useStream();
  const runId = useLive((s) => s.runId);
  const now = useLive((s) => s.virtualTime);
  const range = useUi((s) => s.range);
  const live = scheduler ? stream.lanes.ofScheduler(scheduler) : new Map<string, never>();
  const firsts = [...live.values()].filter((lane) => lane.length > 0).map((lane) => lane.start(0));
  const oldest = firsts.length ? Math.min(...firsts) : null;
  const wanted = boundsOf(range, now).from;
  // Half a second of tolerance: the first live block rarely begins exactly at the start of the range.
  const needed = oldest !== null && wanted < oldest - 0.5;

  const history = useQuery({
    queryKey: ["gantt", runId, scheduler, rangeKey(range)],
    enabled: needed && runId !== null && scheduler !== null,
    queryFn: async ({ signal }) => {
      const columns = await api.gantt(
        runId as string,
        { scheduler: scheduler as string, start: wanted, end: Math.max(...firsts), limit: GANTT_LIMIT },
        { signal },
      );
      return { lanes: lanesFromColumns(columns), truncated: columns.truncated, blocks: columns.task_id.length };
    },
    // Old blocks do not change, and new blocks come with the stream.
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
  });
  const older = history.data?.lanes;

  const lanes = useMemo(
    () =>
      devices.map((device) => {
        const recent = scheduler ? stream.lanes.ofScheduler(scheduler).get(device.name) : undefined;
        const past = older?.get(device.name);
        return {
          device: device.name,
          kind: device.kind,
          sources: [past, recent].filter((lane) => lane !== undefined),
        };
      }),
    [devices, older, scheduler, stream],
  );
  let from = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  let blocks = 0;
  for (const { sources } of lanes) {
    for (const source of sources) {
      if (!source.length) continue;
      from = Math.min(from, source.start(0));
      last = Math.max(last, source.end(source.length - 1));
      blocks += source.length;
    }
  }
  return {
    lanes,
    from: Number.isFinite(from) ? Math.max(from, wanted) : 0,
    to: Math.max(now, last),
    lastFinish: Number.isFinite(last) ? last : null,
    truncated: history.data?.truncated ?? false,
    blocks,
    error: history.error,
  };
}

/** Lower bound of the makespan: newest arrivals plus their isolated optima (SPEC 3, second term). */
export function useLowerBound(): number | null {
  const newest = useLive((s) => s.stream.tasks.at(-1)?.arrival_time ?? null);
  const runId = useLive((s) => s.runId);
  const frozen = useLive((s) => s.frozen);
  const running = useLive((s) => s.state === "running");
  const { data } = useQuery({
    queryKey: ["bound", runId],
    enabled: runId !== null && !frozen,
    queryFn: async ({ signal }) => {
      const tasks = await api.history(50, { signal });
      const ends = tasks
        .filter((task) => task.run_id === runId && task.optimal_time !== null)
        .map((task) => task.arrival_time + (task.optimal_time as number));
      return ends.length ? Math.max(...ends) : null;
    },
    refetchInterval: running && !frozen ? 3000 : false,
  });
  // The last finish is never before the newest arrival, which is known without a request.
  return newest === null && data == null ? null : Math.max(newest ?? 0, data ?? 0);
}
