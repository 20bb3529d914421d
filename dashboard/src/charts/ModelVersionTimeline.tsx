import { type KeyboardEvent, useState } from "react";
import { useElementSize } from "../hooks/useElementSize";
import { compact, count, tick } from "../lib/format";
import { handleSliderKey } from "../lib/sliderKeys";
import { niceCeiling, ticks } from "../lib/statistics";
import { linearScale, logScale } from "./canvasAxes";
import { TooltipBox } from "./TooltipBox";

export interface VersionMark {
  version: number;
  /** Number of the task in the run. */
  at: number;
  samples: number;
  r2: number | null;
  trigger: string;
  drift: boolean;
  /** Whether the version was trained before the run. */
  given: boolean;
  rows: readonly (readonly [string, string])[];
}

interface VersionMarksProps {
  versions: readonly VersionMark[];
  color: string;
  cursor: number | null;
  label: string;
}

const LEFT = 60;
const RIGHT = 16;
const BARS = 48;
const AXIS = 40;

/** Powers of ten that enclose the errors. */
function decades(values: readonly number[]): number[] {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  return Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i));
}

/** Unexplained part of the variance, which separates values of R² close to one. */
const missed = (r2: number): number => Math.max(1e-9, 1 - r2);

/** Timeline of model versions: unexplained variance above, samples below, drift in amber. */
export function ModelVersionTimeline({ versions, color, cursor, label }: VersionMarksProps) {
  const [box, { width, height }] = useElementSize<HTMLDivElement>();
  const [chosen, setChosen] = useState<number | null>(null);
  const scored = versions.filter((one) => one.r2 !== null);
  const total = Math.max(1, versions.at(-1)?.at ?? 1, cursor ?? 0);
  const x = linearScale(0, total, LEFT, width - RIGHT);
  const marks = scored.length ? decades(scored.map((one) => missed(one.r2 as number))) : [];
  const unscored = versions.filter((one) => one.r2 === null);
  const none = height - BARS - AXIS - 18;
  const plot = none - (unscored.length ? 24 : 4);
  const y = marks.length ? logScale(marks[0] as number, marks.at(-1) as number, plot, 12) : () => plot;
  // Pretrained versions have far more samples than later ones, so they do not set the scale.
  const learned = versions.filter((one) => !one.given);
  const most = niceCeiling(Math.max(1, ...learned.map((one) => one.samples)), 1);
  const bottom = height - AXIS;
  const bar = (samples: number) => (Math.min(samples, most) / most) * BARS;
  const slot = Math.max(1, Math.min(18, (width - LEFT - RIGHT) / Math.max(1, versions.length) - 2));
  const current = chosen === null ? null : versions[chosen];
  const onKeyDown = (event: KeyboardEvent) => {
    const last = versions.length - 1;
    const from = chosen ?? last;
    const keys: Record<string, number> = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last };
    handleSliderKey(event, keys, 0, last, setChosen);
  };
  const spoken = current
    ? `version ${current.version}, ${current.rows.map((row) => row.join(" ")).join(", ")}`
    : `${versions.length} versions`;
  return (
    <div
      ref={box}
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-valuemin={versions[0]?.version ?? 0}
      aria-valuemax={versions.at(-1)?.version ?? 0}
      aria-valuenow={current?.version ?? versions.at(-1)?.version ?? 0}
      aria-valuetext={spoken}
      className="relative min-h-56 flex-1 rounded-[6px]"
      onKeyDown={onKeyDown}
      onBlur={() => setChosen(null)}
      onPointerLeave={() => setChosen(null)}
      onPointerMove={(event) => {
        const px = event.clientX - event.currentTarget.getBoundingClientRect().left;
        let best = 0;
        versions.forEach((one, i) => {
          if (Math.abs(x(one.at) - px) < Math.abs(x(versions[best]?.at ?? 0) - px)) best = i;
        });
        setChosen(versions.length ? best : null);
      }}
    >
      {width > 0 && height > 0 ? (
        <svg width={width} height={height} aria-hidden="true" className="marks absolute inset-0 block">
          {marks.map((value) => (
            <g key={value}>
              <line x1={LEFT} x2={width} y1={y(value)} y2={y(value)} stroke="var(--hair)" />
              <text x={LEFT - 8} y={y(value) + 4} textAnchor="end" fontSize="12" fill="var(--faint)">
                {value < 1e-3 ? value.toExponential(0).replace("-", "−") : tick(value)}
              </text>
            </g>
          ))}
          {[0, most].map((value) => (
            <g key={value}>
              <line
                x1={LEFT}
                x2={width}
                y1={bottom - bar(value)}
                y2={bottom - bar(value)}
                stroke={value ? "var(--hair)" : "var(--baseline)"}
              />
              <text x={LEFT - 8} y={bottom - bar(value) + 4} textAnchor="end" fontSize="12" fill="var(--faint)">
                {compact(value)}
              </text>
            </g>
          ))}
          {versions.map((one, i) => (
            <rect
              key={one.version}
              x={x(one.at) - slot / 2}
              width={slot}
              y={bottom - Math.max(1, bar(one.samples))}
              height={Math.max(1, bar(one.samples))}
              fill={one.given ? "none" : one.drift ? "var(--warn)" : "var(--bar)"}
              stroke={one.given ? "var(--bar)" : "none"}
              opacity={chosen === null || chosen === i ? 0.9 : 0.5}
            />
          ))}
          {unscored.length ? (
            <>
              <line x1={LEFT} x2={width} y1={none} y2={none} stroke="var(--hair)" />
              <text x={LEFT - 8} y={none + 4} textAnchor="end" fontSize="12" fill="var(--faint)">
                no R²
              </text>
            </>
          ) : null}
          {[...versions.filter((one) => !one.drift), ...versions.filter((one) => one.drift)].map((one) => {
            const [cx, cy] = [x(one.at), one.r2 === null ? none : y(missed(one.r2))];
            return one.drift ? (
              <path
                key={one.version}
                d="M0-5.5L5.5 0L0 5.5L-5.5 0z"
                transform={`translate(${cx} ${cy})`}
                fill="var(--warn)"
              />
            ) : (
              <circle
                key={one.version}
                cx={cx}
                cy={cy}
                r={versions.length > 60 ? 2.5 : 4}
                fill={one.r2 === null ? "var(--panel)" : color}
                stroke={color}
              />
            );
          })}
          {ticks(0, total, width < 480 ? 3 : 8).map((value) => (
            <text key={value} x={x(value)} y={bottom + 18} textAnchor="middle" fontSize="12" fill="var(--faint)">
              {compact(value)}
            </text>
          ))}
          <text x={(LEFT + width) / 2} y={height - 4} textAnchor="middle" fontSize="12" fill="var(--muted)">
            task of the run
          </text>
          {cursor !== null ? (
            <line x1={x(cursor)} x2={x(cursor)} y1={8} y2={bottom} stroke="var(--text)" strokeWidth={1.5} />
          ) : null}
          {current ? (
            <line x1={x(current.at)} x2={x(current.at)} y1={8} y2={bottom} stroke="var(--accent)" />
          ) : null}
        </svg>
      ) : null}
      {current ? (
        <div
          className="pointer-events-none absolute top-2 z-10 w-56"
          style={x(current.at) > width / 2 ? { right: width - x(current.at) + 10 } : { left: x(current.at) + 10 }}
        >
          <TooltipBox
            title={
              <span className="flex justify-between">
                <span>v{count(current.version)}</span>
                <span className={current.drift ? "text-warn" : "text-muted"}>{current.trigger}</span>
              </span>
            }
            rows={current.rows}
          />
        </div>
      ) : null}
    </div>
  );
}
