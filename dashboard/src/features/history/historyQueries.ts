/** REST queries of the history view. */
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "../../client/api";
import type { Notification, Run, RunDetail, StreamEvent } from "../../client/models";
import type { ResultRecord } from "../../client/resultRecords";
import { useLive } from "../../store/liveStore";
import { queryClient, usePollInterval } from "../../store/queryClient";
import type { Bucket } from "./cumulativeMeans";
import { usePlayback } from "./playbackStore";

export const useRunId = (): string | null => useLive((s) => s.runId ?? s.status?.run_id ?? null);

/** Trend buckets of the current run. Polling stops during playback, so that buckets do not move under the playhead. */
export function useTrends() {
  const runId = useRunId();
  const held = usePlayback((s) => s.at !== null);
  const poll = usePollInterval(15_000);
  return useQuery({
    queryKey: ["trends", runId],
    queryFn: ({ signal }) => api.trends(runId, 120, { signal }),
    enabled: runId !== null,
    refetchInterval: held ? false : poll,
    staleTime: held ? Number.POSITIVE_INFINITY : 5_000,
    placeholderData: keepPreviousData,
  });
}

const isNote = (event: StreamEvent): event is Notification => event.type === "notification";
const NOTE_PAGES = 10;

/** All stored notifications; each poll reads only the new ones. */
export function useNotes() {
  const runId = useRunId();
  const poll = usePollInterval(10_000);
  const query = useQuery({
    queryKey: ["notes"],
    queryFn: async ({ signal }) => {
      const known = queryClient.getQueryData<Notification[]>(["notes"]) ?? [];
      const notes = [...known];
      for (let page = 0; page < NOTE_PAGES; page++) {
        const answer = await api.events(notes.at(-1)?.seq ?? 0, 10_000, "notification", { signal });
        notes.push(...answer.events.filter(isNote));
        if (!answer.truncated) break;
      }
      return notes;
    },
    refetchInterval: poll,
  });
  const notes = useMemo(
    () => (query.data ?? []).filter((note) => note.run_id === runId && note.at_task !== null),
    [query.data, runId],
  );
  return { query, notes };
}

/** Single results of the bucket that contains the playhead. */
export function useBucketResults(runId: string | null, cut: Bucket | null) {
  return useQuery({
    queryKey: ["cut", runId, cut?.first_ordinal, cut?.last_ordinal],
    queryFn: async ({ signal }): Promise<ResultRecord[]> => {
      const bucket = cut as Bucket;
      const tasks = bucket.last_ordinal - bucket.first_ordinal + 1;
      const limit = Math.min(10_000, tasks * Math.max(1, Object.keys(bucket.schedulers).length));
      return api.results({ run_id: runId, after_task: bucket.first_task_id - 1, limit }, { signal });
    },
    enabled: cut !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Runs with their comparison. Ended runs are not polled. */
export function useRunDetails(runs: readonly Run[]) {
  const poll = usePollInterval(10_000);
  return useQueries({
    queries: runs.map((run) => ({
      queryKey: ["run", run.run_id],
      queryFn: ({ signal }: { signal: AbortSignal }) => api.run(run.run_id, { signal }),
      staleTime: run.status === "stopped" ? Number.POSITIVE_INFINITY : 5_000,
      refetchInterval: run.status === "stopped" ? (false as const) : poll,
    })),
    combine: (results) => ({
      details: results.map((one) => one.data).filter((one): one is RunDetail => one !== undefined),
      pending: results.some((one) => one.isPending),
      error: results.find((one) => one.error)?.error ?? null,
      retry: () => {
        for (const one of results) if (one.error) void one.refetch();
      },
    }),
  });
}
