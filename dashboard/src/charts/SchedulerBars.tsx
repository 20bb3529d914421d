import { SchedulerGlyph } from "../components/ui/SchedulerGlyph";
import { estimate, ratio, significant, stepFor } from "../lib/format";
import { intervalsOverlap } from "../lib/intervalOverlap";
import type { Metric } from "../lib/metrics";
import type { Standing } from "../lib/standings";
import { niceCeiling, ticks } from "../lib/statistics";

interface RaceBarsProps {
  standings: readonly Standing[];
  halves: ReadonlyMap<string, number>;
  metric: Metric;
}

/** Width of "too close to call" with two glyphs, in pixels. */
const LABEL = 140;

/** Schedulers whose interval overlaps that of the given one. */
function rivals(standings: readonly Standing[], halves: ReadonlyMap<string, number>, one: Standing): Standing[] {
  const half = halves.get(one.style.name);
  if (half === undefined || one.style.reference) return [];
  return standings.filter((other) => {
    const theirs = halves.get(other.style.name);
    return (
      other !== one &&
      !other.style.reference &&
      theirs !== undefined &&
      intervalsOverlap(one.value, half, other.value, theirs)
    );
  });
}

/** End of the axis as a multiple of the best value. Longer bars are cut off; the number beside them is exact. */
const AXIS_LIMIT = 6;

function axisEnd(standings: readonly Standing[], halves: ReadonlyMap<string, number>): number {
  const limit = AXIS_LIMIT * Math.min(...standings.map((s) => s.value));
  const within = standings.filter((s) => s.value <= limit).map((s) => s.value + (halves.get(s.style.name) ?? 0));
  return Math.max(...within, 0);
}

/** Horizontal bars with whiskers; the reference is a hollow bar and a dotted line. */
export function SchedulerBars({ standings, halves, metric }: RaceBarsProps) {
  const top = niceCeiling(axisEnd(standings, halves) * 1.02, 4);
  const step = stepFor(top, metric.quantity);
  const marks = ticks(0, top, 4);
  const at = (value: number) => `${(100 * Math.min(value, top)) / top}%`;
  const reference = standings.find((s) => s.style.reference);
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <ul className="relative flex min-h-0 flex-1 flex-col justify-between gap-1.5">
        <li aria-hidden="true" className="marks pointer-events-none absolute inset-0">
          {marks.map((tick) => (
            <i key={tick} className="absolute inset-y-0 w-px bg-hair" style={{ left: at(tick) }} />
          ))}
        </li>
        {reference ? (
          <li
            aria-hidden="true"
            className="marks pointer-events-none absolute inset-y-0 top-5 border-l-2 border-dotted"
            style={{ left: at(reference.value), borderColor: reference.style.color }}
          />
        ) : null}
        {standings.map((standing) => {
          const { style, value } = standing;
          const half = halves.get(style.name);
          const cutOff = value > top;
          const close = rivals(standings, halves, standing);
          return (
            <li key={style.name} className="relative" data-scheduler={style.name}>
              <div className="flex h-5 items-center gap-2">
                <SchedulerGlyph style={style} className="bg-panel" />
                <span className="min-w-0 truncate bg-panel pr-1">{style.label}</span>
                <span className="ml-auto whitespace-nowrap font-semibold" data-value={value}>
                  {estimate(value, half, metric.quantity)}
                </span>
                <span className="w-14 whitespace-nowrap text-right text-muted">{ratio(standing.ratio)}</span>
              </div>
              <div className="marks relative h-2">
                <span
                  className="absolute inset-y-0 left-0 rounded-[2px]"
                  style={
                    style.reference
                      ? {
                          width: at(value),
                          border: `1px solid ${style.color}`,
                          background: `color-mix(in srgb, ${style.color} 18%, transparent)`,
                        }
                      : { width: at(value), background: style.color }
                  }
                />
                {cutOff ? (
                  <span className="absolute inset-y-[-2px] right-6 flex -skew-x-12 gap-1" title="beyond the axis">
                    <i className="w-1 bg-panel" />
                    <i className="w-1 bg-panel" />
                  </span>
                ) : null}
                {half === undefined || cutOff ? null : (
                  <span
                    className="absolute -top-0.5 h-3 border-ink border-x-[1.5px]"
                    style={{
                      left: at(Math.max(0, value - half)),
                      width: `calc(${at(value + half)} - ${at(Math.max(0, value - half))})`,
                    }}
                  >
                    <i className="absolute top-1/2 h-[1.5px] w-full -translate-y-1/2 bg-ink" />
                  </span>
                )}
                {close.length && !cutOff ? (
                  <span
                    className="absolute -top-1 flex items-center gap-1 whitespace-nowrap bg-panel/80 px-1 text-muted"
                    style={
                      // Beside the whisker, but always within the chart.
                      (value + (half ?? 0)) / top > 0.62
                        ? { right: `min(calc(100% - ${at(value - (half ?? 0))} + 6px), calc(100% - ${LABEL}px))` }
                        : { left: `min(calc(${at(value + (half ?? 0))} + 8px), calc(100% - ${LABEL}px))` }
                    }
                  >
                    {close.map((other) => (
                      <SchedulerGlyph key={other.style.name} style={other.style} size={10} />
                    ))}
                    too close to call
                  </span>
                ) : null}
              </div>
            </li>
          );
        })}
      </ul>
      <div className="relative mt-1 h-4 text-faint" aria-hidden="true">
        {marks.map((tick, index) => (
          <span
            key={tick}
            className="absolute whitespace-nowrap"
            style={
              index === 0
                ? { left: 0 }
                : tick >= top * 0.97
                  ? { right: 0 }
                  : { left: at(tick), transform: "translateX(-50%)" }
            }
          >
            {significant(tick / step.factor)}
            {index === marks.length - 1 ? ` ${step.unit}` : ""}
          </span>
        ))}
      </div>
    </div>
  );
}
