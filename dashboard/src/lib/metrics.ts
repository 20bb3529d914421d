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
  /** Half width of the 95 % interval of the mean, where the API gives one. */
  half?: (row: ComparisonRow) => number | null;
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
    half: (row) => row.latency_ci95,
  },
  {
    key: "time",
    label: "time",
    long: "mean execution time per task",
    quantity: "time",
    value: (row) => row.mean_time,
  },
  {
    key: "p50",
    label: "p50",
    long: "median latency",
    quantity: "time",
    value: (row) => row.p50_latency,
    windowed: true,
  },
  {
    key: "p95",
    label: "p95",
    long: "95th percentile of latency",
    quantity: "time",
    value: (row) => row.p95_latency,
    windowed: true,
  },
  {
    key: "p99",
    label: "p99",
    long: "99th percentile of latency",
    quantity: "time",
    value: (row) => row.p99_latency,
    windowed: true,
  },
  {
    key: "energy",
    label: "energy",
    long: "mean energy per task",
    quantity: "energy",
    value: (row) => row.mean_energy,
  },
  {
    key: "cost",
    label: "cost",
    long: "mean cost per task",
    quantity: "cost",
    value: (row) => row.mean_cost,
  },
];

export const DEFAULT_METRIC = METRICS[0] as Metric;

export function metricOf(key: string): Metric {
  return METRICS.find((metric) => metric.key === key) ?? DEFAULT_METRIC;
}
