/** Rows of the ledger, one per task and scheduler, newest task first. */
import { cost, energy, ratio, significant, time } from "../../lib/format";
import { REFERENCE, type SchedulerStyle } from "../../lib/schedulerStyle";
import type { Cell, Column } from "../../lib/tableData";
import type { RecentTask } from "../../store/recentTasks";

const LEDGER_TASKS = 200;

const num = (show: (value: number) => string) => (value: Cell) => show(value as number);

export const LEDGER_COLUMNS: readonly Column[] = [
  { key: "task_id", label: "task", show: String },
  { key: "scheduler", label: "scheduler" },
  { key: "device", label: "device" },
  { key: "fraction", label: "GPU share", numeric: true, show: num(significant) },
  { key: "time_s", label: "time", numeric: true, show: num(time) },
  { key: "latency_s", label: "latency", numeric: true, show: num(time) },
  { key: "energy_j", label: "energy", numeric: true, show: num(energy) },
  { key: "cost_usd", label: "cost", numeric: true, show: num(cost) },
  { key: "latency_ratio_oracle", label: "vs oracle", numeric: true, show: num(ratio) },
];

export type LedgerRow = [
  number,
  string,
  string,
  number | null,
  number | null,
  number | null,
  number | null,
  number | null,
  number | null,
];

export function ledgerRows(tasks: readonly RecentTask[], styles: readonly SchedulerStyle[]): LedgerRow[] {
  const rows: LedgerRow[] = [];
  for (let i = tasks.length - 1; i >= Math.max(0, tasks.length - LEDGER_TASKS); i--) {
    const task = tasks[i] as RecentTask;
    const base = task.results.get(REFERENCE)?.latency ?? null;
    for (const style of styles) {
      const d = task.results.get(style.name);
      if (!d) continue;
      const share = base && d.latency !== null ? d.latency / base : null;
      rows.push([task.task_id, style.name, d.device, d.fraction, d.time, d.latency, d.energy, d.cost, share]);
    }
  }
  return rows;
}

export function sortRows(rows: readonly LedgerRow[], key: string, down: boolean): readonly LedgerRow[] {
  const at = LEDGER_COLUMNS.findIndex((column) => column.key === key);
  // The rows are already in this order.
  if (at === 0 && down) return rows;
  return [...rows].sort((a, b) => {
    const [x, y] = [a[at] as Cell, b[at] as Cell];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    return down ? -order : order;
  });
}

/** Rows whose task, scheduler and device contain every word of the text. */
export function filterRows(
  rows: readonly LedgerRow[],
  styles: readonly SchedulerStyle[],
  text: string,
): readonly LedgerRow[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  const labels = new Map(styles.map((style) => [style.name, style.label.toLowerCase()]));
  return rows.filter(([task, scheduler, device]) => {
    const hay =
      `${task} ${scheduler} ${labels.get(scheduler) ?? ""} ${device} ${device.replace("_", " ")}`.toLowerCase();
    return words.every((word) => hay.includes(word));
  });
}
