/** Position of a widget in its grid; null outside of a grid. */
import { createContext, useContext } from "react";

interface Widget {
  view: string;
  id: string;
  remove: () => void;
  /** Moves by columns and rows; `grow` changes the size instead. */
  nudge: (dx: number, dy: number, grow: boolean) => void;
}

export const WidgetContext = createContext<Widget | null>(null);
export const useWidget = (): Widget | null => useContext(WidgetContext);
