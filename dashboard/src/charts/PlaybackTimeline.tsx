import { type KeyboardEvent, type PointerEvent, useRef } from "react";
import { useElementSize } from "../hooks/useElementSize";
import { compact } from "../lib/format";
import { handleSliderKey } from "../lib/sliderKeys";
import { ticks } from "../lib/statistics";

export interface TimelineMark {
  at: number;
  kind: "drift" | "note" | "retrained";
  label: string;
}

interface PlayStripProps {
  /** Height of each bar in any unit; null leaves a gap. */
  values: readonly (number | null)[];
  /** Number of tasks at the end of each bar. */
  ends: readonly number[];
  marks: readonly TimelineMark[];
  at: number;
  label: string;
  valueText: string;
  onMove: (at: number) => void;
}

const TOP = 22;
const BARS = 44;
const HEIGHT = TOP + BARS + 28;
/** Quantile at which bars are cut off, so that outliers do not hide the rest. */
const CAP = 0.97;

function capOf(values: readonly (number | null)[]): number {
  const known = values.filter((v): v is number => v !== null && v > 0).sort((a, b) => a - b);
  return known[Math.min(known.length - 1, Math.floor(known.length * CAP))] || 1;
}

/** At most one mark every three pixels; more would overlap. */
function thinned(marks: readonly TimelineMark[], x: (at: number) => number): TimelineMark[] {
  const taken = new Set<number>();
  return marks.filter((mark) => {
    const pixel = Math.round(x(mark.at) / 3);
    return taken.has(pixel) ? false : taken.add(pixel);
  });
}

/** Timeline of a run as bars with a playhead that the pointer and keys move. */
export function PlaybackTimeline({ values, ends, marks, at, label, valueText, onMove }: PlayStripProps) {
  const [box, { width }] = useElementSize<HTMLDivElement>();
  const dragging = useRef(false);
  const total = ends.at(-1) ?? 1;
  const inner = Math.max(1, width - 16);
  const x = (task: number) => 8 + (task / total) * inner;
  const top = capOf(values);
  const seek = (event: PointerEvent<HTMLDivElement>) => {
    const area = event.currentTarget.getBoundingClientRect();
    onMove(Math.min(total, Math.max(1, ((event.clientX - area.left - 8) / inner) * total)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = total / Math.max(1, ends.length);
    const keys: Record<string, number> = {
      ArrowLeft: at - step,
      ArrowDown: at - step,
      ArrowRight: at + step,
      ArrowUp: at + step,
      PageDown: at - 10 * step,
      PageUp: at + 10 * step,
      Home: 1,
      End: total,
    };
    handleSliderKey(event, keys, 1, total, onMove);
  };
  const flags = marks.filter((mark) => mark.kind !== "retrained");
  const trained = thinned(
    marks.filter((mark) => mark.kind === "retrained"),
    x,
  );
  return (
    <div
      ref={box}
      role="slider"
      aria-label={label}
      aria-valuemin={1}
      aria-valuemax={total}
      tabIndex={0}
      aria-valuenow={Math.round(at)}
      aria-valuetext={valueText}
      className="min-w-0 flex-1 cursor-ew-resize touch-pan-y select-none rounded-[6px]"
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        dragging.current = true;
        seek(event);
      }}
      onPointerMove={(event) => dragging.current && seek(event)}
      onPointerUp={() => {
        dragging.current = false;
      }}
      onPointerCancel={() => {
        dragging.current = false;
      }}
    >
      {width > 0 ? (
        <svg width={width} height={HEIGHT} aria-hidden="true" className="marks block">
          <rect x={8} width={inner} y={TOP} height={BARS} rx={3} fill="var(--track)" />
          {values.map((value, i) => {
            const from = x(ends[i - 1] ?? 0);
            const to = x(ends[i] ?? 0);
            const tall = value === null ? 0 : Math.max(2, Math.min(1, value / top) * BARS);
            const past = (ends[i] ?? 0) <= at + 0.5;
            return (
              <rect
                key={ends[i]}
                x={from + 0.5}
                width={Math.max(0.5, to - from - 1)}
                y={TOP + BARS - tall}
                height={tall}
                fill={past ? "var(--bar)" : "var(--control)"}
                opacity={past ? 1 : 0.45}
              />
            );
          })}
          {trained.map((mark) => (
            <rect
              key={mark.at}
              x={x(mark.at) - 0.5}
              width={1}
              y={TOP + BARS + 2}
              height={5}
              fill="var(--muted)"
              opacity={0.7}
            />
          ))}
          {flags.map((mark, i) => (
            <g key={`${mark.at}-${i}`} transform={`translate(${x(mark.at)} 10)`}>
              <title>{mark.label}</title>
              {mark.kind === "drift" ? (
                <path d="M0-5.5L5.5 0L0 5.5L-5.5 0z" fill="var(--warn)" />
              ) : (
                <circle r={3.5} fill="var(--muted)" />
              )}
            </g>
          ))}
          {ticks(0, total, width < 480 ? 3 : 6).map((task) => (
            <text
              key={task}
              x={x(task)}
              y={HEIGHT - 4}
              textAnchor={x(task) < 24 ? "start" : x(task) > width - 24 ? "end" : "middle"}
              fontSize="12"
              fill="var(--faint)"
            >
              {compact(task)}
            </text>
          ))}
          <line x1={x(at)} x2={x(at)} y1={TOP - 4} y2={TOP + BARS + 4} stroke="var(--text)" strokeWidth={2} />
          <circle cx={x(at)} cy={TOP + BARS / 2} r={6} fill="var(--panel)" stroke="var(--text)" strokeWidth={2.5} />
        </svg>
      ) : null}
    </div>
  );
}
