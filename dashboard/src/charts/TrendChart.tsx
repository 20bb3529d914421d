import { useState } from "react";
import { classNames } from "../components/ui/classNames";
import { SchedulerGlyph } from "../components/ui/SchedulerGlyph";
import { useElementSize } from "../hooks/useElementSize";
import { compact, estimate, type Quantity, quantity, ratio, ratioEstimate, tick } from "../lib/format";
import type { SchedulerStyle } from "../lib/schedulerStyle";
import { linearScale, logScale } from "./canvasAxes";
import { SeriesPath } from "./SeriesPath";
import { TimeMarks } from "./TimeMarks";
import { TooltipBox } from "./TooltipBox";
import { isLogarithmic, pieces, ratioTicks, spread, type TrendSeries, unitAxis } from "./trendScale";

interface TrendLinesProps {
  series: readonly TrendSeries[];
  /** Labels of the horizontal axis. */
  xTicks: readonly { at: number; text: string }[];
  /** Title of the axis; none for a short chart whose labels have units. */
  xTitle?: string;
  /** Title of the tooltip at a position. */
  nameOf: (x: number) => string;
  marks?: readonly { x: number; label: string }[];
  /** Stretches of the horizontal axis that are shaded. */
  bands?: readonly (readonly [number, number])[];
  /** Allows less height, for a chart on the first screen. */
  compact?: boolean;
  /** Position of the playhead. */
  cursor?: number | null;
  /** Largest distance of points that are joined; a larger one means missing data. */
  gap?: number;
  label: string;
  /** Quantity of the values; without it they are ratios to the oracle. */
  unit?: Quantity;
}

const TOP = 16;

function Names({
  rows,
  left,
  top,
  show,
}: {
  show: (value: number) => string;
  rows: readonly { style: SchedulerStyle; last: number }[];
  left: number;
  top: readonly number[];
}) {
  return rows.map(({ style, last }, i) => (
    <span
      key={style.name}
      className="absolute flex h-4 items-center gap-1.5 whitespace-nowrap"
      style={{ left, right: 0, top: (top[i] ?? 0) - 8 }}
    >
      <SchedulerGlyph style={style} size={10} />
      <span className="min-w-0 flex-1 truncate">{style.label}</span>
      <span className="text-muted">{show(last)}</span>
    </span>
  ));
}

/** Point nearest to a position; undefined if it is farther away than `most`. */
function nearestDot(dots: TrendSeries["points"], x: number, most: number) {
  let best: TrendSeries["points"][number] | undefined;
  for (const dot of dots) if (!best || Math.abs(dot.x - x) < Math.abs(best.x - x)) best = dot;
  return best && Math.abs(best.x - x) <= most ? best : undefined;
}

/** Axis label with its unit and without trailing zeros: "20 ms". */
function unitTick(value: number, kind: Quantity): string {
  const [number = "", unit = ""] = quantity(value, kind).split(" ");
  return `${number.includes(".") ? tick(Number(number.replaceAll(",", ""))) : number} ${unit}`.trim();
}

