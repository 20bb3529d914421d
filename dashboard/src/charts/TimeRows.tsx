import { useElementSize } from "../hooks/useElementSize";
import type { SchedulerStyle } from "../lib/schedulerStyle";
import { ticks } from "../lib/statistics";
import { linearScale, logScale, type Scale } from "./canvasAxes";
import { useCrosshair } from "./chartContext";
import { SeriesPath } from "./SeriesPath";
import { TimeMarks } from "./TimeMarks";
import { spread } from "./trendScale";

export interface TimeRow {
  title: string;
  /** What the row shows, below its title. */
  note: string;
  series: readonly { style: SchedulerStyle; points: readonly { x: number; y: number }[] }[];
  show: (value: number) => string;
  /** Whether the axis is logarithmic; else it begins at zero. */
  log: boolean;
}

interface TimeRowsProps {
  rows: readonly TimeRow[];
  from: number;
  to: number;
  /** Stretches of time that are shaded, with the text above them. */
  bands: readonly (readonly [number, number])[];
  bandText: string;
  /** Moments that are marked across all rows. */
  marks: readonly { x: number; label: string }[];
  label: string;
}

const HEAD = 22;
const AXIS = 22;
const GAP = 12;
/** Height of a value beside its line. */
const LINE = 15;

function scaleOf({ series, log }: TimeRow, top: number, bottom: number): { y: Scale; most: number } {
  const values = series.flatMap(({ points }) => points.map(({ y }) => y));
  const most = Math.max(0, ...values) || 1;
  const least = Math.min(most / 2, ...values);
  return { y: log && least > 0 ? logScale(least, most, bottom, top) : linearScale(0, most, bottom, top), most };
}

/** Value at a time: that of the newest point before it. */
const valueAt = (points: readonly { x: number; y: number }[], at: number) =>
  points.findLast(({ x }) => x <= at)?.y ?? null;

/** Several quantities over time, one below the other on one axis, with bands and marks through all of them. */
export function TimeRows({ rows, from, to, bands, bandText, marks, label }: TimeRowsProps) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const { at: crosshair, move } = useCrosshair();
  const narrow = width < 560;
  const [left, right] = [narrow ? 64 : 128, narrow ? 72 : 170];
  const bottom = height - AXIS;
  const x = linearScale(from, to, left, width - right);
  const each = Math.max(20, (bottom - HEAD) / Math.max(1, rows.length));
  const now = crosshair !== null && crosshair >= from && crosshair <= to ? crosshair : to;
  return (
    <div
      ref={box}
      className="relative min-h-56 flex-1"
      onPointerMove={({ clientX, currentTarget }) => {
        const share = (clientX - currentTarget.getBoundingClientRect().left - left) / (width - left - right);
        move(share >= 0 && share <= 1 ? from + share * (to - from) : null);
      }}
      onPointerLeave={() => move(null)}
    >
      {width > 0 && height > 0 ? (
        <svg width={width} height={height} role="img" aria-label={label} className="marks absolute inset-0 block">
          <TimeMarks
            x={x}
            from={from}
            to={to}
            top={HEAD}
            bottom={bottom}
            bands={bands}
            bandText={bandText}
            marks={marks}
          />
          {rows.map((row, index) => {
            const [top, base] = [HEAD + index * each + GAP, HEAD + (index + 1) * each];
            const { y, most } = scaleOf(row, top, base);
            const ends = row.series.map(({ style, points }) => ({ style, value: valueAt(points, now) }));
            const shown = ends.filter((end) => end.value !== null).sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
            const places = spread(
              shown.map(({ value }) => y(value as number)),
              LINE,
              top,
              base,
            );
            return (
              <g key={row.title} fontSize="12">
                <text x={0} y={top + 8} fill="var(--text)">
                  {row.title}
                </text>
                <text x={0} y={top + 24} fill="var(--faint)">
                  {narrow ? `≤ ${row.show(most)}` : row.note}
                </text>
                {narrow ? null : (
                  <text x={0} y={top + 39} fill="var(--faint)">
                    up to {row.show(most)}
                  </text>
                )}
                <line x1={left} x2={width - right} y1={base} y2={base} stroke="var(--baseline)" />
                {row.series.map(({ style, points }) => (
                  <SeriesPath
                    key={style.name}
                    style={style}
                    line={points
                      .map((p, i) => `${i ? "L" : "M"}${x(p.x).toFixed(1)},${y(p.y).toFixed(1)}`)
                      .join("")}
                    band=""
                  />
                ))}
                {shown.map(({ style, value }, i) => (
                  <text key={style.name} x={width - right + 10} y={(places[i] ?? 0) + 4} fill="var(--muted)">
                    <tspan fontWeight={600} fill="var(--text)">
                      {row.show(value as number)}
                    </tspan>
                    {narrow ? "" : ` ${style.label}`}
                  </text>
                ))}
              </g>
            );
          })}
          {ticks(from, to, narrow ? 3 : 8).map((at) => (
            <text key={at} x={x(at)} y={bottom + 16} textAnchor="middle" fontSize="12" fill="var(--faint)">
              {`${at} s`}
            </text>
          ))}
          {now < to ? <line x1={x(now)} x2={x(now)} y1={HEAD} y2={bottom} stroke="var(--accent)" /> : null}
        </svg>
      ) : null}
    </div>
  );
}
