import { type ReactNode, useMemo } from "react";
import { ChartThemeContext, CrosshairContext } from "../charts/chartContext";
import { setCrosshair, useTheme, useUi } from "../store/uiStore";

/** Theme and crosshair of the page for all charts inside. */
export function ChartProvider({ children }: { children: ReactNode }) {
  const theme = useTheme();
  const at = useUi((s) => s.crosshair);
  const crosshair = useMemo(() => ({ at, move: setCrosshair }), [at]);
  return (
    <ChartThemeContext value={theme}>
      <CrosshairContext value={crosshair}>{children}</CrosshairContext>
    </ChartThemeContext>
  );
}
