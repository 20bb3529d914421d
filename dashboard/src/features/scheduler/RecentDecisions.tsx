import { useMemo } from "react";
import { deviceWords, GpuShareBar } from "../../components/ui/GpuShareBar";
import { Table } from "../../components/ui/SortableTable";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { cost, count, energy, memory, percent, signed, tick, time } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import type { Cell, TableData } from "../../lib/tableData";
import { useStream } from "../../store/liveStore";
import { setUi } from "../../store/uiStore";
import { useSelectedScheduler } from "./selectedScheduler";

const ROWS = 100;
const seconds = (v: Cell) => time(v as number | null);

/** Table of the newest decisions of this scheduler; a row opens the task's details. */
export function RecentDecisions() {
  const scheduler = useSelectedScheduler();
  const stream = useStream();
  const data = useMemo<TableData>(() => {
    const rows: Cell[][] = [];
    const tasks = stream.tasks.list();
    for (let i = tasks.length - 1; i >= 0 && rows.length < ROWS; i--) {
      const task = tasks[i];
      const d = task?.results.get(scheduler.name);
      if (!task || !d) continue;
      const oracle = task.results.get(REFERENCE)?.fraction ?? null;
      // Rounding errors are not waiting time.
      const wait = d.wait !== null && d.wait < 1e-9 ? 0 : d.wait;
      rows.push([
        task.task_id,
        task.size,
        task.compute_intensity,
        task.memory_required,
        deviceWords(d.device, d.fraction),
        d.fraction,
        oracle,
        d.time,
        wait,
        d.energy,
        d.cost,
        scheduler.reference ? null : d.regret,
        d.confidence ?? null,
      ]);
    }
    return {
      name: `decisions-${scheduler.name}`,
      columns: [
        { key: "task_id", label: "task", numeric: true, show: (v) => count(v as number) },
        { key: "size", label: "size N", numeric: true, show: (v) => count(v as number) },
        { key: "intensity", label: "intensity I", numeric: true, show: (v) => tick(v as number) },
        { key: "memory_mb", label: "memory", numeric: true, show: (v) => memory(v as number) },
        { key: "device", label: "device" },
        { key: "fraction", label: "GPU share", numeric: true },
        { key: "oracle_fraction", label: "oracle share", numeric: true, show: (v) => tick(v as number) },
        { key: "time_s", label: "time", numeric: true, show: seconds },
        { key: "wait_s", label: "wait", numeric: true, show: seconds },
        { key: "energy_j", label: "energy", numeric: true, show: (v) => energy(v as number) },
        { key: "cost_usd", label: "cost", numeric: true, show: (v) => cost(v as number) },
        { key: "regret_s", label: "regret", numeric: true, show: (v) => signed(v as number, "time") },
        { key: "confidence", label: "spread", numeric: true, show: (v) => percent(v as number | null) },
      ],
      rows,
    };
  }, [stream, scheduler.name, scheduler.reference]);
  return (
    <Panel
      title="Recent decisions"
      subtitle="open a row to see the decisions of all schedulers"
      state={useLiveBody({ shape: "table" })}
      tag={useLiveTag()}
      table={() => data}
      bodyClass="thin-scroll overflow-auto max-md:max-h-80"
    >
      <Table
        data={data}
        caption={`Recent decisions of ${scheduler.label}`}
        onRow={(row) => setUi({ task: row[0] as number, focus: scheduler.name })}
        render={(column, value, row) => {
          if (column.key === "fraction") return <GpuShareBar share={value as number | null} />;
          if (column.key !== "task_id") return undefined;
          return (
            <button
              type="button"
              className="rounded-[4px] font-mono hover:underline"
              onClick={() => setUi({ task: row[0] as number, focus: scheduler.name })}
            >
              {count(value as number)}
            </button>
          );
        }}
      />
    </Panel>
  );
}
