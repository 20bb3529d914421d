/** Lanes and blocks of a Gantt chart, and the search for the visible ones. */
import type { DeviceTimeline } from "../lib/deviceTimeline";
import type { SlowSpans } from "../lib/slowdown";

/** Busy seconds per column of equal width, and their running sums. */
interface Heat {
  start: number;
  width: number;
  sums: Float64Array;
}

export function heatOf(start: number, width: number, busy: readonly number[]): Heat {
  const sums = new Float64Array(busy.length + 1);
  busy.forEach((seconds, i) => {
    sums[i + 1] = (sums[i] as number) + seconds;
  });
  return { start, width, sums };
}

/** Busy seconds of the columns up to a time; within a column they count as spread evenly. */
function heatUpTo(heat: Heat, time: number): number {
  const last = heat.sums.length - 1;
  const place = Math.min(Math.max((time - heat.start) / heat.width, 0), last);
  const column = Math.min(Math.floor(place), last - 1);
  if (column < 0) return 0;
  const before = heat.sums[column] as number;
  return before + (place - column) * ((heat.sums[column + 1] as number) - before);
}

export interface GanttLane {
  device: string;
  /** Busy seconds per column, drawn where the blocks are too many; null draws blocks. */
  heat?: Heat | null;
  /** Idle share of the visible window as the server computed it; undefined computes it from the blocks. */
  idle?: number;
  /** Blocks from oldest to newest; a source is used up to the start of the next one. */
  sources: readonly DeviceTimeline[];
}

/** Vertical line across the lanes: its position and its label's value, which may count from another origin. */
export interface Mark {
  at: number;
  value: number;
}

/** A lane with the kind of its device, which decides its colour. */
export interface LaneOfKind extends GanttLane {
  kind: string;
}

/** Visible stretch of time and the ways to change it. */
export interface GanttWindow {
  from: number;
  to: number;
  pan: (seconds: number) => void;
  /** A factor above one zooms in; `at` keeps its place on the screen. */
  zoom: (factor: number, at?: number) => void;
  brush: (from: number, to: number) => void;
}

export interface GanttModel {
  lanes: readonly GanttLane[];
  from: number;
  to: number;
  now: number;
  /** Label of the line at `now`; "now" by default. */
  nowLabel?: string;
  bound: Mark | null;
  makespan: Mark | null;
  slow: SlowSpans | null;
  /** Times at which the scheduler found that durations had changed. */
  drifts: readonly number[];
  selected: number | null;
  crosshair: number | null;
  top: number;
  pitch: number;
  laneHeight: number;
}

/** Text of a block's tooltip. */
export interface BlockDetails {
  title: string;
  latency: string;
  rows: readonly (readonly [string, string])[];
}

export interface Block {
  device: string;
  lane: number;
  start: number;
  end: number;
  task: number;
}

/** End of the part of a source that is used. */
function until(sources: readonly DeviceTimeline[], index: number): number {
  const next = sources[index + 1];
  return next && next.length > 0 ? next.start(0) : Number.POSITIVE_INFINITY;
}

/** Visits the visible blocks of a lane in order. */
export function visit(
  lane: GanttLane,
  from: number,
  to: number,
  each: (source: DeviceTimeline, index: number) => void,
): void {
  lane.sources.forEach((source, order) => {
    const stop = until(lane.sources, order);
    for (let i = source.firstEndingAfter(from); i < source.length; i++) {
      const start = source.start(i);
      if (start >= to || start >= stop) break;
      each(source, i);
    }
  });
}

/** Number of blocks between two times, found by binary search. */
export function countBetween(lane: GanttLane, from: number, to: number): number {
  return lane.sources.reduce((sum, source, order) => {
    const end = Math.min(to, until(lane.sources, order));
    return sum + Math.max(0, source.firstEndingAfter(end) - source.firstEndingAfter(from));
  }, 0);
}

/** Busy seconds of all sources up to a time, from an arbitrary origin. Called per pixel, so without closures. */
export function busyUpTo(lane: GanttLane, time: number, weigh = false): number {
  if (lane.heat) return heatUpTo(lane.heat, time);
  let sum = 0;
  for (let order = 0; order < lane.sources.length; order++) {
    const stop = until(lane.sources, order);
    sum += (lane.sources[order] as DeviceTimeline).upTo(Math.min(time, stop), weigh);
  }
  return sum;
}

export function busyBetween(lane: GanttLane, from: number, to: number): number {
  return to > from ? busyUpTo(lane, to) - busyUpTo(lane, from) : 0;
}

/** Block under a point, or null. */
export function blockAt(model: GanttModel, width: number, px: number, py: number): Block | null {
  const index = Math.floor((py - model.top) / model.pitch);
  const lane = model.lanes[index];
  if (!lane || py < model.top) return null;
  const perPixel = (model.to - model.from) / width;
  const t = model.from + px * perPixel;
  let found: Block | null = null;
  visit(lane, t - perPixel, t + perPixel, (source, i) => {
    found ??= {
      device: lane.device,
      lane: index,
      start: source.start(i),
      end: source.end(i),
      task: source.task(i),
    };
  });
  return found;
}
