/** Runs and sweeps of the workspace: queries, colours and rows of the same form for both. */
import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "../../client/api";
import type { RunDetail, Sweep, Trends } from "../../client/models";
import type { ThemeName } from "../../lib/designTokens";
import { isNumber, shortRunId } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import { useTheme } from "../../store/uiStore";
import { useWorkspaceState } from "./workspaceState";

/** Colours of runs and sweeps, apart from those of schedulers; after the last the first follows, dashed. */
const COLORS: Record<ThemeName, readonly string[]> = {
  dark: ["#7DD3FC", "#F9A8D4", "#BEF264", "#FDBA74", "#C4B5FD", "#5EEAD4", "#FDE047", "#FCA5A5"],
  light: ["#0369A1", "#BE185D", "#4D7C0F", "#C2410C", "#6D28D9", "#0F766E", "#854D0E", "#B91C1C"],
};
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3]];

/** A run or a sweep that the workspace overlays. */
export interface Source {
  /** Identifier of the run, or name of the sweep. */
  key: string;
  kind: "run" | "sweep";
  label: string;
  color: string;
  dash: readonly number[];
  run?: RunDetail;
  trends?: Trends;
  sweep?: Sweep;
  /** The scheduler with the lowest mean latency. */
  leader: string | null;
}

type Value = string | number | null;

/** One scheduler of a run, or one cell of a sweep. */
export interface Row {
  source: Source;
  scheduler: string;
  values: Readonly<Record<string, Value>>;
}

function useAll<T>(kind: string, keys: readonly string[], read: (key: string, signal: AbortSignal) => Promise<T>) {
  return useQueries({
    queries: keys.map((key) => ({
      queryKey: [kind, key],
      queryFn: ({ signal }: { signal: AbortSignal }) => read(key, signal),
      staleTime: 30_000,
    })),
    combine: (results) => ({
      data: results.map((one) => one.data),
      pending: results.some((one) => one.isPending),
      failed: results.flatMap((one, i) => (one.error ? [keys[i] as string] : [])),
    }),
  });
}

export function useSources() {
  const { runs, sweeps } = useWorkspaceState();
  const theme = useTheme();
  const details = useAll("run", runs, (id, signal) => api.run(id, { signal }));
  const trends = useAll("trends", runs, (id, signal) => api.trends(id, 120, { signal }));
  const cells = useAll("sweep", sweeps, (name, signal) => api.sweep(name, { signal }));
  const sources = useMemo(() => {
    const style = (at: number) => ({
      color: COLORS[theme][at % COLORS[theme].length] as string,
      dash: DASHES[Math.floor(at / COLORS[theme].length) % DASHES.length] ?? [],
    });
    const withLeader = (source: Omit<Source, "leader">): Source => {
      const whole = { ...source, leader: null };
      return { ...whole, leader: leaderOf(whole) };
    };
    return [
      ...runs.map((key, i): Source => {
        const run = details.data[i];
        const label = run?.name || `${run?.scenario ?? "run"} ${shortRunId(key)}`;
        return withLeader({ key, kind: "run", label, ...style(i), run, trends: trends.data[i] });
      }),
      ...sweeps.map((key, i): Source => {
        const look = style(runs.length + i);
        return withLeader({ key, kind: "sweep", label: key, ...look, sweep: cells.data[i] });
      }),
    ];
  }, [runs, sweeps, details.data, trends.data, cells.data, theme]);
  return {
    sources,
    rows: useMemo(() => sources.flatMap(rowsOf), [sources]),
    pending: details.pending || trends.pending || cells.pending,
    failed: [...new Set([...details.failed, ...trends.failed, ...cells.failed])],
  };
}

/** Leader of a run as the server says; in a sweep the lowest mean of the mean latencies, without the reference. */
function leaderOf(source: Source): string | null {
  if (source.run?.verdict) return source.run.verdict.leader;
  const sums = new Map<string, [number, number]>();
  for (const row of rowsOf(source)) {
    const latency = numberOf(row, "mean_latency");
    if (latency === null || row.scheduler === REFERENCE) continue;
    const [total, n] = sums.get(row.scheduler) ?? [0, 0];
    sums.set(row.scheduler, [total + latency, n + 1]);
  }
  const means = [...sums].map(([name, [total, n]]) => [name, total / n] as const);
  return means.sort((a, b) => a[1] - b[1])[0]?.[0] ?? null;
}

const perTask = (total: unknown, tasks: unknown): number | null =>
  typeof total === "number" && typeof tasks === "number" && tasks > 0 ? total / tasks : null;

export function rowsOf(source: Source): Row[] {
  const { run, sweep } = source;
  const own = { source: source.label };
  if (run) {
    const { scenario, load, seed, platform } = run;
    return run.comparison.map((row) => ({
      source,
      scheduler: row.name,
      values: {
        ...(row as unknown as Record<string, Value>),
        ...own,
        scenario,
        load,
        seed,
        platform,
        scheduler: row.name,
      },
    }));
  }
  return (sweep?.cells ?? []).map((cell) => ({
    source,
    scheduler: String(cell.scheduler),
    values: {
      ...(cell as Record<string, Value>),
      ...own,
      mean_energy: perTask(cell.energy, cell.tasks),
      mean_cost: perTask(cell.cost, cell.tasks),
      // A batch arrives at once and has no load.
      load: cell.batch === true || typeof cell.load !== "number" ? null : cell.load,
    },
  }));
}

/** Value of a row as a number; null where it is text or missing. */
export const numberOf = (row: Row, key: string): number | null => {
  const value = row.values[key];
  return typeof value === "number" && isNumber(value) ? value : null;
};
