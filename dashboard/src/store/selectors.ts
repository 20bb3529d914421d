/** Derived values of the stores that several widgets share. */
import { useMemo } from "react";
import type { ComparisonRow } from "../client/models";
import { metricOf } from "../lib/metrics";
import type { SchedulerStyle } from "../lib/schedulerStyle";
import { rankSchedulers, type Standing } from "../lib/standings";
import type { Device } from "./ganttLanes";
import { useLive } from "./liveStore";
import { useSchedulerStyles } from "./schedulerStyles";
import { useUi } from "./uiStore";
import type { Range } from "./urlState";

/** Styles of the schedulers that the legend has switched on. */
export function useVisibleStyles(): readonly SchedulerStyle[] {
  const styles = useSchedulerStyles();
  const names = useUi((s) => s.visible);
  return useMemo(() => {
    const visible = names === null ? styles : styles.filter((style) => names.includes(style.name));
    // A link may name schedulers that do not exist here; then all are visible.
    return visible.length ? visible : styles;
  }, [styles, names]);
}

export function useRow(name: string | null): ComparisonRow | null {
  return useLive((s) => s.comparison.find((row) => row.name === name) ?? null);
}

/** Visible schedulers, best first. */
export function useStandings(metricKey: string): Standing[] {
  const styles = useVisibleStyles();
  const comparison = useLive((s) => s.comparison);
  return useMemo(() => rankSchedulers(comparison, styles, metricOf(metricKey)), [styles, comparison, metricKey]);
}

/** Scheduler in focus: the selected one, else the leader by the server's verdict, else the first that is not the reference. */
export function useFocus(): SchedulerStyle | null {
  const wanted = useUi((s) => s.focus);
  const styles = useSchedulerStyles();
  const leader = useLive((s) => s.verdict?.leader ?? null);
  return (
    styles.find((l) => l.name === wanted) ??
    styles.find((l) => l.name === leader) ??
    styles.find((l) => !l.reference) ??
    styles[0] ??
    null
  );
}

const NO_DEVICES: readonly Device[] = [];

export const useDevices = (): readonly Device[] => useLive((s) => s.status?.platform.devices ?? NO_DEVICES);

/** Bounds of a time range in virtual seconds. */
export function boundsOf(range: Range, now: number): { from: number; to: number } {
  if (range.kind === "fixed") return { from: range.from, to: range.to };
  if (range.kind === "all") return { from: 0, to: now };
  return { from: Math.max(0, now - range.seconds), to: now };
}
