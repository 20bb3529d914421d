import { type KeyboardEvent, type PointerEvent, type ReactNode, useCallback, useRef } from "react";
import { useElementSize } from "../hooks/useElementSize";
import { handleSliderKey } from "../lib/sliderKeys";
import { ChartCanvas, type Paint } from "./ChartCanvas";

/** Part of an axis, as positions from 0 at the bottom to 1 at the top. */
export type Span = readonly [number, number];

export interface ParallelAxis {
  key: string;
  label: string;
  ticks: readonly { at: number; text: string }[];
  /** Step of the arrow keys. */
  step: number;
  /** Part that is kept; null for all. */
  span: Span | null;
  textAt: (position: number) => string;
}

interface ParallelLine {
  /** Position on each axis; null where the value is missing, which interrupts the line. */
  at: readonly (number | null)[];
  color: string;
  kept: boolean;
}

interface ParallelProps {
  axes: readonly ParallelAxis[];
  lines: readonly ParallelLine[];
  onSpan: (key: string, span: Span | null) => void;
  /** Menu of an axis, beside its title. */
  menu: (key: string) => ReactNode;
  label: string;
}

const TOP = 44;
const BOTTOM = 16;
const SIDE = 56;
/** Least distance of two axes; with more of them the chart scrolls. */
const GAP = 104;
/** Shorter strokes of the pointer clear the filter, and ends so near to those of the axis are the axis's. */
const CLICK = 0.02;

/** Parallel coordinates: one line per row, and on each axis a range that filters by pointer or by keys. */
export function ParallelCoordinates({ axes, lines, onSpan, menu, label }: ParallelProps) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const plot = height - TOP - BOTTOM;
  const inner = Math.max(width, 2 * SIDE + GAP * (axes.length - 1));
  const xOf = useCallback(
    (i: number) => (axes.length > 1 ? SIDE + (i * (inner - 2 * SIDE)) / (axes.length - 1) : inner / 2),
    [axes.length, inner],
  );
  const draw = useCallback(
    ({ context, tokens }: Paint) => {
      context.lineJoin = "round";
      for (const kept of [false, true]) {
        context.lineWidth = kept ? 1.4 : 1;
        for (const line of lines) {
          if (line.kept !== kept) continue;
          context.strokeStyle = kept ? line.color : tokens.baseline;
          context.globalAlpha = kept ? Math.max(0.25, Math.min(0.9, 60 / lines.length)) : 0.35;
          context.beginPath();
          let open = false;
          line.at.forEach((at, i) => {
            if (at === null) open = false;
            else if (open) context.lineTo(xOf(i), TOP + (1 - at) * plot);
            else {
              context.moveTo(xOf(i), TOP + (1 - at) * plot);
              open = true;
            }
          });
          context.stroke();
        }
      }
      context.globalAlpha = 1;
    },
    [lines, plot, xOf],
  );
  return (
    <div ref={box} className="relative min-h-72 flex-1">
      <section
        aria-label={`${label}, axes`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys scroll what has the focus
        tabIndex={0}
        className="thin-scroll absolute inset-0 overflow-x-auto overflow-y-hidden"
      >
        <div className="relative h-full" style={{ width: inner }}>
          <ChartCanvas draw={draw} label={label} className="marks absolute! inset-0" />
          {plot > 0
            ? axes.map((axis, i) => (
                <Axis
                  key={axis.key}
                  axis={axis}
                  x={xOf(i)}
                  plot={plot}
                  menu={menu(axis.key)}
                  onSpan={(span) => onSpan(axis.key, span)}
                />
              ))
            : null}
        </div>
      </section>
    </div>
  );
}

interface AxisProps {
  axis: ParallelAxis;
  x: number;
  plot: number;
  menu: ReactNode;
  onSpan: (span: Span | null) => void;
}

function Axis({ axis, x, plot, menu, onSpan }: AxisProps) {
  const from = useRef<number | null>(null);
  const [low, high] = axis.span ?? [0, 1];
  const positionOf = (event: PointerEvent<HTMLElement>) => {
    const area = event.currentTarget.getBoundingClientRect();
    const at = 1 - (event.clientY - area.top) / area.height;
    return at < CLICK ? 0 : at > 1 - CLICK ? 1 : at;
  };
  const set = (a: number, b: number) => onSpan(a <= 0 && b >= 1 ? null : [Math.max(0, a), Math.min(1, b)]);
  const onKeyDown = (end: "low" | "high") => (event: KeyboardEvent) => {
    if (["Delete", "Backspace", "Escape"].includes(event.key) && axis.span) {
      event.preventDefault();
      event.stopPropagation();
      onSpan(null);
      return;
    }
    const now = end === "low" ? low : high;
    const keys = { ArrowUp: now + axis.step, ArrowDown: now - axis.step, Home: 0, End: 1 };
    const move = (value: number) =>
      end === "low" ? set(Math.min(value, high), high) : set(low, Math.max(value, low));
    handleSliderKey(event, keys, 0, 1, move);
  };
  return (
    <div className="absolute top-0 bottom-0 w-0" style={{ left: x }}>
      <div className="absolute top-0 flex w-26 -translate-x-1/2 items-center justify-center text-12">
        <span
          className={axis.span ? "truncate font-semibold text-accent" : "truncate text-muted"}
          title={axis.label}
        >
          {axis.label}
        </span>
        {menu}
      </div>
      <div className="absolute w-px bg-line" style={{ top: TOP, height: plot }} />
      {axis.ticks.map((one) => (
        <span
          key={`${one.at} ${one.text}`}
          aria-hidden="true"
          className="pointer-events-none absolute max-w-20 truncate rounded-[3px] bg-panel/80 px-0.5 text-12 text-ink leading-4"
          style={{ left: 9, top: TOP + (1 - one.at) * plot - 8 }}
        >
          {one.text}
        </span>
      ))}
      <div
        className="absolute w-6 -translate-x-1/2 cursor-crosshair touch-none"
        style={{ top: TOP, height: plot }}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          from.current = positionOf(event);
        }}
        onPointerMove={(event) => {
          if (from.current === null) return;
          const at = positionOf(event);
          if (Math.abs(at - from.current) > CLICK) set(Math.min(at, from.current), Math.max(at, from.current));
        }}
        onPointerUp={(event) => {
          if (from.current !== null && Math.abs(positionOf(event) - from.current) <= CLICK) onSpan(null);
          from.current = null;
        }}
      />
      {axis.span ? (
        <div
          className="pointer-events-none absolute w-2.5 -translate-x-1/2 rounded-[3px] border border-accent bg-accent/25"
          style={{ top: TOP + (1 - high) * plot, height: Math.max(2, (high - low) * plot) }}
        />
      ) : null}
      {(["low", "high"] as const).map((end) => {
        const at = end === "low" ? low : high;
        return (
          <div
            key={end}
            role="slider"
            tabIndex={0}
            aria-orientation="vertical"
            aria-label={`${axis.label}, ${end === "low" ? "lowest" : "highest"} kept`}
            aria-valuemin={0}
            aria-valuemax={100}
            aria-valuenow={Math.round(at * 100)}
            aria-valuetext={axis.textAt(at)}
            onKeyDown={onKeyDown(end)}
            className="absolute h-1 w-4 -translate-x-1/2 rounded-full bg-control"
            style={{ top: TOP + (1 - at) * plot + (end === "low" ? 1 : -5) }}
          />
        );
      })}
    </div>
  );
}
