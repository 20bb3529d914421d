/** Calls of a program that runs on real devices: joined reports, and what the page computes from them. */
import type { Program } from "../../client/models";

type Columns = Program["tasks"];

export interface Call {
  number: number;
  name: string;
  device: string;
  submitted: number;
  launched: number;
  start: number;
  end: number;
  seconds: number;
  predicted: number | null;
  transfer: number;
}

/** Most calls that the page keeps, the newest ones; the server keeps as many. */
export const MOST_CALLS = 20_000;

export function callsOf(columns: Columns): Call[] {
  return columns.number.map((number, i) => ({
    number,
    name: columns.function[i] as string,
    device: columns.device[i] as string,
    submitted: columns.submitted[i] as number,
    launched: columns.launched[i] as number,
    start: columns.started[i] as number,
    end: columns.finished[i] as number,
    seconds: columns.seconds[i] as number,
    predicted: columns.predicted[i] ?? null,
    transfer: columns.transfer[i] as number,
  }));
}

/** Joins what was known with a new piece; a piece of another program replaces everything. */
export function joined(known: readonly Call[], added: readonly Call[]): Call[] {
  return [...known, ...added].slice(-MOST_CALLS);
}

export function median(values: readonly number[]): number | null {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

interface FunctionRow {
  name: string;
  calls: number;
  /** Share of the calls that ran on an accelerator. */
  accelerated: number;
  median: number | null;
  wait: number | null;
  transfer: number | null;
  /** Median of measured by predicted seconds; null before the first prediction. */
  measuredByPredicted: number | null;
}

/** One row per function, most calls first. */
export function functionRows(calls: readonly Call[]): FunctionRow[] {
  const groups = new Map<string, Call[]>();
  for (const call of calls) {
    const group = groups.get(call.name);
    if (group) group.push(call);
    else groups.set(call.name, [call]);
  }
  return [...groups]
    .map(([name, own]) => ({
      name,
      calls: own.length,
      accelerated: own.filter((call) => call.device !== "cpu").length / own.length,
      median: median(own.map((call) => call.seconds)),
      wait: median(own.map((call) => Math.max(0, call.start - call.submitted - call.transfer))),
      transfer: median(own.map((call) => call.transfer)),
      measuredByPredicted: median(own.flatMap((call) => (call.predicted ? [call.seconds / call.predicted] : []))),
    }))
    .sort((a, b) => b.calls - a.calls || a.name.localeCompare(b.name));
}

export interface Bar {
  call: Call;
  row: number;
}

/** Rows in which no two calls overlap: a call goes into the first row that is free at its start. */
export function packed(calls: readonly Call[]): { bars: Bar[]; rows: number } {
  const free: number[] = [];
  const bars = [...calls]
    .sort((a, b) => a.start - b.start)
    .map((call) => {
      let row = free.findIndex((end) => end <= call.start);
      if (row < 0) row = free.length;
      free[row] = call.end;
      return { call, row };
    });
  return { bars, rows: Math.max(1, free.length) };
}

/** Seconds in which a device was busy within a window, counted once where calls overlap. */
export function busySeconds(calls: readonly Call[], from: number, to: number): number {
  let [busy, until] = [0, from];
  for (const call of [...calls].sort((a, b) => a.start - b.start)) {
    const [start, end] = [Math.max(call.start, until), Math.min(call.end, to)];
    if (end > start) busy += end - start;
    until = Math.max(until, Math.min(call.end, to));
  }
  return busy;
}
