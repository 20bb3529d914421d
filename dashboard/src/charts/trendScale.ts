/** Axis ticks, label positions and gaps of the trend chart. */
import type { SchedulerStyle } from "../lib/schedulerStyle";
import { ticks } from "../lib/statistics";
import { logTicks } from "./canvasAxes";

export interface TrendSeries {
  style: SchedulerStyle;
  points: readonly { x: number; y: number; half: number | null }[];
}

/** Whether the axis is logarithmic: an unstable queue would compress all values below five times the oracle. */
export const isLogarithmic = (high: number): boolean => high > 5;

/** Round ratios for the axis, at most about six. */
export function ratioTicks(low: number, high: number): number[] {
  if (!isLogarithmic(high)) return ticks(low, high, 4);
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const factor of [1, 2, 5]) {
      const value = Number((factor * 10 ** power).toPrecision(6));
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  return found.length > 6 ? found.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9) : found;
}

/** Scale and ticks of values with a unit: logarithmic where they span more than a factor of twenty. */
export function unitAxis(values: readonly number[]): { low: number; high: number; log: boolean; ticks: number[] } {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (least > 0 && most > 20 * least) {
    const all = logTicks(least, most);
    const tens = all.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
    return { low: least, high: most, log: true, ticks: all.length > 6 && tens.length > 1 ? tens : all };
  }
  const low = Math.min(0, least);
  const high = most > low ? most : low + 1;
  return { low, high, log: false, ticks: ticks(low, high, 4) };
}

/** Label positions at least `gap` apart and within the bounds, in the same order. */
export function spread(wanted: readonly number[], gap: number, low: number, high: number): number[] {
  const order = wanted.map((value, index) => ({ value, index })).sort((a, b) => a.value - b.value);
  let edge = low - gap;
  for (const item of order) {
    item.value = Math.max(item.value, edge + gap);
    edge = item.value;
  }
  let roof = high + gap;
  for (const item of [...order].reverse()) {
    item.value = Math.min(item.value, roof - gap);
    roof = item.value;
  }
  const placed = new Array<number>(wanted.length).fill(0);
  for (const { value, index } of order) placed[index] = value;
  return placed;
}

/** Runs of points that are at most `gap` apart. */
export function pieces<T extends { x: number }>(list: readonly T[], gap = Number.POSITIVE_INFINITY): T[][] {
  const found: T[][] = [];
  for (const point of list) {
    const piece = found.at(-1);
    const before = piece?.at(-1);
    if (piece && before && point.x - before.x <= gap) piece.push(point);
    else found.push([point]);
  }
  return found;
}
