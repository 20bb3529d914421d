import { TriangleAlert } from "lucide-react";
import { classNames } from "../components/ui/classNames";
import { SchedulerGlyph } from "../components/ui/SchedulerGlyph";
import { estimate, percent, ratio, significant, stepFor, tick as tickText, time } from "../lib/format";
import type { Metric } from "../lib/metrics";
import { type RaceScale, raceScale } from "../lib/raceScale";
import { shortLabel } from "../lib/schedulerStyle";
import type { Standing, VerdictRow } from "../lib/standings";

interface RaceBarsProps {
  /** Contestants, then those that know durations, each best first. */
  standings: readonly Standing[];
  metric: Metric;
  /** Lower bound that no scheduler can beat, in the metric's unit; null where there is none. */
  bound: number | null;
  scale: "log" | "linear";
  /** Rows of the server's verdict, for remarks; empty where the metric is not judged. */
  rows: ReadonlyMap<string, VerdictRow>;
  /** Specifications of the leading group. */
  group: readonly string[];
  /** Label of the scheduler that differences are against; null where the metric has none. */
  against: string | null;
}

const COLUMNS =
  "md:grid md:grid-cols-[150px_minmax(0,1fr)_132px_124px_56px] md:items-center md:gap-x-3 xl:grid-cols-[184px_minmax(0,1fr)_190px_132px_56px_136px]";
const LAST = "whitespace-nowrap text-right text-muted max-xl:hidden";

const POLICIES: Readonly<Record<string, string>> = {
  learned_rule: "rule on learned durations",
  earliest_finish: "earliest finish",
  agent: "agent",
  trial: "trial",
};

/** Who decides in a learned scheduler, or why a bar is so long. */
function Remark({ standing, row }: { standing: Standing; row: VerdictRow | undefined }) {
  if (standing.style.told) return <span className="block truncate text-faint">reference, knows durations</span>;
  const reason = row?.reasons[0];
  const queue = reason?.numbers.queue_peak_s ?? reason?.numbers.queue_s;
  if (reason && queue !== undefined)
    return (
      <span className="inline-flex items-center gap-1 whitespace-nowrap text-warn" title={reason.text}>
        <TriangleAlert size={12} aria-hidden="true" />
        queue {reason.numbers.queue_peak_s === undefined ? "" : "up to "}
        {time(queue)}
      </span>
    );
  const [policy, share] = Object.entries(standing.row.decided_by ?? {}).sort((a, b) => b[1] - a[1])[0] ?? [];
  const text = policy ? `${POLICIES[policy] ?? policy} ${percent(share, 2)}` : reason?.text;
  return text ? (
    <span className="block truncate text-muted" title={text}>
      {text}
    </span>
  ) : null;
}

