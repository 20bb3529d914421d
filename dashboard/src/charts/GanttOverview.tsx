import { useCallback, useMemo, useRef, useState } from "react";
import { alpha } from "../lib/color";
import { ChartCanvas, type Paint } from "./ChartCanvas";
import { busyBetween, type GanttWindow, type LaneOfKind } from "./ganttModel";

interface OverviewProps {
  lanes: readonly LaneOfKind[];
  from: number;
  to: number;
  /** The window of the chart above. */
  window: GanttWindow;
}

const BINS = 160;

/** Mean busy share of the CPUs and of the accelerators in each bin. */
function useBins(lanes: OverviewProps["lanes"], from: number, to: number) {
  return useMemo(() => {
    const width = (to - from) / BINS || 1;
    const rows = [new Float32Array(BINS), new Float32Array(BINS)] as const;
    const counts = [0, 0];
    for (const lane of lanes) {
      const which = lane.kind === "cpu" ? 0 : 1;
      counts[which] = (counts[which] ?? 0) + 1;
      for (let bin = 0; bin < BINS; bin++) {
        const busy = busyBetween(lane, from + bin * width, from + (bin + 1) * width) / width;
        rows[which][bin] = (rows[which][bin] as number) + busy;
      }
    }
    return rows.map((row, which) => row.map((sum) => sum / Math.max(1, counts[which] as number)));
  }, [lanes, from, to]);
}

/** Overview of the whole time span in two rows, with the visible window as a brush. */
export function GanttOverview({ lanes, from, to, window }: OverviewProps) {
  const bins = useBins(lanes, from, to);
  const drag = useRef<number | null>(null);
  const [draft, setDraft] = useState<{ from: number; to: number } | null>(null);
  const visible = draft ?? window;
  const draw = useCallback(
    ({ context, size: { width, height }, tokens }: Paint) => {
      const half = height / 2;
      bins.forEach((row, which) => {
        const base = which === 0 ? half - 1 : height - 1;
        context.fillStyle = alpha(which === 0 ? tokens.cpu : tokens.gpu, 0.55);
        for (let i = 0; i < BINS; i++) {
          const tall = Math.min(1, row[i] as number) * (half - 2);
          context.fillRect((i * width) / BINS, base - tall, width / BINS + 0.5, tall);
        }
      });
      const x = (t: number) => ((t - from) / (to - from || 1)) * width;
      const [left, right] = [Math.max(0, x(visible.from)), Math.min(width, x(visible.to))];
      context.fillStyle = alpha(tokens.accent, 0.16);
      context.strokeStyle = tokens.accent;
      context.lineWidth = 1.5;
      context.beginPath();
      context.roundRect(left + 1, 1, Math.max(6, right - left - 2), height - 2, 4);
      context.fill();
      context.stroke();
    },
    [bins, from, to, visible.from, visible.to],
  );
  const timeAt = (event: React.PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return from + (Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) || 0) * (to - from);
  };
  return (
    <ChartCanvas
      draw={draw}
      label="Overview of CPU and GPU load; drag to choose a time range"
      className="h-8 flex-1 cursor-crosshair touch-none"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = timeAt(event);
      }}
      onPointerMove={(event) => {
        const start = drag.current;
        if (start === null) return;
        const end = timeAt(event);
        setDraft({ from: Math.min(start, end), to: Math.max(start, end) });
      }}
      onPointerUp={() => {
        drag.current = null;
        if (draft && draft.to - draft.from > (to - from) / 200) window.brush(draft.from, draft.to);
        setDraft(null);
      }}
    />
  );
}
