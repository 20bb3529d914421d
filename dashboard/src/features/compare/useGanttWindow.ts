/** Time window of the live Gantt chart. It follows the present until the user pans, zooms or brushes. */
import { useCallback, useEffect, useState } from "react";
import type { GanttWindow } from "../../charts/ganttModel";
import { useLive } from "../../store/liveStore";
import { boundsOf } from "../../store/selectors";
import { setUi, useUi } from "../../store/uiStore";

type View = { follow: true; span: number } | { follow: false; from: number; to: number };

const START: View = { follow: true, span: 14 };
const SHORTEST = 0.02;

export interface LiveGanttWindow extends GanttWindow {
  following: boolean;
  /** Shows the whole range. */
  fit: () => void;
  follow: () => void;
}

export function useGanttWindow(first: number, last: number): LiveGanttWindow {
  const now = useLive((s) => s.virtualTime);
  const range = useUi((s) => s.range);
  const [view, setView] = useState<View>(START);

  // The chart follows a range set by a link, the top bar or a brush.
  useEffect(() => {
    if (range.kind === "fixed") setView({ follow: false, from: range.from, to: range.to });
    else setView(START);
  }, [range]);

  const width = view.follow ? view.span : view.to - view.from;
  const from = view.follow ? now - width * 0.86 : view.from;
  const to = view.follow ? now + width * 0.14 : view.to;

  const set = useCallback(
    (nextFrom: number, nextTo: number) => {
      const span = Math.min(Math.max(nextTo - nextFrom, SHORTEST), Math.max(last - first, 1) * 1.5);
      setView({ follow: false, from: nextFrom, to: nextFrom + span });
    },
    [first, last],
  );
  return {
    from,
    to,
    following: view.follow,
    pan: (by) => set(from + by, to + by),
    zoom: (factor, at) => {
      if (at === undefined && view.follow) {
        setView({ follow: true, span: Math.min(Math.max(width / factor, SHORTEST), Math.max(last - first, 1)) });
        return;
      }
      const middle = at ?? (from + to) / 2;
      set(middle - (middle - from) / factor, middle + (to - middle) / factor);
    },
    fit: () => {
      const bounds = boundsOf(range, Math.max(now, last));
      set(Math.max(bounds.from, Math.min(first, bounds.to)), bounds.to);
    },
    follow: () => setView(START),
    brush: (a, b) => setUi({ range: { kind: "fixed", from: a, to: b } }),
  };
}