/** Mean difference to another scheduler with its paired interval: "+957 ± 160 ms". */
function difference({ mean_regret: mean, regret_ci95: half }: Standing["row"], { quantity }: Metric): string {
  if (mean === 0 && half === 0) return "equal";
  return `${(mean ?? 0) > 0 ? "+" : ""}${estimate(mean, half, quantity)}`;
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

/** Bar of a scheduler on the scale, from the lower bound or from zero; hollow for one that knows durations. */
function Bar({ standing, scale, bound }: { standing: Standing; scale: RaceScale; bound: number | null }) {
  const { style, value, half } = standing;
  const first = bound === null ? scale.start : scale.at(bound);
  return (
    <div className="marks relative h-2">
      {scale.marks.map((mark) => (
        <i
          key={mark}
          className="absolute inset-y-0 md:-inset-y-2 w-px bg-hair"
          style={{ left: `${scale.at(mark)}%` }}
        />
      ))}
      {bound === null ? null : (
        <>
          <i className="hatched absolute inset-y-0 md:-inset-y-2 left-0" style={{ width: `${first}%` }} />
          <i
            className="absolute inset-y-0 md:-inset-y-2 border-ink border-l border-dashed"
            style={{ left: `${first}%` }}
          />
        </>
      )}
      <span
        className="absolute inset-y-0 rounded-[2px]"
        style={{
          left: `${first}%`,
          width: `${Math.max(0.3, scale.at(value) - first)}%`,
          ...(style.told
            ? {
                border: `1px solid ${style.color}`,
                background: `color-mix(in srgb, ${style.color} 18%, transparent)`,
              }
            : { background: style.color }),
        }}
      />
      {half === null ? null : <Whisker scale={scale} value={value} half={half} />}
    </div>
  );
}

/** Labels below the bars. */
function Axis({ scale, metric, kind }: { scale: RaceScale; metric: Metric; kind: RaceBarsProps["scale"] }) {
  const widest = stepFor(scale.labels.at(-1) ?? 1, metric.quantity);
  return (
    <div className={classNames("mt-1 text-faint", COLUMNS)} aria-hidden="true">
      <span />
      <span className="relative block h-4">
        {scale.labels.map((mark, index) => {
          const step = kind === "log" ? stepFor(mark || 1, metric.quantity) : widest;
          const text = kind === "log" ? tickText(mark / step.factor) : significant(mark / step.factor);
          const place = scale.at(mark);
          const centred = { left: `${place}%`, transform: "translateX(-50%)" };
          return (
            <span
              key={mark}
              className="absolute whitespace-nowrap"
              style={place > 94 ? { right: 0 } : place < 3 ? { left: 0 } : centred}
            >
              {text}
              {kind === "log" || index === scale.labels.length - 1 ? ` ${step.unit}` : ""}
            </span>
          );
        })}
      </span>
    </div>
  );
}

/** Horizontal bars with whiskers, on a logarithmic scale from the lower bound or on a linear one from zero; no bar is cut. */
export function SchedulerBars({ standings, metric, bound, rows, group, against, ...props }: RaceBarsProps) {
  const values = standings.map((s) => s.value);
  const scale = raceScale(props.scale, values, Math.max(...standings.map((s) => s.value + (s.half ?? 0))), bound);
  const least = bound ?? Math.min(...values);
  const told = standings.findIndex((s) => s.style.told);
  const rankOf = (index: number, name: string) => (group.includes(name) ? 1 : index + 1);
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
        <span className="max-md:hidden">decided by, or queue</span>
        <span className="text-right max-md:hidden">{metric.half ? "mean ± 95 %" : metric.label}</span>
        <span className="text-right max-md:hidden">{bound === null ? "÷ best" : "÷ bound"}</span>
        {against ? <span className={LAST}>against {against}</span> : null}
      </div>
      <ul className="thin-scroll flex min-h-0 flex-col overflow-y-auto">
        {standings.map((standing, index) => {
          const { style, value, row: own } = standing;
          const row = rows.get(style.name);
          const leads = group.includes(style.name);
          const text = estimate(value, standing.half, metric.quantity);
          return (
            <li
              key={style.name}
              data-scheduler={style.name}
              title={`${style.label}: ${text}, ${own.tasks.toLocaleString("en")} tasks${row?.reasons.length ? `; ${row.reasons.map((r) => r.text).join("; ")}` : ""}`}
              className={classNames(
                "relative px-1 py-px",
                COLUMNS,
                leads && "bg-raised/70 shadow-[inset_2px_0_0_var(--lead)]",
                index === told && told > 0 && "mt-1 border-hair border-t pt-1",
              )}
            >
              <div className="flex h-5 min-w-0 items-center gap-2">
                <span className={classNames("w-4 shrink-0 text-right", leads ? "text-lead" : "text-faint")}>
                  {style.told && told > 0 ? "" : rankOf(index, style.name)}
                </span>
                <SchedulerGlyph style={style} />
                <span className={classNames("min-w-0 truncate", leads && "font-semibold")}>
                  {shortLabel(style)}
                </span>
                <span className="ml-auto whitespace-nowrap font-semibold md:hidden">{text}</span>
              </div>
              <Bar standing={standing} scale={scale} bound={bound} />
              <div className="min-w-0">
                <Remark standing={standing} row={row} />
              </div>
              <span className="whitespace-nowrap text-right font-semibold max-md:hidden" data-value={value}>
                {text}
              </span>
              <span className="whitespace-nowrap text-right text-muted max-md:hidden">{ratio(value / least)}</span>
              {against ? (
                <span className={LAST} data-against={own.mean_regret}>
                  {style.reference ? "–" : difference(own, metric)}
                </span>
              ) : null}
            </li>
          );
        })}
      </ul>
      <Axis scale={scale} metric={metric} kind={props.scale} />
    </div>
  );
}
