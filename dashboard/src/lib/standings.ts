/** Ranking of schedulers by one metric, best first. */
import type { ComparisonRow, VerdictRow } from "../client/models";
import type { Metric } from "./metrics";
import { REFERENCE, type SchedulerStyle } from "./schedulerStyle";

export type { VerdictRow };

export interface Standing {
  style: SchedulerStyle;
  row: ComparisonRow;
  value: number;
  /** value ÷ reference value. */
  ratio: number | null;
  /** Half width of the paired 95 % interval, in the metric's unit; null where the API gives none. */
  half: number | null;
}

/** The given schedulers by value, best first. */
export function rankSchedulers(
  comparison: readonly ComparisonRow[],
  styles: readonly SchedulerStyle[],
  metric: Metric,
): Standing[] {
  const rows = new Map(comparison.map((row) => [row.name, row]));
  const reference = rows.get(REFERENCE);
  const base = reference ? metric.value(reference) : null;
  const list: Standing[] = [];
  for (const style of styles) {
    const row = rows.get(style.name);
    const value = row ? metric.value(row) : null;
    if (!row || value === null) continue;
    const half = style.reference ? null : (metric.paired?.(row) ?? null);
    list.push({ style, row, value, ratio: base ? value / base : null, half });
  }
  return list.sort((a, b) => a.value - b.value);
}
