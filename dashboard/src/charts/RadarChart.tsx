import { useElementSize } from "../hooks/useElementSize";
import { ratio, tick } from "../lib/format";
import { glyphPath } from "../lib/glyphPaths";
import { dashArray, type SchedulerStyle } from "../lib/schedulerStyle";

interface RadarAxis {
  label: string;
}

export interface RadarSeries {
  style: SchedulerStyle;
  /** One ratio per axis; null where it is unknown. */
  values: readonly (number | null)[];
}

interface RadarProps {
  axes: readonly RadarAxis[];
  series: readonly RadarSeries[];
  /** Ratio at the centre and at the rim of the logarithmic radius. */
  centre: number;
  rim: number;
  rings?: readonly number[];
}

/** Radar chart of ratios to a reference on a logarithmic radius. */
export function RadarChart({ axes, series, centre, rim, rings = [1] }: RadarProps) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const radius = Math.max(20, Math.min(width / 2 - 40, (height - 44) / 1.5));
  const [cx, cy] = [width / 2, 22 + radius];
  const reach = (value: number) => {
    const share = Math.log(Math.max(value, centre) / centre) / Math.log(rim / centre);
    return radius * Math.min(1, Math.max(0, share));
  };
  const at = (axis: number, distance: number): [number, number] => {
    const angle = -Math.PI / 2 + (2 * Math.PI * axis) / axes.length;
    return [cx + distance * Math.cos(angle), cy + distance * Math.sin(angle)];
  };
  const outline = (distance: (axis: number) => number) =>
    `${axes.map((_, i) => `${i ? "L" : "M"}${at(i, distance(i)).map((v) => v.toFixed(1))}`).join("")}Z`;
  const words = series
    .map((s) => `${s.style.label}: ${axes.map((a, i) => `${a.label} ${ratio(s.values[i])}`).join(", ")}`)
    .join("; ");
  return (
    <div ref={box} className="min-h-44 flex-1">
      {width > 0 ? (
        <svg width={width} height={height} role="img" aria-label={`Radar. ${words}`} className="marks block">
          {[...rings, rim].map((ring) => (
            <path
              key={ring}
              d={outline(() => reach(ring))}
              fill="none"
              stroke={ring === 1 ? "var(--baseline)" : "var(--hair)"}
            />
          ))}
          {axes.map((axis, i) => {
            const [x, y] = at(i, radius);
            const [tx, ty] = at(i, radius + 14);
            return (
              <g key={axis.label}>
                <line x1={cx} y1={cy} x2={x} y2={y} stroke="var(--hair)" />
                <text x={tx} y={ty + 4} textAnchor="middle" fontSize="12" fill="var(--text)">
                  {axis.label}
                </text>
              </g>
            );
          })}
          {series.map(({ style, values }) => {
            const known = values.map((value) => value ?? centre);
            const path = glyphPath(style.glyph);
            return (
              <g key={style.name}>
                <path
                  d={outline((i) => reach(known[i] as number))}
                  fill={style.reference ? "none" : style.color}
                  fillOpacity={0.04}
                  stroke={style.color}
                  strokeWidth={style.reference ? 2 : style.width}
                  strokeDasharray={dashArray(style)}
                  strokeLinejoin="round"
                />
                {path && !style.reference
                  ? known.map((value, i) => {
                      const [x, y] = at(i, reach(value));
                      return (
                        <path
                          key={axes[i]?.label}
                          d={path.d}
                          transform={`translate(${x - 4} ${y - 4}) scale(0.5)`}
                          fill={path.stroke ? "none" : style.color}
                          stroke={path.stroke ? style.color : "none"}
                          strokeWidth={path.stroke ? path.stroke * 1.4 : undefined}
                        />
                      );
                    })
                  : null}
              </g>
            );
          })}
          {rings.map((ring) => {
            const [x, y] = at(0, reach(ring));
            return (
              <text
                key={ring}
                x={x - 6}
                y={y + 4}
                textAnchor="end"
                fontSize="12"
                fill="var(--faint)"
                stroke="var(--panel)"
                strokeWidth="3"
                paintOrder="stroke"
              >
                {`${tick(ring)}×`}
              </text>
            );
          })}
        </svg>
      ) : null}
    </div>
  );
}
