/** Questions that several widgets ask of the stores. */
import { useMemo } from "react";
import type { ComparisonRow } from "../client/models";
import { overlap } from "../lib/intervalOverlap";
import { metricOf } from "../lib/metrics";
import { REFERENCE, type SchedulerStyle } from "../lib/schedulerStyle";
import type { Device } from "./ganttLanes";
import { useLive } from "./liveStore";
import { useSchedulerStyles } from "./schedulerStyles";
import { useUi } from "./uiStore";
import type { Range } from "./urlState";

export { useRunSchedulers, useSchedulerStyles } from "./schedulerStyles";

/** Those the legend has switched on. */
export function useVisibleStyles(): SchedulerStyle[] {
  const styles = useSchedulerStyles();
  const shown = useUi((s) => s.shown);
  return useMemo(() => {
    const visible = shown === null ? styles : styles.filter((style) => shown.includes(style.name));
    // A link whose schedulers do not exist here must not show an empty page.
    return visible.length ? visible : styles;
  }, [styles, shown]);
}

export function useRow(name: string | null): ComparisonRow | null {
  return useLive((s) => s.comparison.find((row) => row.name === name) ?? null);
}

export interface Standing {
  style: SchedulerStyle;
  row: ComparisonRow;
  value: number;
  /** value ÷ reference value. */
  ratio: number | null;
  /** Half width of the paired 95 % interval, in the metric's unit; null where the API gives none. */
  half: number | null;
}

/** Everybody shown, best first; the reference first of all. */
export function useStandings(metricKey: string): Standing[] {
  const styles = useVisibleStyles();
  const comparison = useLive((s) => s.comparison);
  return useMemo(() => {
    const metric = metricOf(metricKey);
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
  }, [styles, comparison, metricKey]);
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
  const close = runnerUp !== null && overlap(leader.value, leader.half ?? 0, runnerUp.value, runnerUp.half ?? 0);
  return { leader, runnerUp, close };
}

/** The scheduler in focus: the one asked for, else the leader by latency, else the first contestant. */
export function useFocus(): SchedulerStyle | null {
  const wanted = useUi((s) => s.focus);
  const styles = useSchedulerStyles();
  const metric = useUi((s) => s.metric);
  const verdict = verdictOf(useStandings(metric));
  return (
    styles.find((l) => l.name === wanted) ??
    verdict?.leader.style ??
    styles.find((l) => !l.reference) ??
    styles[0] ??
    null
  );
}

const NO_DEVICES: readonly Device[] = [];

export const useDevices = (): readonly Device[] => useLive((s) => s.status?.platform.devices ?? NO_DEVICES);

/** The range in virtual seconds. "Last" follows the newest update. */
export function boundsOf(range: Range, now: number): { from: number; to: number } {
  if (range.kind === "fixed") return { from: range.from, to: range.to };
  if (range.kind === "all") return { from: 0, to: now };
  return { from: Math.max(0, now - range.seconds), to: now };
}
