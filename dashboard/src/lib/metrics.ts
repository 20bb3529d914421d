/** Metrics by which the page ranks schedulers; all are fields of the API's comparison rows. */
import type { ComparisonRow } from "../client/models";
import type { Quantity } from "./format";

export interface Metric {
  key: string;
  label: string;
  /** Long form for subtitles, e.g. "mean latency per task". */
  long: string;
  quantity: Quantity;
  value: (row: ComparisonRow) => number | null;
  /** Half width of the 95 % interval of the paired difference to the oracle, where the API gives one. */
  paired?: (row: ComparisonRow) => number | null;
  /** The same quantity in one decision, for intervals from the window of recent tasks. */
  field: "latency" | "time" | "energy" | "cost";
  /** Over the newest tasks only (`window` of the row), not the whole run. */
  windowed?: boolean;
}

export const METRICS: readonly Metric[] = [
  {
    key: "latency",
    label: "latency",
    long: "mean latency per task, waiting included",
    quantity: "time",
    value: (row) => row.mean_latency,
    paired: (row) => row.regret_ci95,
    field: "latency",
  },
  {
    key: "time",
    label: "time",
    long: "mean execution time per task",
    quantity: "time",
    value: (row) => row.mean_time,
    field: "time",
  },
  {
    key: "p50",
    label: "p50",
    long: "median latency",
    quantity: "time",
    value: (row) => row.p50_latency,
    field: "latency",
    windowed: true,
  },
  {
    key: "p95",
    label: "p95",
    long: "95th percentile of latency",
    quantity: "time",
    value: (row) => row.p95_latency,
    field: "latency",
    windowed: true,
  },
  {
    key: "p99",
    label: "p99",
    long: "99th percentile of latency",
    quantity: "time",
    value: (row) => row.p99_latency,
    field: "latency",
    windowed: true,
  },
  {
    key: "energy",
    label: "energy",
    long: "mean energy per task",
    quantity: "energy",
    value: (row) => row.mean_energy,
    field: "energy",
  },
  {
    key: "cost",
    label: "cost",
    long: "mean cost per task",
    quantity: "cost",
    value: (row) => row.mean_cost,
    field: "cost",
  },
];

export const DEFAULT_METRIC = METRICS[0] as Metric;

export function metricOf(key: string): Metric {
  return METRICS.find((metric) => metric.key === key) ?? DEFAULT_METRIC;
}
