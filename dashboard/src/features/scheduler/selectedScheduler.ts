/** Context with the scheduler of the scheduler view. */
import { createContext, useContext } from "react";
import type { SchedulerStyle } from "../../lib/schedulerStyle";

export const SelectedSchedulerContext = createContext<SchedulerStyle | null>(null);

export function useSelectedScheduler(): SchedulerStyle {
  const style = useContext(SelectedSchedulerContext);
  if (!style) throw new Error("a widget of the scheduler view was rendered outside of it");
  return style;
}
