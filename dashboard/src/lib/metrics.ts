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

const quantile = (key: "p50" | "p95" | "p99", long: string): Metric => ({
  key,
  label: key,
  long,
  quantity: "time",
  value: (row) => row[`${key}_latency`],
  windowed: true,
});

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
  quantile("p50", "median latency"),
  quantile("p95", "95th percentile of latency"),
  quantile("p99", "99th percentile of latency"),
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
