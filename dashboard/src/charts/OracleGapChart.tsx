import { useElementSize } from "../hooks/useElementSize";
import { ratioEstimate, tick as tickText } from "../lib/format";
import { glyphPath } from "../lib/glyphPaths";
import { intervalsOverlap } from "../lib/intervalOverlap";
import type { Standing } from "../lib/standings";
import { ticks } from "../lib/statistics";

const TOP = 36;
const HEIGHT = 64;

/** Groups of neighbours whose intervals overlap, which are labelled "too close to call". */
function closeGroups(standings: readonly Standing[]): Standing[][] {
  const rivals = standings.filter((s) => !s.style.reference && s.half !== null);
  const groups: Standing[][] = [];
  for (const one of rivals) {
    const group = groups.at(-1);
    const before = group?.at(-1);
    if (group && before && intervalsOverlap(before.value, before.half ?? 0, one.value, one.half ?? 0))
      group.push(one);
    else groups.push([one]);
  }
  return groups.filter((group) => group.length > 1);
}

/** Ratios of all schedulers to the oracle on one axis, with intervals as bands. */
export function OracleGapChart({ standings, title }: { standings: readonly Standing[]; title: string }) {
  const [ref, { width }] = useElementSize<HTMLDivElement>();
  // The legend can hide the reference; its value then follows from any ratio.
  const known = standings.find((s) => s.ratio !== null);
  const base = known?.ratio ? known.value / known.ratio : undefined;
  const points = base ? standings.filter((s) => s.ratio !== null) : [];
  const edges = points.flatMap((s) => [
    (s.value - (s.half ?? 0)) / (base ?? 1),
    (s.value + (s.half ?? 0)) / (base ?? 1),
  ]);
  // An unstable queue would compress all other values, so the axis is logarithmic above five times the oracle.
  const highest = Math.max(...edges, 1.05);
  const lowest = Math.min(...edges, 1);
  const logarithmic = highest > 5;
  const scale = logarithmic ? (v: number) => Math.log(Math.max(v, 0.05)) : (v: number) => v;
  const [low, high] = [scale(lowest), scale(highest)];
  const x = (value: number) => 10 + ((scale(value) - low) / (high - low || 1)) * Math.max(0, width - 28);
  const marks = logarithmic
    ? [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e4, 1e5].filter(
        (v) => v >= lowest * 0.99 && v <= highest * 1.01,
      )
    : ticks(lowest, highest, 4);
  const sparse = marks.length > 6 ? marks.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-9) : marks;
  const label = points
    .map((s) => `${s.style.label} ${ratioEstimate(s.ratio, s.half === null || !base ? null : s.half / base)}`)
    .join(", ");
  return (
    <div ref={ref} className="min-w-0">
      <p className="mb-1 truncate text-muted">{title}</p>
      {base && width > 0 ? (
        <svg
          width={width}
          height={HEIGHT}
          role="img"
          aria-label={`${title}: ${label}`}
          className="marks block overflow-visible"
        >
          <line x1={0} x2={width} y1={TOP} y2={TOP} stroke="var(--baseline)" />
          {sparse.map((tick) => (
            <g key={tick}>
              <line x1={x(tick)} x2={x(tick)} y1={TOP - 10} y2={TOP + 10} stroke="var(--hair)" />
              <text x={x(tick)} y={HEIGHT - 2} textAnchor="middle" fontSize="12" fill="var(--faint)">
                {`${tickText(tick)}×`}
              </text>
            </g>
          ))}
          {points.map(({ style, value, half }) =>
            half === null ? null : (
              <rect
                key={style.name}
                x={x((value - half) / base)}
                width={Math.max(1, x((value + half) / base) - x((value - half) / base))}
                y={TOP - 5}
                height={10}
                fill={style.color}
                opacity={0.3}
              />
            ),
          )}
          {closeGroups(points).map((group) => {
            const from = x(((group[0] as Standing).value ?? 0) / base) - 6;
            const to = x((group.at(-1) as Standing).value / base) + 6;
            const right = to < width - 110;
            return (
              <g key={from}>
                <path d={`M${from} ${TOP - 12}V${TOP - 16}H${to}V${TOP - 12}`} fill="none" stroke="var(--faint)" />
                <text
                  x={right ? to + 6 : from - 6}
                  y={TOP - 12}
                  textAnchor={right ? "start" : "end"}
                  fontSize="12"
                  fill="var(--muted)"
                >
                  too close to call
                </text>
              </g>
            );
          })}
          {[...points].reverse().map(({ style, ratio: at }) => {
            const path = glyphPath(style.glyph);
            return path ? (
              <path
                key={style.name}
                d={path.d}
                transform={`translate(${x(at ?? 1) - 6} ${TOP - 6}) scale(0.75)`}
                fill={path.stroke ? "none" : style.color}
                stroke={path.stroke ? style.color : "none"}
                strokeWidth={path.stroke}
              />
            ) : (
              <circle key={style.name} cx={x(at ?? 1)} cy={TOP} r={4} fill={style.color} />
            );
          })}
        </svg>
      ) : (
        <p className="text-faint">The oracle is not part of this run.</p>
      )}
    </div>
  );
}
