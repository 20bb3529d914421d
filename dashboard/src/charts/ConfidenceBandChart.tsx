import { useElementSize } from "../hooks/useElementSize";
import type { SchedulerStyle } from "../lib/schedulerStyle";
import { ticks } from "../lib/statistics";
import { SeriesPath } from "./SeriesPath";

export interface BandPoint {
  x: number;
  y: number;
  /** Half width of the interval; null for a line without band. */
  half: number | null;
}

interface BandSeries {
  style: SchedulerStyle;
  points: readonly BandPoint[];
}

interface Marker {
  x: number;
  label: string;
}

interface LineBandProps {
  series: readonly BandSeries[];
  markers?: readonly Marker[];
  xTitle: string;
  formatX: (value: number) => string;
  formatY: (value: number) => string;
  label: string;
  /** Value that the axis always includes. */
  include?: number;
}

const LEFT = 60;
const BOTTOM = 36;
const TOP = 16;

/** Line chart with intervals as bands and vertical lines for events. */
export function ConfidenceBandChart({
  series,
  markers = [],
  xTitle,
  formatX,
  formatY,
  label,
  include = 0,
}: LineBandProps) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const points = series.flatMap((s) => s.points);
  const [x0, x1] = [Math.min(...points.map((p) => p.x)), Math.max(...points.map((p) => p.x))];
  const low = Math.min(include, ...points.map((p) => p.y - (p.half ?? 0)));
  const high = Math.max(include, ...points.map((p) => p.y + (p.half ?? 0)));
  const pad = (high - low || 1) * 0.05;
  const x = (value: number) => LEFT + ((value - x0) / (x1 - x0 || 1)) * Math.max(0, width - LEFT - 12);
  const y = (value: number) => TOP + ((high + pad - value) / (high - low + 2 * pad || 1)) * (height - TOP - BOTTOM);
  const path = (list: readonly BandPoint[]) =>
    list.map((p, i) => `${i ? "L" : "M"}${x(p.x).toFixed(1)},${y(p.y).toFixed(1)}`).join("");
  const band = (list: readonly BandPoint[]) => {
    const known = list.filter((p) => p.half !== null);
    const upper = known.map((p) => `${x(p.x).toFixed(1)},${y(p.y + (p.half ?? 0)).toFixed(1)}`);
    const lower = known.map((p) => `${x(p.x).toFixed(1)},${y(p.y - (p.half ?? 0)).toFixed(1)}`).reverse();
    return known.length > 1 ? `M${[...upper, ...lower].join("L")}Z` : "";
  };
  return (
    <div ref={box} className="min-h-44 flex-1">
      {width > 0 && height > 0 && points.length > 0 ? (
        <svg width={width} height={height} role="img" aria-label={label} className="marks block">
          {ticks(low, high, 4).map((value) => (
            <g key={value}>
              <line
                x1={LEFT}
                x2={width}
                y1={y(value)}
                y2={y(value)}
                stroke={value === include ? "var(--baseline)" : "var(--hair)"}
              />
              <text x={LEFT - 8} y={y(value) + 4} textAnchor="end" fontSize="12" fill="var(--faint)">
                {formatY(value)}
              </text>
            </g>
          ))}
          {ticks(x0, x1, width < 480 ? 3 : 6).map((value) => (
            <text key={value} x={x(value)} y={height - 20} textAnchor="middle" fontSize="12" fill="var(--faint)">
              {formatX(value)}
            </text>
          ))}
          <text x={(LEFT + width) / 2} y={height - 4} textAnchor="middle" fontSize="12" fill="var(--muted)">
            {xTitle}
          </text>
          {markers
            .filter((mark) => mark.x >= x0 && mark.x <= x1)
            .map((mark) => (
              <g key={`${mark.x}-${mark.label}`}>
                <line
                  x1={x(mark.x)}
                  x2={x(mark.x)}
                  y1={TOP}
                  y2={height - BOTTOM}
                  stroke="var(--warn)"
                  strokeDasharray="4 3"
                />
                <text
                  x={x(mark.x) + (mark.x > (x0 + x1) / 2 ? -6 : 6)}
                  y={TOP - 4}
                  textAnchor={mark.x > (x0 + x1) / 2 ? "end" : "start"}
                  fontSize="12"
                  fill="var(--warn)"
                >
                  {mark.label}
                </text>
              </g>
            ))}
          {series.map(({ style, points: list }) => (
            <g key={style.name}>
              <SeriesPath style={style} line={path(list)} band={band(list)} />
            </g>
          ))}
        </svg>
      ) : null}
    </div>
  );
}
