import { Equal, GraduationCap, TriangleAlert } from "lucide-react";
import { classNames } from "../components/ui/classNames";
import { SchedulerGlyph } from "../components/ui/SchedulerGlyph";
import { estimate, ratio, significant, stepFor, tick as tickText, time } from "../lib/format";
import type { Metric } from "../lib/metrics";
import { type RaceScale, raceScale } from "../lib/raceScale";
import type { SchedulerStyle } from "../lib/schedulerStyle";
import type { Standing, VerdictRow } from "../lib/standings";

interface RaceBarsProps {
  standings: readonly Standing[];
  halves: ReadonlyMap<string, number>;
  metric: Metric;
  /** Lower bound that no scheduler can beat, in the metric's unit; null where there is none. */
  bound: number | null;
  scale: "log" | "linear";
  /** Rows of the server's verdict, for labels and remarks; empty where the metric is not judged. */
  rows: ReadonlyMap<string, VerdictRow>;
  leader: string | null;
  styles: ReadonlyMap<string, SchedulerStyle>;
}

const COLUMNS =
  "md:grid md:grid-cols-[128px_minmax(0,1fr)_148px_116px_56px] md:items-center md:gap-x-3 lg:grid-cols-[176px_minmax(0,1fr)_216px_132px_64px]";

/** Remark behind a bar: why it is so long, or that the difference is not certain. */
function Remark({
  standing,
  row,
  styles,
}: {
  standing: Standing;
  row: VerdictRow | undefined;
  styles: RaceBarsProps["styles"];
}) {
  const reason = row?.reasons[0];
  const peak = reason?.numbers.queue_peak_s;
  const queue = peak ?? reason?.numbers.queue_s;
  const version = standing.row.model_version;
  if (reason && queue !== undefined)
    return (
      <span className="inline-flex items-center gap-1 whitespace-nowrap text-warn" title={reason.text}>
        <TriangleAlert size={12} aria-hidden="true" />
        {peak === undefined ? "saturated · queue" : "in the rush queue up to"} {time(queue)}
      </span>
    );
  const learned = version !== null && version !== undefined;
  if (learned || row?.close_to.length)
    return (
      <span
        className="flex items-center gap-1 overflow-hidden whitespace-nowrap text-muted"
        title={learned ? `learning, version ${version} of its model` : reason?.text}
      >
        {learned ? (
          <>
            <GraduationCap size={12} aria-hidden="true" className="shrink-0" />
            <span className="mr-1">model v{version}</span>
          </>
        ) : null}
        {row?.close_to.length ? (
          <>
            <Equal size={12} aria-hidden="true" className="shrink-0" />
            {learned ? <span className="sr-only">too close to call</span> : "too close to call"}
            {row.close_to.map((name) => {
              const style = styles.get(name);
              return style ? <SchedulerGlyph key={name} style={style} size={10} /> : null;
            })}
          </>
        ) : null}
      </span>
    );
  if (standing.style.reference) return <span className="truncate text-faint">best for each task alone</span>;
  return reason ? (
    <span className="block truncate text-muted" title={reason.text}>
      {reason.text}
    </span>
  ) : null;
}

function Whisker({ scale, value, half }: { scale: RaceScale; value: number; half: number }) {
  const left = scale.at(value - half);
  return (
    <span
      className="absolute -top-0.5 h-3 border-ink border-x-[1.5px]"
      style={{ left: `${left}%`, width: `${Math.max(0.2, scale.at(value + half) - left)}%` }}
    >
      <i className="absolute top-1/2 h-[1.5px] w-full -translate-y-1/2 bg-ink" />
    </span>
  );
}

