import { describe, expect, it } from "vitest";
import type { GanttDiff, RunDetail, Verdict } from "../src/client/models";
import { firstPair } from "../src/components/GanttDiff";
import { ganttChange } from "../src/lib/ganttChange";
import { changedKeys, changeText, reachOf, shares, verdictOf, whenOf } from "../src/lib/runDiff";

const d = (a: number | null, b: number | null, ci95: number | null = null) => ({
  a,
  b,
  difference: a === null || b === null ? null : b - a,
  ci95,
});

describe("diff of two runs", () => {
  it("is better or worse only where the interval excludes zero", () => {
    expect(verdictOf(d(1, 0.5, 0.1))).toBe("better");
    expect(verdictOf(d(1, 1.5, 0.1))).toBe("worse");
    expect(verdictOf(d(1, 1.05, 0.1))).toBe("close");
    expect(verdictOf(d(1, 1.05))).toBe("open");
    expect(verdictOf(d(1, 1, 0.1))).toBe("same");
    expect(verdictOf(d(null, 1))).toBe("none");
  });

  it("is given in per cent of run A", () => {
    expect(changeText(d(2, 1, 0.1))).toBe("−50.0 ± 5.0 %");
    expect(changeText(d(2, 3))).toBe("+50.0 %");
    expect(changeText(d(null, 3))).toBe("–");
    expect(shares(d(0, 3)).share).toBeNull();
  });

  it("limits the axis to 2 to 100 %", () => {
    expect(reachOf([d(1, 100)])).toBe(1);
    expect(reachOf([d(1, 1)])).toBe(0.02);
    expect(reachOf([d(1, 1.2, 0.1)])).toBeCloseTo(0.3);
  });

  it("lists changed settings once, the API's first", () => {
    const changed = changedKeys(
      { load: [0.12, 0.3] },
      { utilisation: 0.12, noise: { sigma: 0 }, seed: 1, list: [1, 2] },
      { utilisation: 0.3, noise: { sigma: 0.1 }, seed: 1, list: [1, 3], extra: true },
    );
    expect(changed).toEqual([
      { key: "load", a: "0.12", b: "0.3" },
      { key: "noise.sigma", a: "0", b: "0.1" },
      { key: "list.1", a: "2", b: "3" },
      { key: "extra", a: "–", b: "true" },
    ]);
  });
});

describe("two schedules", () => {
  const columns = (first: number) => ({ ordinal: [0, 1, 2], task_id: [first, first + 1, first + 2] });
  const diff = {
    a: columns(10),
    b: columns(50),
    ordinal: [0, 1, 2],
    moved: [true, false, true],
    finish_difference: [-2, 0, 0.5],
  } as unknown as GanttDiff;

  it("are summarised by moved, earlier and later tasks", () => {
    const change = ganttChange(diff);
    expect(change).toMatchObject({ tasks: 3, moved: 2, earlier: 1, later: 1, mean: -0.5 });
    expect(change.largest).toEqual([
      { task: 50, seconds: -2 },
      { task: 52, seconds: 0.5 },
    ]);
  });

  it("begin with the slowest and the leader of a run, or with the same scheduler of two runs", () => {
    const verdict = { leader: "oracle", rows: [{ name: "oracle" }, { name: "greedy" }] } as unknown as Verdict;
    const run = (id: string) =>
      ({ run_id: id, verdict, schedulers: ["greedy", "random", "oracle"] }) as unknown as RunDetail;
    expect(firstPair(run("a"), run("a"))).toEqual(["greedy", "oracle"]);
    expect(firstPair(run("a"), run("b"))).toEqual(["oracle", "oracle"]);
    expect(firstPair({ ...run("a"), schedulers: ["greedy"] }, run("b"))).toEqual(["greedy", "greedy"]);
  });

  it("call the older run before", () => {
    expect(whenOf({ created_at: 1 }, { created_at: 2 })).toEqual(["before", "after"]);
    expect(whenOf({ created_at: 2 }, { created_at: 1 })).toEqual(["after", "before"]);
  });
});
