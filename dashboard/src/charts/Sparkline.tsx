import { useCallback } from "react";
import { alpha } from "../lib/color";
import { type SeriesPoint, thinSeries } from "../lib/timeSeries";
import { ChartCanvas, type Paint } from "./ChartCanvas";
import { horizontal, linearScale, vertical } from "./canvasAxes";
import { useCrosshair } from "./chartContext";

interface SparkProps {
  points: readonly SeriesPoint[];
  from: number;
  to: number;
  color: string;
  dash?: readonly number[];
  label: string;
  className?: string;
}

/** Small area chart from 0 to 100 % over time, with the shared crosshair. */
export function Sparkline({ points, from, to, color, label, className }: SparkProps) {
  const { at: crosshair } = useCrosshair();
  const draw = useCallback(
    ({ context, size: { width, height }, tokens }: Paint) => {
      const x = linearScale(from, to, 0, width);
      const y = linearScale(0, 1, height - 1, 1);
      horizontal(context, 0, 0, width, tokens.hair);
      horizontal(context, height - 1, 0, width, tokens.baseline);
      const line = thinSeries(points);
      const first = line[0];
      const last = line[line.length - 1];
      if (first && last) {
        context.beginPath();
        for (const [i, { t, value }] of line.entries()) {
          if (i === 0) context.moveTo(x(t), y(value));
          else context.lineTo(x(t), y(value));
        }
        context.strokeStyle = color;
        context.lineWidth = 1.5;
        context.lineJoin = "round";
        context.stroke();
        context.lineTo(x(last.t), height);
        context.lineTo(x(first.t), height);
        context.closePath();
        context.fillStyle = alpha(color, 0.2);
        context.fill();
      }
      if (crosshair !== null && crosshair >= from && crosshair <= to)
        vertical(context, x(crosshair), 0, height, tokens.accent);
    },
    [points, from, to, color, crosshair],
  );
  return <ChartCanvas draw={draw} label={label} className={className} />;
}
