/** How a learner's error changed over a run, and how soon it noticed a slowdown of devices and recovered from it. */
import type { LearningCurve } from "../../client/models";

interface Point {
  x: number;
  y: number;
  half: null;
}

/**
 * Errors over virtual time: the typical error of each model version, at the first task that it decided. A version that
 * was trained because durations had changed begins with the mean error of the predictions that revealed the change.
 */
export function errorsOverTime(curve: LearningCurve): Point[] {
  const revealed = new Map(
    curve.history.map(({ version, trigger, error }) => [version, trigger === "drift" && error]),
  );
  return curve.versions.flatMap(({ version, first_arrival: x, error }) => {
    const change = version !== null && revealed.get(version);
    const values = [change ? Math.expm1(change) : null, error];
    return values.flatMap((y) => (y !== null && y > 0 ? [{ x, y, half: null }] : []));
  });
}

export interface Recovery {
  /** Seconds from the change to its discovery, and to an error below the limit; null if that is still to come. */
  noticed: number | null;
  back: number | null;
  limit: number;
}

/** Least error that counts as recovered. */
const LIMIT = 0.02;

/** What a learner made of durations that changed at `start`. */
export function recoveryFrom(
  start: number,
  end: number,
  errors: readonly { x: number; y: number }[],
  drifts: readonly number[],
): Recovery {
  const noticed = drifts.find((at) => at >= start && at < end);
  // The median, because the last version before the change decided tasks on both sides of it.
  const earlier = errors.flatMap(({ x, y }) => (x < start ? [y] : [])).sort((a, b) => a - b);
  const before = earlier[Math.floor((earlier.length - 1) / 2)] ?? 0;
  // A machine with noise has an error that no learner falls below.
  const limit = Math.max(LIMIT, Math.ceil(200 * before) / 100);
  const back = errors.find(({ x, y }) => noticed !== undefined && x >= noticed && x < end && y <= limit);
  return { noticed: noticed === undefined ? null : noticed - start, back: back ? back.x - start : null, limit };
}
