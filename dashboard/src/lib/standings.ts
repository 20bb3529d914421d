/** Ranking of schedulers by one metric, best first. */
import type { ComparisonRow, VerdictRow } from "../client/models";
import type { Metric } from "./metrics";
import type { SchedulerStyle } from "./schedulerStyle";

export type { VerdictRow };

export interface Standing {
  style: SchedulerStyle;
  row: ComparisonRow;
  value: number;
  /** Half width of the 95 % interval of the value; null where the API gives none. */
  half: number | null;
}

/** The given schedulers by value, best first; those that know durations come last. */
export function rankSchedulers(
  comparison: readonly ComparisonRow[],
  styles: readonly SchedulerStyle[],
  metric: Metric,
): Standing[] {
  const rows = new Map(comparison.map((row) => [row.name, row]));
  const list: Standing[] = [];
  for (const style of styles) {
    const row = rows.get(style.name);
    const value = row ? metric.value(row) : null;
    if (!row || value === null) continue;
    list.push({ style, row, value, half: metric.half?.(row) ?? null });
  }
  return list.sort((a, b) => Number(a.style.told) - Number(b.style.told) || a.value - b.value);
}
