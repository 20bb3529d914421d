import { useElementSize } from "../../hooks/useElementSize";
import { tick, time, parts as unitParts } from "../../lib/format";
import { glyphPath } from "../../lib/glyphPaths";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { niceCeiling, ticks } from "../../lib/statistics";
import { type PartTimes, type Ran, timeAt } from "./partTimes";

const HEIGHT = 208;
const LEFT = 60;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 36;
const SHARES = [0, 0.25, 0.5, 0.75, 1];

interface Mark {
  style: SchedulerStyle;
  result: Ran;
}

/** Chart of execution time against GPU share: both parts, their maximum, and every scheduler's choice. */
export function GpuShareCurve({
  times,
  marks,
  focus,
}: {
  times: PartTimes;
  marks: readonly Mark[];
  focus: string;
}) {
  const [ref, { width }] = useElementSize<HTMLDivElement>();
  const ends = [timeAt(times, 0), timeAt(times, 1), ...marks.map((m) => m.result.time)];
  const top = niceCeiling(1.3 * Math.max(...ends.filter((v): v is number => v !== null), 1e-6));
  const unit = unitParts(top, "time").unit;
  const x = (share: number) => LEFT + share * Math.max(0, width - LEFT - RIGHT);
  const y = (seconds: number) => TOP + (1 - seconds / top) * (HEIGHT - TOP - BOTTOM);
  // The share at which both parts take equally long; without this point the corner would be cut.
  const corner =
    times.cpu !== null && times.gpu !== null
      ? Math.min(1, Math.max(0, (times.cpu - times.fixed) / (times.cpu + times.gpu)))
      : null;
  const bends = [0, 1e-9, ...(corner === null ? [] : [corner]), 1 - 1e-9, 1]
    .map((share) => ({ share, seconds: timeAt(times, share) }))
    .filter((p): p is { share: number; seconds: number } => p.seconds !== null);
  // Equal choices lie beside each other instead of on each other.
  const places: { x: number; y: number }[] = [];
  for (const { result } of marks) {
    const place = { x: x(result.fraction), y: y(result.time) };
    while (places.some((other) => Math.hypot(other.x - place.x, other.y - place.y) < 13)) place.y -= 14;
    places.push(place);
  }
  const label = marks
    .map((m) => `${m.style.label} ${tick(m.result.fraction)} on the GPU, ${time(m.result.time)}`)
    .join("; ");
  return (
    <div ref={ref} className="min-w-0">
      {width > 0 ? (
        <svg width={width} height={HEIGHT} role="img" aria-label={`Time by GPU share: ${label}`} className="block">
          {ticks(0, top, 4).map((value) => (
            <g key={value}>
              <line x1={LEFT} x2={width - RIGHT} y1={y(value)} y2={y(value)} stroke="var(--hair)" />
              <text x={LEFT - 8} y={y(value) + 4} textAnchor="end" fontSize="12" fill="var(--faint)">
                {value === 0 ? `0 ${unit}` : time(value)}
              </text>
            </g>
          ))}
          <line x1={LEFT} x2={width - RIGHT} y1={y(0)} y2={y(0)} stroke="var(--baseline)" />
          {SHARES.map((share) => (
            <text
              key={share}
              x={x(share)}
              y={HEIGHT - 20}
              textAnchor={share === 1 ? "end" : "middle"}
              fontSize="12"
              fill="var(--faint)"
            >
              {tick(share)}
            </text>
          ))}
          <text x={x(0.5)} y={HEIGHT - 4} textAnchor="middle" fontSize="12" fill="var(--muted)">
            GPU share f
          </text>
          {times.cpu !== null ? (
            <line x1={x(0)} y1={y(times.cpu)} x2={x(1)} y2={y(0)} stroke="var(--cpu)" strokeOpacity="0.6" />
          ) : null}
          {times.gpu !== null ? (
            <line
              x1={x(0)}
              y1={y(times.fixed)}
              x2={x(1)}
              y2={y(times.fixed + times.gpu)}
              stroke="var(--gpu)"
              strokeOpacity="0.6"
            />
          ) : null}
          <polyline
            points={bends.map((p) => `${x(p.share)},${y(p.seconds)}`).join(" ")}
            fill="none"
            stroke="var(--text)"
            strokeWidth="2"
          />
          {marks.map(({ style }, index) => {
            const place = places[index] ?? { x: 0, y: 0 };
            const path = glyphPath(style.glyph);
            const size = style.name === focus ? 18 : 13;
            return (
              <g
                key={style.name}
                transform={`translate(${place.x - size / 2},${place.y - size / 2}) scale(${size / 16})`}
              >
                {path ? (
                  <path
                    d={path.d}
                    fill={path.stroke ? "none" : style.color}
                    stroke={path.stroke ? style.color : "var(--panel)"}
                    strokeWidth={path.stroke ?? 1.5}
                    strokeLinecap="round"
                  />
                ) : (
                  <circle cx="8" cy="8" r="6" fill={style.color} />
                )}
              </g>
            );
          })}
        </svg>
      ) : null}
    </div>
  );
}
