/** Axes of the parallel coordinates: swept parameters and metrics, their scales and filters. */
import { useMemo } from "react";
import type { ParallelAxis, Span } from "../../charts/ParallelCoordinates";
import { unitAxis } from "../../charts/trendScale";
import { type Quantity, quantity, tick } from "../../lib/format";
import { useLive } from "../../store/liveStore";
import { numberOf, type Row } from "./workspaceData";
import { type Bounds, useWorkspaceState } from "./workspaceState";

interface AxisInfo {
  key: string;
  label: string;
  kind: Quantity;
  metric?: boolean;
  /** Whether the axis is there unless others are chosen. */
  usual?: boolean;
}

const AXES: readonly AxisInfo[] = [
  { key: "source", label: "run or sweep", kind: "plain", usual: true },
  { key: "scenario", label: "scenario", kind: "plain", usual: true },
  { key: "platform", label: "platform", kind: "plain", usual: true },
  { key: "load", label: "load", kind: "plain", usual: true },
  { key: "noise", label: "noise", kind: "plain", usual: true },
  { key: "seed", label: "seed", kind: "plain" },
  { key: "scheduler", label: "scheduler", kind: "plain", usual: true },
  { key: "mean_latency", label: "mean latency", kind: "time", metric: true, usual: true },
  { key: "p95_latency", label: "p95 latency", kind: "time", metric: true, usual: true },
  { key: "p99_latency", label: "p99 latency", kind: "time", metric: true },
  { key: "mean_time", label: "execution time", kind: "time", metric: true },
  { key: "mean_energy", label: "energy per task", kind: "energy", metric: true, usual: true },
  { key: "mean_cost", label: "cost per task", kind: "cost", metric: true, usual: true },
  { key: "mean_gpu_fraction", label: "GPU share", kind: "plain", metric: true },
  { key: "latency_over_bound", label: "latency ÷ bound", kind: "plain", metric: true },
];

/** Values of an axis and the mapping between them and positions from 0 to 1. */
interface AxisScale extends AxisInfo {
  /** Names in order; null for numbers. */
  names: readonly string[] | null;
  positionOf: (row: Row) => number | null;
  ticks: ParallelAxis["ticks"];
  step: number;
  textAt: (position: number) => string;
  /** Positions of the bounds in the address; null where they do not fit this axis. */
  spanOf: (bounds: Bounds) => Span | null;
  boundsOf: (span: Span) => Bounds;
}

const clamp = (value: number) => Math.min(1, Math.max(0, value));

function nameScale(
  info: AxisInfo,
  rows: readonly Row[],
  labelOf: (key: string, name: string) => string,
): AxisScale {
  const names = [...new Set(rows.map((row) => String(row.values[info.key] ?? "–")))].sort();
  const at = (i: number) => (names.length > 1 ? i / (names.length - 1) : 0.5);
  const nearest = (position: number) => Math.round(position * (names.length - 1));
  const text = (i: number) => labelOf(info.key, names[i] ?? "");
  return {
    ...info,
    names,
    positionOf: (row) => at(names.indexOf(String(row.values[info.key] ?? "–"))),
    ticks: names.map((_, i) => ({ at: at(i), text: text(i) })),
    step: names.length > 1 ? 1 / (names.length - 1) : 1,
    textAt: (position) => text(nearest(position)),
    spanOf: ([low, high]) => {
      const [a, b] = [names.indexOf(low), names.indexOf(high)];
      return a < 0 || b < a ? null : [at(a), at(b)];
    },
    // A range takes the names between its ends; one between two names takes the nearest.
    boundsOf: ([low, high]) => {
      const first = Math.ceil(low * (names.length - 1) - 1e-6);
      const last = Math.floor(high * (names.length - 1) + 1e-6);
      const [a, b] = first <= last ? [first, last] : [nearest(low), nearest(low)];
      return [names[a] ?? "", names[b] ?? ""];
    },
  };
}

function numberScale(info: AxisInfo, rows: readonly Row[]): AxisScale {
  const values = rows.flatMap((row) => numberOf(row, info.key) ?? []);
  const fitted = unitAxis(values);
  // Unlike a chart of curves, an axis begins at its least value, so that the lines use its whole length.
  const [low, high] = fitted.log ? [fitted.low, fitted.high] : [Math.min(...values), Math.max(...values)];
  const at = (value: number) => {
    if (high <= low) return 0.5;
    return fitted.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  };
  const valueAt = (position: number) =>
    fitted.log ? low * (high / low) ** position : low + position * (high - low);
  const show = (value: number) => (info.kind === "plain" ? tick(value) : quantity(value, info.kind));
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  const marks =
    distinct.length <= 6 ? distinct : [low, ...fitted.ticks.filter((v) => at(v) > 0.08 && at(v) < 0.92), high];
  return {
    ...info,
    names: null,
    positionOf: (row) => {
      const value = numberOf(row, info.key);
      return value === null ? null : at(value);
    },
    ticks: marks.map((value) => ({ at: at(value), text: show(value) })),
    step: 0.02,
    textAt: (position) => show(valueAt(position)),
    spanOf: ([from, to]) => {
      const [a, b] = [Number(from), Number(to)];
      return Number.isFinite(a) && Number.isFinite(b) && b >= a ? [clamp(at(a)), clamp(at(b))] : null;
    },
    boundsOf: (span) => [
      String(Number(valueAt(span[0]).toPrecision(4))),
      String(Number(valueAt(span[1]).toPrecision(4))),
    ],
  };
}

export function scaleOf(
  info: AxisInfo,
  rows: readonly Row[],
  labelOf: (key: string, name: string) => string,
): AxisScale {
  const textual = rows.some((row) => typeof row.values[info.key] === "string");
  return textual ? nameScale(info, rows, labelOf) : numberScale(info, rows);
}

/** Axes that have a value in some row. */
export const available = (rows: readonly Row[]): AxisInfo[] =>
  AXES.filter(({ key }) => rows.some((row) => row.values[key] !== undefined && row.values[key] !== null));

/** The usual axes: parameters that vary, and the main metrics. */
export function usualAxes(rows: readonly Row[]): string[] {
  const varies = (key: string) => new Set(rows.flatMap((row) => row.values[key] ?? [])).size > 1;
  return available(rows).flatMap(({ key, usual, metric }) => (usual && (metric || varies(key)) ? [key] : []));
}

/** Rows whose positions are within every filter. A row without a value does not pass a filter on it. */
export function keeps(scales: readonly AxisScale[], keep: Readonly<Record<string, Bounds>>): (row: Row) => boolean {
  const filters = scales.flatMap((scale) => {
    const bounds = keep[scale.key];
    const span = bounds ? scale.spanOf(bounds) : null;
    return span ? [{ scale, span }] : [];
  });
  return (row) =>
    filters.every(({ scale, span }) => {
      const at = scale.positionOf(row);
      return at !== null && at >= span[0] - 1e-3 && at <= span[1] + 1e-3;
    });
}

/** Scales of the chosen axes, in order. */
export function useScales(rows: readonly Row[]): readonly AxisScale[] {
  const { axes } = useWorkspaceState();
  const schedulers = useLive((s) => s.schedulers);
  return useMemo(() => {
    const labelOf = (key: string, name: string) =>
      key === "scheduler" ? (schedulers.find((one) => one.name === name)?.label ?? name) : name;
    const known = available(rows);
    return (axes ?? usualAxes(rows)).flatMap((key) => {
      const info = known.find((one) => one.key === key);
      return info ? [scaleOf(info, rows, labelOf)] : [];
    });
  }, [axes, rows, schedulers]);
}
