import { type KeyboardEvent, type PointerEvent, useCallback, useMemo, useRef, useState } from "react";
import { useElementSize } from "../hooks/useElementSize";
import { device as deviceName, percent } from "../lib/format";
import type { SlowSpans } from "../lib/slowdown";
import { ChartCanvas, type Paint } from "./ChartCanvas";
import { useCrosshair } from "./chartContext";
import { GanttTooltip } from "./GanttTooltip";
import { drawGantt } from "./ganttDraw";
import {
  type Block,
  type BlockDetails,
  blockAt,
  busyBetween,
  type GanttLane,
  type GanttModel,
  type GanttWindow,
  type LaneOfKind,
  type Mark,
} from "./ganttModel";

/** What a chart of a schedule shows: lanes, the visible window, and the marks on its time axis. */
export interface GanttContent {
  lanes: readonly LaneOfKind[];
  scheduler: string;
  window: GanttWindow;
  now: number;
  nowLabel?: string;
  bound: Mark | null;
  makespan: Mark | null;
  slow?: SlowSpans | null;
  drifts?: readonly number[];
}

interface GanttChartProps extends GanttContent {
  /** Task whose blocks are outlined. */
  selected: number | null;
  describe: (block: Block) => BlockDetails;
  onSelect: (task: number) => void;
}

const NONE: readonly number[] = [];
const TOP = 36;
const BOTTOM = 22;

/** Idle share of a lane; null where no time has passed. */
function idleShare(lane: GanttLane, from: number, to: number): number | null {
  return to > from ? Math.min(1, Math.max(0, 1 - busyBetween(lane, from, to) / (to - from))) : null;
}

/** Gantt chart with one lane per device. Dragging pans, the wheel zooms, a click selects. */
export function GanttChart(props: GanttChartProps) {
  const { lanes, scheduler, now, nowLabel, bound, makespan, selected, describe, onSelect } = props;
  const { slow = null, drifts = NONE } = props;
  const { from, to, pan, zoom } = props.window;
  const [box, size] = useElementSize<HTMLDivElement>();
  const crosshair = useCrosshair();
  const [hover, setHover] = useState<{ block: Block; x: number; y: number } | null>(null);
  const drag = useRef<{ x: number; moved: boolean } | null>(null);
  const pitch = Math.max(3, Math.min(110, (size.height - TOP - BOTTOM) / Math.max(1, lanes.length)));
  const laneHeight = pitch > 12 ? pitch - Math.min(8, pitch * 0.2) : pitch - 1;
  const named = pitch >= 14;

  const model = useMemo<GanttModel>(
    () => ({
      lanes,
      from,
      to,
      now,
      nowLabel,
      bound,
      makespan,
      slow,
      drifts,
      selected,
      crosshair: crosshair.at,
      top: TOP,
      pitch,
      laneHeight,
    }),
    [lanes, from, to, now, nowLabel, bound, makespan, slow, drifts, selected, crosshair.at, pitch, laneHeight],
  );
  const draw = useCallback((paint: Paint) => drawGantt(paint, model), [model]);

  const at = (event: PointerEvent<HTMLDivElement>) => {
    const area = event.currentTarget.getBoundingClientRect();
    return { x: event.clientX - area.left, y: event.clientY - area.top, width: area.width };
  };
  const onPointerMove = (event: PointerEvent<HTMLDivElement>) => {
    const { x, y, width } = at(event);
    const perPixel = (to - from) / width;
    if (drag.current) {
      const moved = event.clientX - drag.current.x;
      if (Math.abs(moved) > 2 || drag.current.moved) {
        pan(-moved * perPixel);
        drag.current = { x: event.clientX, moved: true };
        setHover(null);
        return;
      }
    }
    crosshair.move(from + x * perPixel);
    const block = blockAt(model, width, x, y);
    setHover(block ? { block, x, y } : null);
  };
  const onPointerUp = (event: PointerEvent<HTMLDivElement>) => {
    const moved = drag.current?.moved;
    drag.current = null;
    if (moved) return;
    const { x, y, width } = at(event);
    const block = blockAt(model, width, x, y);
    if (block) onSelect(block.task);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = (to - from) / 8;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => pan(-step),
      ArrowRight: () => pan(step),
      "+": () => zoom(1.5),
      "=": () => zoom(1.5),
      "-": () => zoom(1 / 1.5),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  const onWheel = useCallback(
    (event: WheelEvent) => {
      // A plain wheel scrolls the page; Ctrl, Shift or a pinch addresses the chart.
      if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
      event.preventDefault();
      const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
      const perPixel = (to - from) / area.width;
      if (event.ctrlKey) zoom(Math.exp(-event.deltaY / 300), from + (event.clientX - area.left) * perPixel);
      else pan((event.deltaX || event.deltaY) * perPixel);
    },
    [from, to, pan, zoom],
  );

  const end = Math.min(to, now);
  const side = (index: number) => ({ top: TOP + index * pitch, height: laneHeight });
  return (
    <div ref={box} className="relative flex min-h-52 flex-1">
      <div className="relative w-12 shrink-0 md:w-14">
        {named
          ? lanes.map((lane, i) => (
              <span key={lane.device} className="absolute left-0 flex items-center" style={side(i)}>
                {deviceName(lane.device)}
              </span>
            ))
          : null}
      </div>
      <div className="relative min-w-0 flex-1">
        <ChartCanvas
          draw={draw}
          label={`Gantt chart of ${scheduler}, ${lanes.length} devices; arrow keys pan, plus and minus zoom`}
          className="absolute! inset-0 cursor-grab touch-pan-y rounded-[6px] active:cursor-grabbing"
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            drag.current = { x: event.clientX, moved: false };
          }}
          onPointerMove={onPointerMove}
          onPointerUp={onPointerUp}
          onPointerLeave={() => {
            crosshair.move(null);
            setHover(null);
          }}
          onKeyDown={onKeyDown}
          onWheel={onWheel}
        />
        {hover ? (
          <GanttTooltip details={describe(hover.block)} x={hover.x} y={hover.y} width={size.width - 150} />
        ) : null}
      </div>
      <div className="relative ml-3 w-12 shrink-0 text-right md:ml-6 md:w-[72px]">
        <span className="absolute right-0 whitespace-nowrap text-faint" style={{ top: TOP - 24 }}>
          idle
        </span>
        {named
          ? lanes.map((lane, i) => {
              const idle = lane.idle ?? idleShare(lane, from, end);
              return (
                <span
                  key={lane.device}
                  className="absolute right-0 left-0 flex flex-col justify-center"
                  style={side(i)}
                  data-of={scheduler}
                  data-device={lane.device}
                  data-idle={idle ?? undefined}
                >
                  {percent(idle)}
                  <i className="mt-0.5 block h-1 overflow-hidden rounded-full bg-track max-md:hidden">
                    <i
                      className="block h-full rounded-full"
                      style={{
                        width: `${(1 - (idle ?? 1)) * 100}%`,
                        background: lane.kind === "cpu" ? "var(--cpu)" : "var(--gpu)",
                        opacity: 0.75,
                      }}
                    />
                  </i>
                </span>
              );
            })
          : null}
      </div>
    </div>
  );
}
