/** Ratios of mean latency to the oracle's, within a run and per run. */
import type { RunDetail } from "../../client/models";
import { REFERENCE } from "../../lib/schedulerStyle";
import type { Bucket } from "./cumulativeMeans";

export interface TrendDot {
  x: number;
  y: number;
  half: number | null;
}

/** Ratios along a run; neighbouring buckets are merged into at most `points` points. */
export function ratiosAlong(buckets: readonly Bucket[], points = 40): Map<string, TrendDot[]> {
  const size = Math.max(1, Math.ceil(buckets.length / points));
  const lines = new Map<string, TrendDot[]>();
  for (let i = 0; i < buckets.length; i += size) {
    const group = buckets.slice(i, i + size);
    const x = (group.at(-1)?.last_ordinal ?? 0) + 1;
    const base = meanOf(group, REFERENCE);
    if (!base) continue;
    for (const name of new Set(group.flatMap((bucket) => Object.keys(bucket.schedulers)))) {
      const mean = meanOf(group, name);
      if (mean === null) continue;
      const line = lines.get(name) ?? [];
      line.push({ x, y: mean / base, half: null });
      lines.set(name, line);
    }
  }
  return lines;
}

function meanOf(group: readonly Bucket[], name: string): number | null {
  let [sum, n] = [0, 0];
  for (const bucket of group) {
    const point = bucket.schedulers[name];
    if (!point || point.mean_latency === null) continue;
    sum += point.mean_latency * point.n;
    n += point.n;
  }
  return n > 0 ? sum / n : null;
}

/** One ratio per run, oldest first, with the run's interval paired with its oracle. */
export function ratiosByRun(runs: readonly RunDetail[]): Map<string, TrendDot[]> {
  const lines = new Map<string, TrendDot[]>();
  runs.forEach((run, x) => {
    const base = run.comparison.find((row) => row.name === REFERENCE)?.mean_latency;
    if (!base) return;
    for (const row of run.comparison) {
      if (row.mean_latency === null) continue;
      const half = row.name === REFERENCE || row.regret_ci95 === null ? null : row.regret_ci95 / base;
      const line = lines.get(row.name) ?? [];
      line.push({ x, y: row.mean_latency / base, half });
      lines.set(row.name, line);
    }
  });
  return lines;
}
