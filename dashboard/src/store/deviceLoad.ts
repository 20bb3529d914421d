/** Load of devices from the server, asked for again while the run goes on. */
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api } from "../client/api";
import { useLive } from "./liveStore";

/** Time between two requests while the run goes on. */
const EVERY_MS = 1000;

export type LoadWindow = { last?: number; ahead?: number; start?: number; end?: number };

/** Load of a window; it is asked for again while the run goes on and the view is not frozen. */
export function useDeviceLoad(scheduler: string | null, wanted: LoadWindow, columns: number, every = EVERY_MS) {
  const runId = useLive((s) => s.runId);
  const frozen = useLive((s) => s.frozen);
  const moving = useLive((s) => s.state === "running" && s.connection.phase === "live");
  const queries = useQueryClient();
  useEffect(() => {
    // An answer that is still under way must not change a frozen view.
    if (frozen) queries.cancelQueries({ queryKey: ["load"], predicate: (one) => one.state.data !== undefined });
  }, [frozen, queries]);
  return useQuery({
    queryKey: ["load", runId, scheduler, wanted, columns],
    enabled: runId !== null,
    queryFn: ({ signal }) =>
      api.load({ run_id: runId as string, scheduler: scheduler ?? undefined, columns, ...wanted }, { signal }),
    // After the run stood still, what it stored last is still to come.
    refetchInterval: frozen ? false : moving ? every : 3 * every,
    staleTime: frozen ? Number.POSITIVE_INFINITY : 0,
    placeholderData: keepPreviousData,
  });
}
