/** Curves of the workspace: over the tasks or the time of a run, or over the load of runs and sweeps. */
import type { TrendSeries } from "../../charts/trendScale";
import type { Quantity } from "../../lib/format";
import { type SchedulerStyle, shortLabel } from "../../lib/schedulerStyle";
import { deviation, mean, tQuantile } from "../../lib/statistics";
import { numberOf, type Row, type Source } from "./workspaceData";
import type { WorkspaceState } from "./workspaceState";

export const CURVE_METRICS: readonly { value: string; label: string; kind: Quantity }[] = [
  { value: "latency", label: "latency", kind: "time" },
  { value: "time", label: "time", kind: "time" },
  { value: "energy", label: "energy", kind: "energy" },
  { value: "cost", label: "cost", kind: "cost" },
  { value: "regret", label: "regret", kind: "time" },
];

type TrendField = "mean_latency" | "mean_time" | "mean_energy" | "mean_cost" | "mean_regret";

/** Schedulers whose curves are drawn for a source. */
export function schedulersOf(source: Source, rows: readonly Row[], by: string): string[] {
  const own = [...new Set(rows.filter((row) => row.source === source).map((row) => row.scheduler))];
  if (by === "all") return own;
  const one = by === "leader" ? source.leader : by;
  return own.filter((name) => name === one);
}

function points(source: Source, scheduler: string, rows: readonly Row[], state: WorkspaceState) {
  const field = `mean_${state.y}` as TrendField;
  if (state.x !== "load")
    return (source.trends?.buckets ?? []).flatMap((bucket) => {
      const y = bucket.schedulers[scheduler]?.[field] ?? null;
      const x = state.x === "task" ? bucket.last_ordinal + 1 : bucket.first_arrival;
      return y === null ? [] : [{ x, y, half: null }];
    });
  const byLoad = new Map<number, number[]>();
  for (const row of rows) {
    const [load, y] = [numberOf(row, "load"), numberOf(row, field)];
    if (row.source !== source || row.scheduler !== scheduler || load === null || y === null) continue;
    byLoad.set(load, [...(byLoad.get(load) ?? []), y]);
  }
  return [...byLoad]
    .sort((a, b) => a[0] - b[0])
    .map(([x, ys]) => ({
      x,
      y: mean(ys),
      half: ys.length > 1 ? (tQuantile(ys.length - 1) * deviation(ys)) / Math.sqrt(ys.length) : null,
    }));
}

/** One line per source and scheduler: the colour tells the source, glyph and dash the scheduler. */
export function curvesOf(
  sources: readonly Source[],
  rows: readonly Row[],
  state: WorkspaceState,
  styles: ReadonlyMap<string, SchedulerStyle>,
): TrendSeries[] {
  const several = state.by === "all";
  return sources.flatMap((source, order) =>
    schedulersOf(source, rows, state.by).map((scheduler) => {
      const own = styles.get(scheduler);
      const style: SchedulerStyle = {
        name: `${source.key} ${scheduler}`,
        label: several ? `${own ? shortLabel(own) : scheduler}, ${source.label}` : source.label,
        color: source.color,
        glyph: own?.glyph ?? "●",
        dash: several ? (own?.dash ?? []) : source.dash,
        width: 1.75,
        order,
        reference: false,
        told: false,
      };
      return { style, points: points(source, scheduler, rows, state) };
    }),
  );
}
