import { describe, expect, it } from "vitest";
import { pieces, ratioTicks, spread } from "../src/charts/trendScale";
import type { ModelVersion, Run, RunDetail } from "../src/client/models";
import type { ResultRecord } from "../src/client/resultRecords";
import { thinVersions, toMarks } from "../src/components/versionMarks";
import {
  type Bucket,
  cumulativeMeans,
  endsOf,
  idAt,
  nearest,
  partialBucket,
  positionOf,
  totalOf,
} from "../src/features/history/cumulativeMeans";
import { ratiosAlong, ratiosByRun } from "../src/features/history/oracleRatios";
import { nextEnd } from "../src/features/history/playbackStore";
import { pick } from "../src/features/history/runSelection";
import { matches } from "../src/store/runPages";
import { row } from "./fixtures";

const point = (n: number, latency: number, regret: number) => ({
  n,
  mean_latency: latency,
  mean_time: latency / 2,
  mean_energy: 10,
  mean_cost: 1e-5,
  mean_regret: regret,
});

/** Buckets in which the oracle's latency is 1 and the other's is 1, 2, 3, … */
const buckets = (count: number, size = 10): Bucket[] =>
  Array.from({ length: count }, (_, i) => ({
    first_ordinal: i * size,
    last_ordinal: (i + 1) * size - 1,
    first_task_id: 101 + i * size + (i > 1 ? 40 : 0),
    first_arrival: i * 5,
    schedulers: { oracle: point(size, 1, 0), greedy: point(size, i + 1, i) },
  }));

const result = (task: number, scheduler: string, latency: number, status = "ran"): ResultRecord =>
  ({
    task_id: task,
    scheduler,
    latency,
    time: latency / 2,
    energy: 10,
    cost: 1e-5,
    regret: latency - 1,
    status,
  }) as ResultRecord;

describe("playback", () => {
  const list = buckets(4);

  it("finds bucket ends and the bucket that contains the playhead", () => {
    expect(endsOf(list)).toEqual([10, 20, 30, 40]);
    expect(totalOf(list)).toBe(40);
    expect(totalOf([])).toBe(0);
    expect(partialBucket(list, 20)).toBeNull();
    expect(partialBucket(list, 23)?.first_ordinal).toBe(20);
    expect(nearest(endsOf(list), 24)).toBe(20);
    expect(nextEnd([10, 20], 10)).toBe(20);
    expect(nextEnd([10, 20], 20)).toBe(20);
  });

  it("maps task ids to positions across gaps in the ids", () => {
    expect([100, 101, 115, 120].map((id) => positionOf(list, id))).toEqual([0, 1, 15, 20]);
    expect(positionOf(list, 140)).toBe(20); // of the other run: the last one before
    expect([161, 175, 180].map((id) => positionOf(list, id))).toEqual([21, 35, 40]);
    expect([1, 10, 15, 21, 40].map((at) => idAt(list, at))).toEqual([101, 110, null, 161, 180]);
    expect(idAt([], 1)).toBeNull();
  });

  it("weights whole buckets by their number of tasks", () => {
    expect(cumulativeMeans(list, 20).get("greedy")).toMatchObject({ n: 20, latency: 1.5, regret: 0.5, half: null });
    expect(cumulativeMeans(list, 40).get("greedy")?.latency).toBe(2.5);
    expect(cumulativeMeans(list, 0).size).toBe(0);
  });

  it("adds single tasks of a partial bucket and leaves out failed ones", () => {
    const rows = [
      result(121, "oracle", 1),
      result(121, "greedy", 6),
      result(122, "oracle", 1),
      result(122, "greedy", 99, "failed"),
      result(123, "greedy", 99),
    ];
    const means = cumulativeMeans(list, 22, rows).get("greedy");
    expect(means?.n).toBe(21);
    expect(means?.latency).toBeCloseTo((20 * 1.5 + 6) / 21);
  });

  it("gives an interval from ten buckets on", () => {
    expect(cumulativeMeans(buckets(9), 90).get("greedy")?.half).toBeNull();
    expect(cumulativeMeans(buckets(12), 120).get("greedy")?.half).toBeGreaterThan(0);
    expect(cumulativeMeans(buckets(12), 120).get("oracle")?.half).toBe(0);
  });
});

