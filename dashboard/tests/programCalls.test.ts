import { describe, expect, it } from "vitest";
import {
  busySeconds,
  type Call,
  callsOf,
  functionRows,
  joined,
  MOST_CALLS,
  packed,
} from "../src/features/runtime/programCalls";
import { parsePath, pathOf } from "../src/store/routes";

const call = (number: number, start: number, end: number, more: Partial<Call> = {}): Call => ({
  number,
  name: "step",
  device: "cpu",
  submitted: 0,
  launched: start,
  start,
  end,
  seconds: end - start,
  predicted: null,
  transfer: 0,
  ...more,
});

describe("calls of a program", () => {
  it("come from columns", () => {
    const [first] = callsOf({
      number: [7],
      function: ["step"],
      device: ["gpu_0"],
      submitted: [0.1],
      launched: [0.15],
      started: [0.2],
      finished: [0.5],
      seconds: [0.3],
      predicted: [null],
      transfer: [0.05],
    });
    expect(first).toEqual({
      ...call(7, 0.2, 0.5),
      device: "gpu_0",
      submitted: 0.1,
      launched: 0.15,
      seconds: 0.3,
      transfer: 0.05,
    });
  });

  it("keep the newest when they are joined", () => {
    const many = Array.from({ length: MOST_CALLS }, (_, i) => call(i, i, i + 1));
    const all = joined(many, [call(MOST_CALLS, 0, 1)]);
    expect(all.length).toBe(MOST_CALLS);
    expect(all[0]?.number).toBe(1);
  });

  it("are packed into rows without overlap", () => {
    const { bars, rows } = packed([call(0, 0, 2), call(1, 1, 3), call(2, 2, 4)]);
    expect(rows).toBe(2);
    expect(bars.map((bar) => bar.row)).toEqual([0, 1, 0]);
  });

  it("count overlapping time once", () => {
    expect(busySeconds([call(0, 0, 2), call(1, 1, 3), call(2, 5, 9)], 0, 6)).toBeCloseTo(4);
    expect(busySeconds([call(0, 0, 10)], 2, 4)).toBeCloseTo(2);
  });

  it("are summarised per function", () => {
    const rows = functionRows([
      call(0, 1, 2, { predicted: 2 }),
      call(1, 1, 4, { device: "gpu_0", predicted: 3, transfer: 0.5 }),
      call(2, 0, 1, { name: "sort" }),
    ]);
    expect(rows.map((row) => [row.name, row.calls, row.accelerated])).toEqual([
      ["step", 2, 0.5],
      ["sort", 1, 0],
    ]);
    expect(rows[0]?.median).toBe(2);
    expect(rows[0]?.measuredByPredicted).toBeCloseTo(0.75);
    expect(rows[1]?.measuredByPredicted).toBeNull();
  });

  it("have a page", () => {
    expect(parsePath("/runtime")).toEqual({ view: "runtime" });
    expect(pathOf({ view: "runtime" })).toBe("/runtime");
  });
});
