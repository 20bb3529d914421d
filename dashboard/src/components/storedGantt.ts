/** Lanes and time window of the Gantt chart of a stored run. */
import { useCallback, useEffect, useState } from "react";
import type { GanttWindow, LaneOfKind } from "../charts/ganttModel";
import type { Gantt } from "../client/models";
import { deviceKinds } from "../lib/deviceKinds";
import { lanesFromColumns } from "../store/ganttLanes";

/** Seconds at the end of the run that are visible at first. */
const SPAN = 30;

interface Span {
  from: number;
  to: number;
}

interface StoredLanes {
  lanes: LaneOfKind[];
  first: number;
  last: number;
}

/** One lane per device, with the first start and the last end. */
export function storedLanes(data: Gantt | undefined, config: Readonly<Record<string, unknown>>): StoredLanes {
  const found = data ? lanesFromColumns(data) : new Map();
  const kinds = deviceKinds(config);
  let [low, high] = [Number.POSITIVE_INFINITY, 0];
  for (const lane of found.values()) {
    if (!lane.length) continue;
    low = Math.min(low, lane.start(0));
    high = Math.max(high, lane.end(lane.length - 1));
  }
  return {
    lanes: (data?.devices ?? []).map((device) => {
      const lane = found.get(device);
      return { device, kind: kinds.get(device) ?? device.replace(/_\d+$/, ""), sources: lane ? [lane] : [] };
    }),
    first: Number.isFinite(low) ? low : 0,
    last: high,
  };
}

/** Window that starts at the end of the run; `wanted` comes from a link, or from a cause that asks to be shown. */
export function useStoredWindow(
  first: number,
  last: number,
  wanted: Span | null,
): GanttWindow & { fit: () => void } {
  const [chosen, setChosen] = useState<Span | null>(null);
  const [start, end] = [wanted?.from, wanted?.to];
  useEffect(() => {
    if (start !== undefined && end !== undefined) setChosen({ from: start, to: end });
  }, [start, end]);
  const from = chosen?.from ?? Math.max(first, last - SPAN);
  const to = chosen?.to ?? last + (last - from) * 0.04;
  const set = useCallback(
    (a: number, b: number) => {
      const width = Math.min(Math.max(b - a, 0.02), Math.max(last - first, 1) * 1.5);
      setChosen({ from: a, to: a + width });
    },
    [first, last],
  );
  return {
    from,
    to,
    brush: set,
    pan: (by: number) => set(from + by, to + by),
    zoom: (factor: number, at?: number) => {
      const middle = at ?? (from + to) / 2;
      set(middle - (middle - from) / factor, middle + (to - middle) / factor);
    },
    fit: () => set(first, last),
  };
}
