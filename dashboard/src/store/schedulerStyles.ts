/** Drawing styles of schedulers in the current theme. Apart from the other selectors, because the shell needs only this. */
import { useMemo } from "react";
import { fallbackStyle, type SchedulerStyle, styleOf } from "../lib/schedulerStyle";
import { useLive } from "./liveStore";
import { useTheme } from "./uiStore";

/** Styles of the named schedulers in the API's order, also of those outside the current run. */
export function useStylesOf(names: readonly string[]): ReadonlyMap<string, SchedulerStyle> {
  const theme = useTheme();
  const schedulers = useLive((s) => s.schedulers);
  const key = names.join("\n");
  return useMemo(() => {
    const known = new Map(schedulers.map((scheduler) => [scheduler.name, scheduler]));
    const styles = key
      .split("\n")
      .filter(Boolean)
      .map((name) => {
        const scheduler = known.get(name);
        return scheduler ? styleOf(scheduler, theme) : fallbackStyle(name, theme);
      });
    styles.sort((a, b) => a.order - b.order || a.name.localeCompare(b.name));
    return new Map(styles.map((style) => [style.name, style]));
  }, [schedulers, key, theme]);
}

/** Styles of all schedulers of the run: of the status, or of the newest comparison where a status is missing. */
export function useSchedulerStyles(): readonly SchedulerStyle[] {
  const fromStatus = useLive((s) => s.status?.schedulers);
  const fromRows = useLive((s) => s.comparison);
  const styles = useStylesOf(fromStatus?.length ? fromStatus : fromRows.map((row) => row.name));
  return useMemo(() => [...styles.values()], [styles]);
}
