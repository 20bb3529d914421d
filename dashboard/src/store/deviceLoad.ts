/** Load of devices from the server, asked for again while the run goes on. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useRef } from "react";
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
  const queryKey = ["load", runId, scheduler, wanted, columns];
  const found = useQuery({
    queryKey,
    enabled: runId !== null,
    queryFn: ({ signal }) =>
      api.load({ run_id: runId as string, scheduler: scheduler ?? undefined, columns, ...wanted }, { signal }),
    // After the run stood still, what it stored last is still to come.
    refetchInterval: frozen ? false : moving ? every : 3 * every,
    staleTime: frozen ? Number.POSITIVE_INFINITY : 0,
    placeholderData: keepPreviousData,
  });
  // A further answer must not change a frozen view; another window has to come, though.
  const key = JSON.stringify(queryKey);
  const held = useRef({ key: "", data: found.data });
  if (!frozen || held.current.key !== key) {
    const complete = found.data !== undefined && !found.isPlaceholderData;
    held.current = { key: complete ? key : "", data: found.data };
  }
  return { ...found, data: held.current.data };
}
