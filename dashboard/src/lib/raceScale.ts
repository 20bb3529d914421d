/** Axis of the race: logarithmic from just below the lower bound, or linear from zero. Positions are per cent of the width. */
import { niceCeiling, ticks } from "./statistics";

export interface RaceScale {
  at: (value: number) => number;
  /** Position of the bars' start. */
  start: number;
  /** Values of the grid lines, and those of them that are labelled. */
  marks: number[];
  labels: number[];
}

/** Ratio of the largest to the smallest value from which the logarithmic scale is the better choice. */
export const LOG_FROM = 4;

function decades(low: number, high: number): number[] {
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const step of [1, 2, 5]) {
      const value = step * 10 ** power;
      if (value >= low && value <= high) found.push(Number(value.toPrecision(6)));
    }
  }
  return found;
}

export function raceScale(
  kind: "log" | "linear",
  values: readonly number[],
  end: number,
  bound: number | null,
): RaceScale {
  const positive = values.filter((value) => value > 0);
  if (kind === "linear" || positive.length === 0) {
    const top = niceCeiling(Math.max(end, bound ?? 0) * 1.02, 4);
    const marks = ticks(0, top, 4);
    return { at: (value) => (100 * Math.min(Math.max(value, 0), top)) / top, start: 0, marks, labels: marks };
  }
  const least = Math.min(...positive, bound ?? Number.POSITIVE_INFINITY);
  const low = least / 1.25;
  const high = Math.max(end * 1.08, least * 2);
  const span = Math.log(high / low);
  const at = (value: number) => (100 * Math.log(Math.min(Math.max(value, low), high) / low)) / span;
  const marks = decades(low, high);
  const tens = marks.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
  return { at, start: 0, marks, labels: tens.length >= 2 ? tens : marks };
}
