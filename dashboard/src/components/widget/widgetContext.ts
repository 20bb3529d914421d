/** What a panel knows of the place it stands in. The grid provides it; a panel outside a grid has none. */
import { createContext, useContext } from "react";

interface Widget {
  view: string;
  id: string;
  remove: () => void;
  /** Shift by columns and rows; `grow` changes the size instead. */
  nudge: (dx: number, dy: number, grow: boolean) => void;
}

export const WidgetContext = createContext<Widget | null>(null);
export const useWidget = (): Widget | null => useContext(WidgetContext);
