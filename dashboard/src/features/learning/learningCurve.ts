/** Curves, marks and summary of a learned scheduler, from the API's rows per model version. */
import type { LearningCurve } from "../../client/models";
import type { Quantity } from "../../lib/format";

type Point = { x: number; y: number; half: null };

export type CurveKey = "error" | "reward" | "regret" | "loss";

export const CURVES: readonly [Curve, ...Curve[]] = [
  { value: "error", label: "error", long: "typical error of predicted durations", kind: "share" },
  { value: "reward", label: "reward", long: "mean reward: minus the latency of a task", kind: "time" },
  { value: "regret", label: "regret", long: "mean regret against the oracle", kind: "time" },
  { value: "loss", label: "loss", long: "mean loss of the network's updates", kind: "plain" },
];

interface Curve {
  value: CurveKey;
  label: string;
  long: string;
  kind: Quantity;
}

/** Most points of a curve; more versions are joined in groups of equally many. */
const MOST_POINTS = 120;

/** Curves that a scheduler has: only a network has a loss. */
export const curvesOf = (curve: LearningCurve): Curve[] =>
  CURVES.filter((one) => one.value !== "loss" || curve.history.some((version) => typeof version.loss === "number"));

function pointValue(
  one: LearningCurve["versions"][number],
  key: CurveKey,
  losses: ReadonlyMap<number, number | null | undefined>,
): number | null {
  if (key === "error") return one.error;
  if (key === "loss") return one.version === null ? null : (losses.get(one.version) ?? null);
  if (key === "regret") return one.mean_regret;
  return one.mean_latency === null ? null : -one.mean_latency;
}

/** One point per model version or group of versions, at the first task that it decided. */
export function curveOf(curve: LearningCurve, key: CurveKey): Point[] {
  const size = Math.ceil(curve.versions.length / MOST_POINTS);
  const losses = new Map(curve.history.map((one) => [one.version, one.loss]));
  const points: Point[] = [];
  for (let from = 0; from < curve.versions.length; from += size) {
    const group = curve.versions.slice(from, from + size);
    const known = group.flatMap((one) => {
      const y = pointValue(one, key, losses);
      return y === null ? [] : [{ y, n: one.n }];
    });
    const n = known.reduce((total, one) => total + one.n, 0);
    const y = known.reduce((total, one) => total + one.y * one.n, 0) / n;
    if (n > 0) points.push({ x: group[0]?.first_ordinal ?? 0, y, half: null });
  }
  return points;
}

/** Positions of the versions that were trained after drift. */
export function driftMarks(curve: LearningCurve): { x: number; label: string }[] {
  const drifted = new Set(curve.history.filter((one) => one.trigger === "drift").map((one) => one.version));
  return curve.versions
    .filter((one) => one.version !== null && drifted.has(one.version))
    .map((one) => ({ x: one.first_ordinal, label: `version ${one.version}: trained after drift` }));
}

export function summaryOf(curve: LearningCurve) {
  const judged = curve.versions.filter((one) => one.error !== null);
  const [first, last] = [judged[0], judged.at(-1)];
  return {
    versions: curve.history.at(-1)?.version ?? 0,
    drifts: curve.history.filter((one) => one.trigger === "drift").length,
    first: first?.error ?? null,
    last: last?.error ?? null,
    uncertainty: last?.uncertainty ?? null,
    coverage: last?.coverage ?? null,
    regret: curve.versions.at(-1)?.mean_regret ?? null,
    predictions: curve.versions.reduce((total, one) => total + one.predictions, 0),
  };
}
