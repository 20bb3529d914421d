/** Ranking of schedulers by one metric, best first. */
import type { ComparisonRow } from "../client/models";
import { intervalsOverlap } from "./intervalOverlap";
import type { Metric } from "./metrics";
import { REFERENCE, type SchedulerStyle } from "./schedulerStyle";

export interface Standing {
  style: SchedulerStyle;
  row: ComparisonRow;
  value: number;
  /** value ÷ reference value. */
  ratio: number | null;
  /** Half width of the paired 95 % interval, in the metric's unit; null where the API gives none. */
  half: number | null;
}

/** The given schedulers by value, the reference before all others. */
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
  return list.sort((a, b) => Number(b.style.reference) - Number(a.style.reference) || a.value - b.value);
}

export interface Verdict {
  leader: Standing;
  runnerUp: Standing | null;
  /** The intervals of the two overlap, or the API gave none. */
  close: boolean;
}

export function verdictOf(standings: readonly Standing[]): Verdict | null {
  const [leader, runnerUp = null] = standings.filter((standing) => !standing.style.reference);
  if (!leader) return null;
  const close =
    runnerUp !== null && intervalsOverlap(leader.value, leader.half ?? 0, runnerUp.value, runnerUp.half ?? 0);
  return { leader, runnerUp, close };
}
