/** Load of devices from the server, asked for again while the run goes on. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { api } from "../client/api";
import type { DeviceLoad } from "../client/models";
import type { SeriesPoint } from "../lib/timeSeries";
import { useLive } from "./liveStore";
import type { Range } from "./urlState";

/** Time between two requests while the run goes on. */
const EVERY_MS = 1000;

/** Window of the load for a range of the page. */
export const windowOf = (range: Range): LoadWindow =>
  range.kind === "fixed"
    ? { start: range.from, end: range.to }
    : range.kind === "all"
      ? {}
      : { last: range.seconds, ahead: 0 };

/** Mean busy share of some devices of a scheduler: per column, and of the whole window. */
export function busyShares(
  load: DeviceLoad | undefined,
  scheduler: string,
  devices: readonly { name: string }[],
): { points: SeriesPoint[]; mean: number | null } {
  const own = load?.schedulers[scheduler];
  const rows = devices.map(({ name }) => load?.devices.indexOf(name) ?? -1).filter((row) => row >= 0);
  if (!load || !own || !rows.length || load.known_to <= load.start) return { points: [], mean: null };
  const meanOf = (value: (row: number) => number | undefined) =>
    rows.reduce((sum, row) => sum + (value(row) ?? 0), 0) / rows.length;
  const points = (own.busy[rows[0] as number] ?? []).map((_, column) => ({
    t: load.start + (column + 0.5) * load.column_s,
    value: meanOf((row) => own.busy[row]?.[column]) / load.column_s,
  }));
  return {
    points: points.filter(({ t }) => t <= load.known_to),
    mean: meanOf((row) => own.total[row]) / (load.known_to - load.start),
  };
}

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
