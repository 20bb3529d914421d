/** Who takes part and how they are drawn. Apart from the other selectors, because the shell needs only this. */
import { useMemo } from "react";
import { fallbackStyle, type SchedulerStyle, styleOf } from "../lib/schedulerStyle";
import { useLive } from "./liveStore";
import { useTheme } from "./uiStore";

/** How every scheduler of the run is drawn, in the API's order. */
export function useSchedulerStyles(): SchedulerStyle[] {
  const theme = useTheme();
  const names = useRunSchedulers();
  const data = useLive((s) => s.schedulers);
  const key = names.join();
  return useMemo(() => {
    const known = new Map(data.map((scheduler) => [scheduler.name, scheduler]));
    return key
      .split(",")
      .filter(Boolean)
      .map((name) => {
        const scheduler = known.get(name);
        return scheduler ? styleOf(scheduler, theme) : fallbackStyle(name, theme);
      })
      .sort((a, b) => a.order - b.order || a.name.localeCompare(b.name));
  }, [data, key, theme]);
}

/** The names that take part: of the status, or of the newest comparison where a status is missing. */
export function useRunSchedulers(): readonly string[] {
  const fromStatus = useLive((s) => s.status?.schedulers);
  const fromRows = useLive((s) => s.comparison);
  return fromStatus?.length ? fromStatus : fromRows.map((row) => row.name);
}
