import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { ScrollRegion } from "../../components/ui/ScrollRegion";
import { Table } from "../../components/ui/SortableTable";
import { Panel } from "../../components/widget/Panel";
import { cost, count, energy, estimate, significant, time } from "../../lib/format";
import { mean } from "../../lib/statistics";
import type { Cell, TableData } from "../../lib/tableData";
import { useStylesOf } from "../../store/schedulerStyles";
import { navigate } from "../../store/uiStore";
import { schedulersOf } from "./curves";
import { useWorkspace } from "./workspaceContext";
import { numberOf, type Row } from "./workspaceData";
import { useWorkspaceState } from "./workspaceState";

const METRICS = ["mean_latency", "p95_latency", "mean_time", "mean_energy", "mean_cost"] as const;

function meanOf(rows: readonly Row[], key: string): number | null {
  const values = rows.flatMap((row) => numberOf(row, key) ?? []);
  return values.length ? mean(values) : null;
}

/** Table of the chosen runs and sweeps, with the values that the curves summarise. */
export function OverlayTable() {
  const state = useWorkspaceState();
  const { sources, kept, pending } = useWorkspace();
  const lines = sources.flatMap((source) =>
    schedulersOf(source, kept, state.by).map((scheduler) => ({
      source,
      scheduler,
      own: kept.filter((row) => row.source === source && row.scheduler === scheduler),
    })),
  );
  const styles = useStylesOf([...new Set(lines.map((line) => line.scheduler))]);
  const data: TableData = {
    name: "workspace",
    columns: [
      { key: "source", label: "run or sweep" },
      { key: "scheduler", label: "scheduler" },
      { key: "mean_latency", label: "latency", numeric: true, show: (v) => time(v as number) },
      { key: "p95_latency", label: "p95", numeric: true, show: (v) => time(v as number) },
      { key: "mean_time", label: "time", numeric: true, show: (v) => time(v as number) },
      { key: "mean_energy", label: "energy", numeric: true, show: (v) => energy(v as number) },
      { key: "mean_cost", label: "cost", numeric: true, show: (v) => cost(v as number) },
      { key: "load", label: "load", numeric: true, show: (v) => significant(v as number) },
      { key: "cells", label: "cells", numeric: true, show: (v) => count(v as number) },
    ],
    rows: lines.map(({ source, scheduler, own }): Cell[] => [
      source.label,
      scheduler,
      ...METRICS.map((key) => meanOf(own, key)),
      meanOf(own, "load"),
      source.kind === "sweep" ? own.length : null,
    ]),
  };
  const lineOf = (row: readonly Cell[]) =>
    lines.find((one) => one.source.label === row[0] && one.scheduler === row[1]);
  return (
    <Panel
      title="Table"
      subtitle="means per task"
      state={
        lines.length
          ? { kind: "ready" }
          : pending
            ? { kind: "loading", shape: "table" }
            : { kind: "empty", title: "Nothing chosen", hint: "Choose runs or sweeps in the list." }
      }
      table={() => data}
      note="Sweeps show the mean over the cells that pass the filters. ±: 95 % interval of the run. Click a run to open it."
    >
      <ScrollRegion label="Chosen runs and sweeps" className="h-full">
        <Table
          data={data}
          caption="Chosen runs and sweeps"
          onRow={(row) => {
            const line = lineOf(row);
            if (line?.source.kind === "run") navigate({ view: "run", id: line.source.key });
          }}
          render={(column, value, row) => {
            const line = lineOf(row);
            if (column.key === "source")
              return (
                <span className="inline-flex max-w-32 items-center 2xl:max-w-64 gap-2 align-bottom">
                  <i className="h-1 w-3 shrink-0 rounded-full" style={{ background: line?.source.color }} />
                  <span className="truncate" title={String(value)}>
                    {value}
                  </span>
                </span>
              );
            const style = styles.get(String(value));
            if (column.key === "scheduler" && style) return <SchedulerName style={style} className="max-w-32" />;
            if (column.key === "mean_latency" && line?.source.run)
              return estimate(value as number, meanOf(line.own, "latency_ci95"), "time");
            return undefined;
          }}
        />
      </ScrollRegion>
    </Panel>
  );
}