const run = (change: Partial<RunDetail> = {}): RunDetail => ({
  run_id: "01M7EYTG96DQDVM2239MTEERFN",
  name: "",
  tags: [],
  note: "",
  replay: null,
  verdict: null,
  created_at: 1_700_000_000,
  ended_at: null,
  status: "stopped",
  source: "simulated",
  scenario: "mixed",
  load: 0.12,
  seed: 42,
  platform: "workstation",
  schedulers: ["oracle", "greedy"],
  config: {},
  config_hash: "0",
  tasks: 100,
  comparison: [
    row("oracle", { mean_latency: 0.2 }),
    row("greedy", { mean_latency: 0.3, regret_ci95: 0.02 }),
    row("hybrid_ml", { mean_latency: 0.22, regret_ci95: 0.01 }),
  ],
  ...change,
});

describe("trend", () => {
  it("divides by the oracle's mean of the same tasks and merges neighbours", () => {
    const lines = ratiosAlong(buckets(4), 2);
    expect(lines.get("greedy")?.map((dot) => [dot.x, dot.y])).toEqual([
      [20, 1.5],
      [40, 3.5],
    ]);
    expect(lines.get("oracle")?.every((dot) => dot.y === 1)).toBe(true);
  });

  it("is empty without an oracle", () => {
    const alone = buckets(2).map((b) => ({ ...b, schedulers: { greedy: point(10, 1, 0) } }));
    expect(ratiosAlong(alone).size).toBe(0);
  });

  it("has a point with its interval for each run", () => {
    const dot = ratiosByRun([run(), run()]).get("greedy")?.[1];
    expect(dot?.x).toBe(1);
    expect(dot?.y).toBeCloseTo(1.5);
    expect(dot?.half).toBeCloseTo(0.1);
  });

  it("separates labels and keeps them within bounds", () => {
    expect(spread([50, 51, 10], 16, 0, 100)).toEqual([50, 66, 10]);
    expect(spread([99, 100], 16, 0, 100)).toEqual([84, 100]);
    expect(pieces([{ x: 0 }, { x: 1 }, { x: 3 }], 1).map((piece) => piece.length)).toEqual([2, 1]);
    expect(ratioTicks(1, 60)).toEqual([1, 2, 5, 10, 20, 50]);
    expect(ratioTicks(1, 1.8)).toContain(1.4);
  });
});

describe("list of runs", () => {
  it("matches a run that contains every word of the search", () => {
    expect(matches(run(), "mixed greedy", "all")).toBe(true);
    expect(matches(run(), "seed 42", "stopped")).toBe(true);
    expect(matches(run(), "mixed", "running")).toBe(false);
    expect(matches(run() as Run, "pareto", "all")).toBe(false);
  });

  it("selects A, then B, then replaces B, and deselects", () => {
    const one = pick({ a: null, b: null }, "x");
    const two = pick(one, "y");
    expect(two).toEqual({ a: "x", b: "y" });
    expect(pick(two, "z")).toEqual({ a: "x", b: "z" });
    expect(pick({ a: "y", b: null }, "x")).toEqual({ a: "x", b: "y" }); // the older one is before
    expect(pick(two, "x")).toEqual({ a: "y", b: null });
    expect(pick(two, "y")).toEqual({ a: "x", b: null });
  });
});

describe("versions", () => {
  const versions = Array.from(
    { length: 500 },
    (_, i): ModelVersion => ({
      run_id: "r",
      scheduler_name: "hybrid_ml",
      version: i + 1,
      samples: 50,
      r2: i % 2 ? 0.99 : null,
      trigger: i === 0 ? "pretrained" : i === 333 ? "drift" : "schedule",
      at_task: 1000 + i,
      created_at: 0,
      seconds: 1,
    }),
  );

  it("keep the first, the newest and those after drift when thinned", () => {
    const few = thinVersions(versions, 100);
    expect(few.length).toBeLessThanOrEqual(102);
    expect(few[0]?.version).toBe(1);
    expect(few.at(-1)?.version).toBe(500);
    expect(few.some((version) => version.trigger === "drift")).toBe(true);
    expect(thinVersions(versions.slice(0, 5), 100)).toHaveLength(5);
  });

  it("have positions that count from the first task of the run", () => {
    const [mark] = toMarks(versions.slice(0, 1), (task) => task - 999);
    expect(mark).toMatchObject({ at: 1, given: true, drift: false });
    expect(mark?.rows).toContainEqual(["R²", "–"]);
  });
});