/** Horizontal bars with whiskers, on a logarithmic scale from the lower bound or on a linear one from zero; no bar is cut. */
export function SchedulerBars(props: RaceBarsProps) {
  const { standings, halves, metric, bound, rows, leader, styles } = props;
  const ends = standings.map((s) => s.value + (halves.get(s.style.name) ?? 0));
  const scale = raceScale(
    props.scale,
    standings.map((s) => s.value),
    Math.max(...ends),
    bound,
  );
  const first = bound === null ? scale.start : scale.at(bound);
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className={classNames("mb-1 text-faint", COLUMNS)} aria-hidden="true">
        <span />
        <span className="relative block h-4">
          {bound === null ? null : (
            <span className="absolute whitespace-nowrap" style={{ left: `${scale.at(bound)}%` }}>
              <span className="pl-1.5 font-medium text-ink">
                lower bound {estimate(bound, null, metric.quantity)}
              </span>
              <span className="max-lg:hidden"> proven: no scheduler can wait less on these tasks</span>
            </span>
          )}
        </span>
        <span />
        <span className="text-right max-md:hidden">{halves.size ? "mean ± 95 %" : metric.label}</span>
        <span className="text-right max-md:hidden">{bound === null ? "÷ best" : "÷ bound"}</span>
      </div>
      <ul className="thin-scroll flex min-h-0 flex-1 flex-col gap-1 overflow-y-auto [justify-content:safe_space-around]">
        {standings.map((standing) => {
          const { style, value } = standing;
          const half = halves.get(style.name);
          const row = rows.get(style.name);
          const label = row?.label ?? style.label;
          const least = bound ?? Math.min(...standings.map((s) => s.value));
          const text = estimate(value, half, metric.quantity);
          return (
            <li
              key={style.name}
              data-scheduler={style.name}
              title={`${label}: ${text}, ${ratio(value / least)} the ${bound === null ? "best" : "lower bound"}, ${standing.row.tasks.toLocaleString("en")} tasks${row?.reasons.length ? `; ${row.reasons.map((r) => r.text).join("; ")}` : ""}`}
              className={classNames(
                "relative rounded-[6px] px-1 py-0.5",
                COLUMNS,
                style.name === leader && "bg-raised/70",
              )}
            >
              <div className="flex h-5 min-w-0 items-center gap-2">
                <SchedulerGlyph style={style} />
                <span className={classNames("min-w-0 truncate", style.name === leader && "font-semibold")}>
                  {label}
                </span>
                <span className="ml-auto whitespace-nowrap font-semibold md:hidden">{text}</span>
              </div>
              <div className="marks relative h-2">
                {scale.marks.map((mark) => (
                  <i
                    key={mark}
                    className="absolute -inset-y-2 w-px bg-hair"
                    style={{ left: `${scale.at(mark)}%` }}
                  />
                ))}
                {bound === null ? null : (
                  <>
                    <i className="hatched absolute -inset-y-2 left-0" style={{ width: `${scale.at(bound)}%` }} />
                    <i
                      className="absolute -inset-y-2 border-ink border-l border-dashed"
                      style={{ left: `${scale.at(bound)}%` }}
                    />
                  </>
                )}
                <span
                  className="absolute inset-y-0 rounded-[2px]"
                  style={{
                    left: `${first}%`,
                    width: `${Math.max(0.3, scale.at(value) - first)}%`,
                    ...(style.reference
                      ? {
                          border: `1px solid ${style.color}`,
                          background: `color-mix(in srgb, ${style.color} 18%, transparent)`,
                        }
                      : { background: style.color }),
                  }}
                />
                {half === undefined ? null : <Whisker scale={scale} value={value} half={half} />}
              </div>
              <div className="min-w-0 max-md:mt-1">
                <Remark standing={standing} row={row} styles={styles} />
              </div>
              <span className="whitespace-nowrap text-right font-semibold max-md:hidden" data-value={value}>
                {text}
              </span>
              <span className="whitespace-nowrap text-right text-muted max-md:hidden">{ratio(value / least)}</span>
            </li>
          );
        })}
      </ul>
      <div className={classNames("mt-1 text-faint", COLUMNS)} aria-hidden="true">
        <span />
        <span className="relative block h-4">
          {scale.labels.map((mark, index) => {
            const step = stepFor(mark || (scale.labels.at(-1) ?? 1), metric.quantity);
            const unit = props.scale === "log" || index === scale.labels.length - 1 ? ` ${step.unit}` : "";
            const place = scale.at(mark);
            return (
              <span
                key={mark}
                className="absolute whitespace-nowrap"
                style={
                  place > 94
                    ? { right: 0 }
                    : place < 3
                      ? { left: 0 }
                      : { left: `${place}%`, transform: "translateX(-50%)" }
                }
              >
                {props.scale === "log"
                  ? tickText(mark / step.factor)
                  : significant(mark / stepFor(scale.labels.at(-1) ?? 1, metric.quantity).factor)}
                {unit}
              </span>
            );
          })}
        </span>
      </div>
    </div>
  );
}
