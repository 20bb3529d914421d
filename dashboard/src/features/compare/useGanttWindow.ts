/** Time window of the live Gantt chart. It follows the newest data until the user pans, zooms or brushes. */
import { useCallback, useEffect, useState } from "react";
import type { GanttWindow } from "../../charts/ganttModel";
import type { LoadWindow } from "../../store/deviceLoad";
import { useLive } from "../../store/liveStore";
import { boundsOf } from "../../store/selectors";
import { setUi, useUi } from "../../store/uiStore";
import { DEFAULTS, type Range } from "../../store/urlState";

type View = { follow: true; span: number } | { follow: false; from: number; to: number };

const SHORTEST = 0.02;
/** Share of a following window that lies ahead of the newest data, for queued work. */
const AHEAD = 0.14;

/** View of a range: what was chosen, or as much of the past, and what is queued. */
function viewOf(range: Range): View {
  if (range.kind === "fixed") return { follow: false, from: range.from, to: range.to };
  return { follow: true, span: (range.kind === "all" ? Number.POSITIVE_INFINITY : range.seconds) / (1 - AHEAD) };
}

export interface LiveGanttWindow extends GanttWindow {
  following: boolean;
  /** Window as it is asked for. */
  wanted: LoadWindow;
  /** Shows the whole range. */
  fit: () => void;
  follow: () => void;
}

/** `newest` is the end of the known data, which a following window keeps at its place. */
export function useGanttWindow(newest: number | null): LiveGanttWindow {
  const virtual = useLive((s) => s.virtualTime);
  const frozen = useLive((s) => s.frozen);
  const range = useUi((s) => s.range);
  const [view, setView] = useState<View>(() => viewOf(range));

  // The chart follows a range set by a link, the top bar or a brush.
  useEffect(() => setView(viewOf(range)), [range]);

  const now = frozen || newest === null ? virtual : newest;
  const width = view.follow ? view.span : view.to - view.from;
  // A young run has no past: its window begins at zero and widens until it has its length.
  const past = Math.min(width * (1 - AHEAD), Math.max(now, SHORTEST));
  const from = view.follow ? now - past : view.from;
  const to = view.follow ? now + (past * AHEAD) / (1 - AHEAD) : view.to;

  const set = useCallback(
    (nextFrom: number, nextTo: number) => {
      const span = Math.min(Math.max(nextTo - nextFrom, SHORTEST), Math.max(now, 1) * 1.5);
      setView({ follow: false, from: nextFrom, to: nextFrom + span });
    },
    [now],
  );
  // A window that was chosen, or that is frozen, has fixed ends; the server places one that follows.
  const fixed = !view.follow || frozen;
  return {
    from,
    to,
    wanted: fixed
      ? { start: Math.max(0, from), end: Math.max(to, 0.001) }
      : width === Number.POSITIVE_INFINITY
        ? {}
        : { last: width * (1 - AHEAD), ahead: width * AHEAD },
    following: view.follow,
    pan: (by) => set(from + by, to + by),
    zoom: (factor, at) => {
      if (at === undefined && view.follow) {
        setView({ follow: true, span: Math.min(Math.max(width / factor, SHORTEST), Math.max(now, 1)) });
        return;
      }
      const middle = at ?? (from + to) / 2;
      set(middle - (middle - from) / factor, middle + (to - middle) / factor);
    },
    fit: () => {
      const bounds = boundsOf(range, now);
      set(bounds.from, bounds.to);
    },
    follow: () => setView(viewOf(range.kind === "fixed" ? DEFAULTS.range : range)),
    brush: (a, b) => setUi({ range: { kind: "fixed", from: a, to: b } }),
  };
}
