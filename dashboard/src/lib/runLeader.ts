/** Leader of a stored run by mean latency. */
import type { RunDetail } from "../client/models";
import { intervalsOverlap } from "./intervalOverlap";
import { REFERENCE } from "./schedulerStyle";

export interface RunLeader {
  name: string;
  ratio: number;
  /** The runner-up's interval overlaps the leader's. */
  close: boolean;
}

export function leaderOf(run: RunDetail): RunLeader | null {
  const base = run.comparison.find((row) => row.name === REFERENCE)?.mean_latency;
  const [first, second] = run.comparison
    .flatMap(({ name, mean_latency: latency, regret_ci95: half }) =>
      name === REFERENCE || latency === null ? [] : [{ name, latency, half: half ?? 0 }],
    )
    .sort((a, b) => a.latency - b.latency);
  if (!first || !base) return null;
  const close = second !== undefined && intervalsOverlap(first.latency, first.half, second.latency, second.half);
  return { name: first.name, ratio: first.latency / base, close };
}
