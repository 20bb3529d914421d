import type { RunDetail } from "../../client/models";
import { Link } from "../../components/Link";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { Table } from "../../components/ui/SortableTable";
import { Panel } from "../../components/widget/Panel";
import { cost, count, energy, estimate, percent, ratio, ratioEstimate, significant, time } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import type { Cell, Column, TableData } from "../../lib/tableData";
import { useStylesOf } from "../../store/schedulerStyles";

const number = (show: (value: number) => string) => (value: Cell) => show(value as number);

const COLUMNS: readonly Column[] = [
  { key: "scheduler", label: "scheduler" },
  { key: "mean_latency_s", label: "mean latency", numeric: true, show: number(time) },
  { key: "ratio_to_oracle", label: "÷ oracle", numeric: true, show: number(ratio) },
  { key: "regret_s", label: "regret", numeric: true, show: number(time) },
  { key: "p95_latency_s", label: "p95", numeric: true, show: number(time) },
  { key: "p99_latency_s", label: "p99", numeric: true, show: number(time) },
  { key: "mean_time_s", label: "time", numeric: true, show: number(time) },
  { key: "mean_energy_j", label: "energy", numeric: true, show: number(energy) },
  { key: "mean_cost_usd", label: "cost", numeric: true, show: number(cost) },
  { key: "gpu_share", label: "GPU share", numeric: true, show: number(percent) },
  { key: "makespan_s", label: "makespan", numeric: true, show: number(time) },
  { key: "load_balance", label: "balance", numeric: true, show: number(significant) },
  { key: "failed", label: "failed", numeric: true, show: number(count) },
];

export function comparisonTable(run: RunDetail): TableData {
  const base = run.comparison.find((row) => row.name === REFERENCE)?.mean_latency ?? null;
  return {
    name: `comparison-${run.run_id}`,
    columns: COLUMNS,
    rows: run.comparison.map((row) => [
      row.name,
      row.mean_latency,
      base && row.mean_latency !== null ? row.mean_latency / base : null,
      row.name === REFERENCE ? null : row.mean_regret,
      row.p95_latency,
      row.p99_latency,
      row.mean_time,
      row.mean_energy,
      row.mean_cost,
      row.mean_gpu_fraction,
      row.makespan,
      row.load_balance,
      row.failed,
    ]),
  };
}

/** Comparison table of a run with intervals. */
export function RunComparison({ run }: { run: RunDetail }) {
  const styles = useStylesOf(run.schedulers);
  const rows = new Map(run.comparison.map((row) => [row.name, row]));
  const base = rows.get(REFERENCE)?.mean_latency ?? null;
  const window = run.comparison[0]?.window ?? 0;
  return (
    <Panel
      title="Comparison"
      subtitle={`${count(run.tasks)} tasks`}
      state={
        run.comparison.length && run.tasks > 0
          ? { kind: "ready" }
          : { kind: "empty", title: "No task has ended", hint: "The run was stopped before its first result." }
      }
      table={() => comparisonTable(run)}
      note={`± 95 % CI: of the mean latency by batch means; of ratio and regret paired with the oracle. Quantiles over the newest ${count(window)} tasks.`}
      bodyClass="thin-scroll overflow-x-auto"
    >
      <Table
        data={comparisonTable(run)}
        caption="Comparison of the run"
        initial={{ key: "mean_latency_s", down: false }}
        render={(column, _value, cells) => {
          const name = String(cells[0]);
          const row = rows.get(name);
          const style = styles.get(name);
          if (!row) return undefined;
          if (column.key === "scheduler" && style)
            return row.model_version === null ? (
              <SchedulerName style={style} />
            ) : (
              <Link
                to={{ view: "learning", id: run.run_id, name }}
                title={`Learning curves of ${style.label}`}
                className="rounded-[4px] underline decoration-hair underline-offset-4 hover:decoration-current"
              >
                <SchedulerName style={style} />
              </Link>
            );
          if (column.key === "mean_latency_s")
            return <span className="font-semibold">{estimate(row.mean_latency, row.latency_ci95, "time")}</span>;
          if (row.name === REFERENCE) return undefined;
          if (column.key === "ratio_to_oracle" && base && row.mean_latency !== null)
            return ratioEstimate(row.mean_latency / base, row.regret_ci95 === null ? null : row.regret_ci95 / base);
          if (column.key === "regret_s") return estimate(row.mean_regret, row.regret_ci95, "time");
          return undefined;
        }}
      />
    </Panel>
  );
}
