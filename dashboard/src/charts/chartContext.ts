/** Theme and shared crosshair of all charts; the page provides both, so that charts need no store. */
import { createContext, useContext } from "react";
import type { ThemeName } from "../lib/designTokens";

export const ChartThemeContext = createContext<ThemeName>("dark");

interface Crosshair {
  /** Virtual seconds under the pointer; null outside of charts. */
  at: number | null;
  move: (at: number | null) => void;
}

export const CrosshairContext = createContext<Crosshair>({ at: null, move: () => {} });

export const useChartTheme = (): ThemeName => useContext(ChartThemeContext);
export const useCrosshair = (): Crosshair => useContext(CrosshairContext);
