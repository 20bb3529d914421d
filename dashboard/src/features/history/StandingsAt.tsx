import { useMemo } from "react";
import type { ResultRecord } from "../../client/resultRecords";
import { classNames } from "../../components/ui/classNames";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { TableHead } from "../../components/ui/TableHead";
import { cost, count, energy, ratioEstimate, time } from "../../lib/format";
import { REFERENCE, type SchedulerStyle } from "../../lib/schedulerStyle";
import type { TableData } from "../../lib/tableData";
import { useVisibleStyles } from "../../store/selectors";
import { type Bucket, cumulativeMeans, type Means } from "./cumulativeMeans";

interface Ranked {
  style: SchedulerStyle;
  means: Means;
  ratio: number | null;
  /** Half width of the ratio. */
  half: number | null;
}

/** Visible schedulers by latency; those that know durations come last. */
function rank(means: ReadonlyMap<string, Means>, styles: readonly SchedulerStyle[]): Ranked[] {
  const base = means.get(REFERENCE)?.latency ?? null;
  const rows = styles.flatMap((style): Ranked[] => {
    const own = means.get(style.name);
    if (!own || own.latency === null) return [];
    return [
      {
        style,
        means: own,
        ratio: base ? own.latency / base : null,
        half: base && own.half !== null && !style.reference ? own.half / base : null,
      },
    ];
  });
  return rows.sort(
    (a, b) => Number(a.style.told) - Number(b.style.told) || (a.means.latency ?? 0) - (b.means.latency ?? 0),
  );
}

export function useStandingsAt(buckets: readonly Bucket[], at: number, rows: readonly ResultRecord[]): Ranked[] {
  const styles = useVisibleStyles();
  return useMemo(() => rank(cumulativeMeans(buckets, at, rows), styles), [buckets, at, rows, styles]);
}

export function standingsTable(ranked: readonly Ranked[], at: number): TableData {
  return {
    name: `comparison-at-${at}`,
    columns: [
      { key: "scheduler", label: "scheduler" },
      { key: "tasks", label: "tasks", numeric: true, show: (v) => count(v as number) },
      { key: "mean_latency_s", label: "mean latency", numeric: true, show: (v) => time(v as number) },
      {
        key: "ci95_half_width_s",
        label: "difference to the oracle, ± 95 %",
        numeric: true,
        show: (v) => time(v as number),
      },
      { key: "ratio_to_oracle", label: "÷ oracle", numeric: true },
      { key: "mean_time_s", label: "mean time", numeric: true, show: (v) => time(v as number) },
      { key: "mean_energy_j", label: "mean energy", numeric: true, show: (v) => energy(v as number) },
      { key: "mean_cost_usd", label: "mean cost", numeric: true, show: (v) => cost(v as number) },
    ],
    rows: ranked.map(({ style, means, ratio }) => [
      style.name,
      means.n,
      means.latency,
      style.reference ? null : means.half,
      ratio,
      means.time,
      means.energy,
      means.cost,
    ]),
  };
}

/** Greatest ratio of means that count as equal, as in the server's verdict. */
const EQUAL = 1.01;

function Sentence({ ranked, at }: { ranked: readonly Ranked[]; at: number }) {
  const [leader] = ranked;
  if (!leader) return <p className="text-muted">Too few tasks for a comparison.</p>;
  const least = leader.means.latency ?? 0;
  const group = ranked.filter(
    ({ style, means }) => style.told === leader.style.told && (means.latency ?? 0) <= least * EQUAL,
  );
  return (
    <div>
      <p className="text-12 text-muted">After {count(at)} tasks</p>
      <p className="flex flex-wrap items-baseline gap-x-2 text-16">
        {group.map(({ style }) => (
          <SchedulerName key={style.name} style={style} className="font-semibold" />
        ))}
        <span className="text-muted">{group.length > 1 ? "lead, equal within 1 %" : "leads"}</span>
      </p>
      <p className="text-12 text-muted">{ratioEstimate(leader.ratio, leader.half)} oracle, mean latency</p>
    </div>
  );
}

interface StandingsAtProps {
  ranked: readonly Ranked[];
  at: number;
  waiting: boolean;
  failed: Error | null;
}

const CELL = "px-2 text-right whitespace-nowrap";

/** Comparison of the schedulers after a number of tasks. */
export function StandingsAt({ ranked, at, waiting, failed }: StandingsAtProps) {
  return (
    <div className="grid min-h-0 gap-x-8 gap-y-3 xl:grid-cols-[minmax(220px,1fr)_3fr]">
      <div className="flex flex-col justify-center gap-2">
        <Sentence ranked={ranked} at={at} />
        {failed ? (
          <p className="text-12 text-warn">
            Could not load single results ({failed.message}); the means end at the last whole bucket.
          </p>
        ) : waiting ? (
          <p className="text-12 text-faint">Reading single results…</p>
        ) : null}
      </div>
      <div className="thin-scroll min-w-0 overflow-x-auto">
        <table className="w-full border-collapse text-12">
          <caption className="sr-only">Comparison after {count(at)} tasks</caption>
          <TableHead
            columns={[
              ["scheduler"],
              ["mean latency", CELL],
              ["÷ oracle ± 95 %, paired", CELL],
              ["time", `${CELL} max-md:hidden`],
              ["energy", `${CELL} max-sm:hidden`],
              ["cost", `${CELL} max-sm:hidden`],
            ]}
          />
          <tbody>
            {ranked.map(({ style, means, ratio, half }) => (
              <tr key={style.name} className="h-7 border-hair border-t" data-scheduler={style.name}>
                <td>
                  <SchedulerName style={style} />
                </td>
                <td className={classNames(CELL, "font-semibold")}>{time(means.latency)}</td>
                <td className={CELL}>{ratioEstimate(ratio, half)}</td>
                <td className={classNames(CELL, "text-muted max-md:hidden")}>{time(means.time)}</td>
                <td className={classNames(CELL, "text-muted max-sm:hidden")}>{energy(means.energy)}</td>
                <td className={classNames(CELL, "text-muted max-sm:hidden")}>{cost(means.cost)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
