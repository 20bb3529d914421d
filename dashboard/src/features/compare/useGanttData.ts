/** Load of one scheduler's devices from the server: exact blocks where they are few, else exact busy time per column. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { heatOf, type LaneOfKind, type Mark } from "../../charts/ganttModel";
import { api } from "../../client/api";
import type { DeviceLoad, Notification } from "../../client/models";
import { busyShares, type LoadWindow, useDeviceLoad } from "../../store/deviceLoad";
import { lanesFromColumns } from "../../store/ganttLanes";
import { useLive, useStream } from "../../store/liveStore";
import { useDevices } from "../../store/selectors";

const OVERVIEW_EVERY_MS = 5000;
const COLUMNS = 400;

function lanesOf(
  load: DeviceLoad | undefined,
  scheduler: string,
  devices: readonly { name: string; kind: string }[],
  heatOnly: boolean,
): LaneOfKind[] {
  const columns = load?.schedulers[scheduler];
  const blocks = !heatOnly && load?.blocks ? lanesFromColumns(load.blocks) : null;
  return devices.map(({ name, kind }) => {
    const index = load?.devices.indexOf(name) ?? -1;
    const source = blocks?.get(name);
    const { mean } = busyShares(load, scheduler, [{ name }]);
    return {
      device: name,
      kind,
      sources: source ? [source] : [],
      heat: blocks || !load || !columns ? null : heatOf(load.start, load.column_s, columns.busy[index] ?? []),
      idle: mean === null ? undefined : Math.min(1, Math.max(0, 1 - mean)),
    };
  });
}

interface GanttData {
  lanes: LaneOfKind[];
  load: DeviceLoad | undefined;
  error: Error | null;
}

export function useGanttData(scheduler: string | null, wanted: LoadWindow): GanttData {
  const devices = useDevices();
  const { data, error } = useDeviceLoad(scheduler, wanted, COLUMNS);
  const lanes = useMemo(() => lanesOf(data, scheduler ?? "", devices, false), [data, scheduler, devices]);
  return { lanes, load: data, error };
}

/** The whole run for the overview, in columns. */
export function useGanttOverview(scheduler: string | null): { lanes: LaneOfKind[]; load: DeviceLoad | undefined } {
  const devices = useDevices();
  const { data } = useDeviceLoad(scheduler, {}, 240, OVERVIEW_EVERY_MS);
  const lanes = useMemo(() => lanesOf(data, scheduler ?? "", devices, true), [data, scheduler, devices]);
  return { lanes, load: data };
}

/** Lines of makespan and lower bound, both of the same update: a bound is never after the makespan. */
export function useMarks(makespan: number | null): { bound: Mark | null; makespan: Mark | null } {
  const first = useLive((s) => s.firstArrival);
  const bound = useLive((s) => s.makespanBound);
  return useMemo(() => {
    if (makespan === null || first === null) return { bound: null, makespan: null };
    const least = bound === null ? null : Math.min(bound, makespan);
    return {
      makespan: { at: first + makespan, value: makespan },
      bound: least === null ? null : { at: first + least, value: least },
    };
  }, [makespan, first, bound]);
}

/** Events before the page was opened among which drift is looked for: some minutes of a run. */
const LOOK_BACK = 6000;

/** A scheduler that found out that durations had changed, and when. */
export interface Drift {
  at: number;
  scheduler: string;
}

/**
 * Drift that was found: stored events of the last minutes, and those of the stream. Of the scheduler itself, or of all
 * where it does not learn.
 */
export function useDrifts(scheduler: string | null): readonly Drift[] {
  const runId = useLive((s) => s.runId);
  const ready = useLive((s) => s.ready);
  // The buffers change in place; the view of them is new at every update.
  const stream = useStream();
  const stored = useQuery({
    queryKey: ["drifts", runId],
    queryFn: async ({ signal }) => {
      const after = Math.max(0, useLive.getState().seq - LOOK_BACK);
      const page = await api.events(after, 2000, "notification", { signal });
      return page.events.filter((event): event is Notification => event.type === "notification");
    },
    enabled: runId !== null && ready,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return useMemo(() => {
    const found = new Map<string, Drift>();
    for (const note of [...(stored.data ?? []), ...stream.notifications.toArray()])
      if (note.kind === "drift" && note.run_id === runId && note.scheduler)
        found.set(`${note.t} ${note.scheduler}`, { at: note.t, scheduler: note.scheduler });
    const all = [...found.values()].sort((a, b) => a.at - b.at);
    const own = all.filter((one) => one.scheduler === scheduler);
    return own.length ? own : all;
  }, [stored.data, stream, scheduler, runId]);
}
