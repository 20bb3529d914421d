import { useCallback } from "react";
import { mix } from "../lib/color";
import { TOKENS } from "../lib/designTokens";
import { device as deviceName, percent } from "../lib/format";
import { type SeriesPoint, thinSeries } from "../lib/timeSeries";
import { ChartCanvas, type Paint } from "./ChartCanvas";
import { horizontal, label, linearScale, vertical } from "./canvasAxes";
import { useChartTheme, useCrosshair } from "./chartContext";

interface Row {
  key: string;
  points: readonly SeriesPoint[];
}

const LEFT = 44;
const BOTTOM = 20;

function shades(rows: readonly Row[], theme: "dark" | "light"): string[] {
  const { cpu, gpu, panel } = TOKENS[theme];
  let accelerators = 0;
  return rows.map((row) =>
    row.key.startsWith("cpu") ? mix(cpu, panel, 0.25) : mix(gpu, panel, 0.15 + 0.16 * (accelerators++ % 5)),
  );
}

/** Stacked busy shares of all devices; the top edge is the mean utilization of the cluster. */
export function StackedUtilization({ rows, from, to }: { rows: readonly Row[]; from: number; to: number }) {
  const theme = useChartTheme();
  const { at: crosshair } = useCrosshair();
  const colors = shades(rows, theme);
  const draw = useCallback(
    ({ context, size: { width, height }, tokens, theme: now }: Paint) => {
      const x = linearScale(from, to, LEFT, width);
      const y = linearScale(0, 1, height - BOTTOM, 6);
      for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
        horizontal(context, y(tick), LEFT, width, tick === 0 ? tokens.baseline : tokens.hair);
        label(context, `${tick * 100}${tick === 1 ? " %" : ""}`, LEFT - 8, y(tick), tokens, "right");
      }
      const lines = rows.map((row) => thinSeries(row.points));
      const fills = shades(rows, now);
      const base = new Float64Array(lines[0]?.length ?? 0);
      lines.forEach((line, index) => {
        if (line.length < 2 || line.length !== base.length) return;
        context.beginPath();
        for (const [i, { t }] of line.entries()) context.lineTo(x(t), y(base[i] as number));
        for (let i = line.length - 1; i >= 0; i--) {
          const point = line[i] as SeriesPoint;
          base[i] = (base[i] as number) + point.value / rows.length;
          context.lineTo(x(point.t), y(base[i] as number));
        }
        context.closePath();
        context.fillStyle = fills[index] as string;
        context.fill();
      });
      if (crosshair !== null && crosshair >= from && crosshair <= to)
        vertical(context, x(crosshair), 0, height - BOTTOM, tokens.accent);
      label(context, `${from.toFixed(0)} s`, LEFT, height - 8, tokens, "left");
      label(context, `${to.toFixed(0)} s`, width, height - 8, tokens, "right");
    },
    [rows, from, to, crosshair],
  );
  const total = rows.reduce((sum, row) => sum + (row.points.at(-1)?.value ?? 0), 0) / Math.max(1, rows.length);
  return (
    <div className="flex min-h-40 flex-1 flex-col">
      <ChartCanvas
        draw={draw}
        label={`Total load of the cluster, now ${percent(total)}`}
        className="min-h-32 flex-1"
      />
      <div className="mt-1 flex flex-wrap gap-x-4 text-muted">
        {rows.length <= 8
          ? rows.map((row, i) => (
              <span key={row.key} className="flex items-center gap-1.5">
                <i className="size-2 rounded-[2px]" style={{ background: colors[i] }} />
                {deviceName(row.key)}
              </span>
            ))
          : null}
        <span className="ml-auto text-ink">total {percent(total)}</span>
      </div>
    </div>
  );
}
