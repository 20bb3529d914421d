/**
 * Half widths of the paired 95 % intervals. For latency the API gives them. For the other means the spread of the paired
 * differences in the window of recent tasks is used, over the number of tasks of the run; quantiles have none.
 */
import { useMemo } from "react";
import type { Metric } from "../../lib/metrics";
import { REFERENCE } from "../../lib/schedulerStyle";
import type { Standing } from "../../lib/standings";
import { pairedInterval } from "../../lib/statistics";
import { useStream } from "../../store/liveStore";

const ENOUGH = 30;

interface Intervals {
  halves: ReadonlyMap<string, number>;
  note: string;
}

export function useIntervals(metric: Metric, standings: readonly Standing[]): Intervals {
  const stream = useStream();
  return useMemo(() => {
    const halves = new Map<string, number>();
    if (metric.windowed) {
      const window = standings[0]?.row.window ?? 0;
      return { halves, note: `Newest ${window.toLocaleString("en")} tasks; a quantile has no interval here.` };
    }
    if (metric.paired) {
      for (const { style, half } of standings) if (half !== null) halves.set(style.name, half);
      return { halves, note: "Whiskers: 95 % interval by batch means, paired with the oracle." };
    }
    const tasks = stream.tasks.list();
    let pairs = 0;
    for (const { style, row } of standings) {
      if (style.reference) continue;
      const mine: number[] = [];
      const theirs: number[] = [];
      for (const task of tasks) {
        const a = task.results.get(style.name)?.[metric.field];
        const b = task.results.get(REFERENCE)?.[metric.field];
        if (typeof a === "number" && typeof b === "number") {
          mine.push(a);
          theirs.push(b);
        }
      }
      pairs = Math.max(pairs, mine.length);
      if (mine.length >= ENOUGH) halves.set(style.name, pairedInterval(mine, theirs, row.tasks).half);
    }
    const note =
      pairs >= ENOUGH
        ? `Whiskers: 95 % CI, paired with the oracle; sampled spread of the newest ${pairs.toLocaleString("en")} pairs.`
        : "";
    return { halves, note };
  }, [metric, standings, stream]);
}
