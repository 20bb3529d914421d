import { useCallback, useRef } from "react";
import { ChartCanvas, type Paint } from "./ChartCanvas";
import { horizontal, label, type Scale, vertical } from "./canvasAxes";

interface ScatterPoint {
  x: number;
  y: number;
  color: string;
  id: number;
}

export interface ScatterAxis {
  title: string;
  ticks: readonly number[];
  format: (value: number) => string;
  /** Scale between two pixel positions. */
  scale: (from: number, to: number) => Scale;
}

interface ScatterProps {
  points: readonly ScatterPoint[];
  x: ScatterAxis;
  y: ScatterAxis;
  label: string;
  onSelect?: (id: number) => void;
  /** Width of the vertical axis labels in pixels. */
  left?: number;
}

const LEFT = 36;
const BOTTOM = 36;
const TOP = 8;

/** Scatter chart on a canvas; 300 points as SVG take three times as long to update. */
export function ScatterChart({ points, x, y, label: words, onSelect, left = LEFT }: ScatterProps) {
  const placed = useRef<{ id: number; px: number; py: number }[]>([]);
  const draw = useCallback(
    ({ context, size: { width, height }, tokens }: Paint) => {
      const sx = x.scale(left, width - 6);
      const sy = y.scale(height - BOTTOM, TOP);
      for (const tick of y.ticks) {
        horizontal(context, sy(tick), left, width, tick === y.ticks[0] ? tokens.baseline : tokens.hair);
        label(context, y.format(tick), left - 8, sy(tick), tokens, "right");
      }
      for (const tick of x.ticks) {
        vertical(context, sx(tick), TOP, height - BOTTOM, tokens.hair);
        const half = context.measureText(x.format(tick)).width / 2;
        label(context, x.format(tick), Math.min(width - half, sx(tick)), height - BOTTOM + 12, tokens);
      }
      label(context, x.title, (left + width) / 2, height - 7, tokens, "center", tokens.muted);
      placed.current = points.map((point) => ({ id: point.id, px: sx(point.x), py: sy(point.y) }));
      context.globalAlpha = 0.85;
      points.forEach((point, i) => {
        const at = placed.current[i];
        if (!at) return;
        context.fillStyle = point.color;
        context.beginPath();
        context.arc(at.px, at.py, 2.4, 0, 2 * Math.PI);
        context.fill();
      });
      context.globalAlpha = 1;
    },
    [points, x, y, left],
  );
  return (
    <ChartCanvas
      draw={draw}
      label={words}
      className="min-h-40 flex-1"
      onPointerUp={(event) => {
        if (!onSelect) return;
        const area = event.currentTarget.getBoundingClientRect();
        const [px, py] = [event.clientX - area.left, event.clientY - area.top];
        let best: { id: number; d: number } | null = null;
        for (const point of placed.current) {
          const d = Math.hypot(point.px - px, point.py - py);
          if (d < 8 && (!best || d < best.d)) best = { id: point.id, d };
        }
        if (best) onSelect(best.id);
      }}
    />
  );
}
