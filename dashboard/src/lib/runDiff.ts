/** Differences between two runs as verdicts, relative changes and texts. */
import type { Difference, DiffRow } from "../client/models";
import { isNumber, NOTHING, type Quantity, signed, significant, tick } from "./format";

export type DiffMetric = Exclude<keyof DiffRow, "name">;

export const DIFF_METRICS: readonly { key: DiffMetric; label: string; long: string; quantity: Quantity }[] = [
  { key: "mean_latency", label: "latency", long: "Mean latency", quantity: "time" },
  { key: "p95_latency", label: "p95", long: "p95 latency", quantity: "time" },
  { key: "mean_time", label: "time", long: "Mean execution time", quantity: "time" },
  { key: "mean_energy", label: "energy", long: "Energy per task", quantity: "energy" },
  { key: "mean_cost", label: "cost", long: "Cost per task", quantity: "cost" },
];

/** `open`: the values differ, but the API gives no interval. */
export type Verdict = "better" | "worse" | "close" | "same" | "open" | "none";

export function verdictOf({ difference, ci95 }: Difference): Verdict {
  if (!isNumber(difference)) return "none";
  if (difference === 0) return "same";
  if (!isNumber(ci95)) return "open";
  if (Math.abs(difference) <= ci95) return "close";
  return difference < 0 ? "better" : "worse";
}

/** Difference and half width relative to the value of run A. */
export function shares({ a, difference, ci95 }: Difference): { share: number | null; half: number | null } {
  if (!isNumber(a) || a === 0 || !isNumber(difference)) return { share: null, half: null };
  return { share: difference / a, half: isNumber(ci95) ? ci95 / Math.abs(a) : null };
}

/** "−1.66 ± 0.62 %" */
export function changeText(difference: Difference): string {
  const { share, half } = shares(difference);
  if (share === null) return NOTHING;
  const text = `${share > 0 ? "+" : ""}${significant(100 * share)}`;
  return half === null ? `${text} %` : `${text} ± ${significant(100 * half, 2)} %`;
}

export const differenceText = (difference: Difference, quantity: Quantity): string =>
  signed(difference.difference, quantity);

/** Half width of the axis, between 2 and 100 %. */
export function reachOf(list: readonly Difference[]): number {
  const ends = list.flatMap((one) => {
    const { share, half } = shares(one);
    return share === null ? [] : [Math.abs(share) + (half ?? 0)];
  });
  return Math.min(1, Math.max(0.02, ...ends));
}

/** Settings that decide which tasks a run gets. */
export const TASK_SETTINGS = ["scenario", "load", "seed"] as const;

/** Words for A and B: the older run is before. */
export const whenOf = (a: { created_at: number }, b: { created_at: number }): [string, string] =>
  a.created_at <= b.created_at ? ["before", "after"] : ["after", "before"];

type Plain = string | number | boolean | null;

function flatten(value: unknown, path: string, into: Map<string, Plain>): void {
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value);
    if (entries.length === 0) into.set(path, Array.isArray(value) ? "none" : "{}");
    for (const [key, inner] of entries) flatten(inner, path ? `${path}.${key}` : key, into);
  } else into.set(path, value === undefined ? null : (value as Plain));
}

interface Changed {
  key: string;
  a: string;
  b: string;
}

export const plain = (value: unknown): string => {
  if (value === null || value === undefined) return NOTHING;
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : tick(value, 4);
  if (Array.isArray(value)) return value.map(plain).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

/** Settings that differ: first the API's list, then all other entries of the two configurations. */
export function changedKeys(
  known: Readonly<Record<string, readonly unknown[]>>,
  a: Readonly<Record<string, unknown>>,
  b: Readonly<Record<string, unknown>>,
): Changed[] {
  const list: Changed[] = Object.entries(known).map(([key, [x, y]]) => ({ key, a: plain(x), b: plain(y) }));
  // A stored configuration has the key of the configuration file for the load.
  const covered = new Set([...Object.keys(known), ...("load" in known ? ["utilisation"] : [])]);
  const [left, right] = [new Map<string, Plain>(), new Map<string, Plain>()];
  flatten(a, "", left);
  flatten(b, "", right);
  for (const key of new Set([...left.keys(), ...right.keys()])) {
    const [x, y] = [left.get(key) ?? null, right.get(key) ?? null];
    if (x !== y && !covered.has(key.split(".")[0] ?? "")) list.push({ key, a: plain(x), b: plain(y) });
  }
  return list;
}