/** Line chart of ratios or quantities over tasks, time or runs, with a label at the end of each line. */
export function TrendChart({
  series,
  xTicks,
  xTitle,
  nameOf,
  marks = [],
  bands = [],
  compact: short = false,
  cursor,
  gap,
  label,
  unit,
}: TrendLinesProps) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const [hover, setHover] = useState<number | null>(null);
  const below = xTitle ? 40 : 24;
  const points = series.flatMap((s) => s.points);
  const xs = [...new Set(points.map((p) => p.x))].sort((a, b) => a - b);
  const [x0, x1] = [xs[0] ?? 0, xs.at(-1) ?? 1];
  const axis = unit && unitAxis(points.length ? points.map((p) => p.y) : [0]);
  const low = axis ? axis.low : Math.min(1, ...points.map((p) => Math.max(0.01, p.y - (p.half ?? 0))));
  const high = axis ? axis.high : Math.max(1.05, ...points.map((p) => p.y + (p.half ?? 0)));
  const logarithmic = axis ? axis.log : isLogarithmic(high);
  const lowest = axis && !axis.log ? Number.NEGATIVE_INFINITY : unit ? low : 0.01;
  // Names beside the chart have 17 px each; where they do not fit, the tooltip has them.
  const named = width >= 560 && series.length > 1 && series.length * 17 <= height - TOP - below;
  const right = named ? 148 : 24;
  const left = unit ? 64 : 48;
  const bottom = height - below;
  const x = x1 > x0 ? linearScale(x0, x1, left, width - right) : () => (left + width - right) / 2;
  const y = logarithmic ? logScale(low, high * 1.05, bottom, TOP) : linearScale(low, high * 1.01, bottom, TOP);
  const path = (list: TrendSeries["points"]) =>
    pieces(list, gap)
      .map((piece) => piece.map((p, i) => `${i ? "L" : "M"}${x(p.x).toFixed(1)},${y(p.y).toFixed(1)}`).join(""))
      .join("");
  const band = (list: TrendSeries["points"]) => {
    const edge = (known: TrendSeries["points"], side: 1 | -1) =>
      known.map((p) => `${x(p.x).toFixed(1)},${y(Math.max(lowest, p.y + side * (p.half ?? 0))).toFixed(1)}`);
    return pieces(
      list.filter((p) => p.half !== null),
      gap,
    )
      .filter((piece) => piece.length > 1)
      .map((piece) => `M${[...edge(piece, 1), ...edge(piece, -1).reverse()].join("L")}Z`)
      .join("");
  };
  const ends = series.flatMap(({ style, points: list }) => {
    const last = list.at(-1);
    return last ? [{ style, last: last.y }] : [];
  });
  ends.sort((a, b) => b.last - a.last);
  const move = (clientX: number, area: DOMRect) => {
    const px = clientX - area.left;
    let best: number | null = null;
    for (const at of xs) if (best === null || Math.abs(x(at) - px) < Math.abs(x(best) - px)) best = at;
    setHover(best);
  };
  return (
    <div
      ref={box}
      className={classNames("relative flex-1", short ? "min-h-28" : "min-h-52")}
      onPointerMove={(event) => move(event.clientX, event.currentTarget.getBoundingClientRect())}
      onPointerLeave={() => setHover(null)}
    >
      {width > 0 && height > 0 && xs.length > 0 ? (
        <>
          <svg width={width} height={height} role="img" aria-label={label} className="marks absolute inset-0 block">
            {(axis?.ticks ?? ratioTicks(low, high)).map((value) => (
              <g key={value}>
                <line
                  x1={left}
                  x2={width - right}
                  y1={y(value)}
                  y2={y(value)}
                  stroke={value === (unit ? 0 : 1) ? "var(--baseline)" : "var(--hair)"}
                />
                <text x={left - 8} y={y(value) + 4} textAnchor="end" fontSize="12" fill="var(--faint)">
                  {unit ? unitTick(value, unit) : `${compact(value)}×`}
                </text>
              </g>
            ))}
            {xTicks.map(({ at, text }) => (
              <text key={at} x={x(at)} y={bottom + 18} textAnchor="middle" fontSize="12" fill="var(--faint)">
                {text}
              </text>
            ))}
            {xTitle ? (
              <text
                x={(left + width - right) / 2}
                y={height - 4}
                textAnchor="middle"
                fontSize="12"
                fill="var(--muted)"
              >
                {xTitle}
              </text>
            ) : null}
            <TimeMarks x={x} from={x0} to={x1} top={TOP} bottom={bottom} bands={bands} marks={marks} />
            {series.map(({ style, points: list }) => (
              <g key={style.name}>
                <SeriesPath style={style} line={path(list)} band={band(list)} />
                {list.length <= 12
                  ? list.map((p) => <circle key={p.x} cx={x(p.x)} cy={y(p.y)} r={3} fill={style.color} />)
                  : null}
              </g>
            ))}
            {cursor != null && cursor >= x0 && cursor <= x1 ? (
              <line x1={x(cursor)} x2={x(cursor)} y1={TOP} y2={bottom} stroke="var(--text)" strokeWidth={1.5} />
            ) : null}
            {hover !== null ? (
              <line x1={x(hover)} x2={x(hover)} y1={TOP} y2={bottom} stroke="var(--accent)" />
            ) : null}
          </svg>
          {named ? (
            <Names
              rows={ends}
              show={unit ? (value) => quantity(value, unit) : ratio}
              left={width - right + 12}
              top={spread(
                ends.map(({ last }) => y(last)),
                17,
                TOP,
                bottom,
              )}
            />
          ) : null}
          {hover !== null ? (
            <div
              className="pointer-events-none absolute top-4 z-10 w-52"
              style={x(hover) > width / 2 ? { right: width - x(hover) + 10 } : { left: x(hover) + 10 }}
            >
              <TooltipBox
                title={nameOf(hover)}
                rows={ends.flatMap(({ style }) => {
                  const dot = nearestDot(
                    series.find((s) => s.style === style)?.points ?? [],
                    hover,
                    (x1 - x0) / 40,
                  );
                  if (!dot) return [];
                  return [
                    [style.label, unit ? estimate(dot.y, dot.half, unit) : ratioEstimate(dot.y, dot.half)] as const,
                  ];
                })}
              />
            </div>
          ) : null}
        </>
      ) : null}
    </div>
  );
}
