import { describe, expect, it } from "vitest";
import type { LearningCurve } from "../src/client/models";
import { curveOf, curvesOf, driftMarks, summaryOf } from "../src/features/learning/learningCurve";

type Version = LearningCurve["versions"][number];
const version = (number: number, change: Partial<Version> = {}): Version => ({
  version: number,
  first_ordinal: number * 10,
  first_arrival: number,
  n: 10,
  predictions: 10,
  error: 1 / number,
  bias: 0,
  uncertainty: 0.1,
  coverage: 0.9,
  mean_predicted: 1,
  mean_actual: 1,
  mean_latency: 2,
  mean_regret: 0.5,
  ...change,
});
const curve = (versions: Version[]): LearningCurve => ({
  run_id: "R",
  scheduler: "hybrid_ml",
  sampled: false,
  versions,
  kinds: [],
  history: versions.map((one, i) => ({
    run_id: "R",
    scheduler_name: "hybrid_ml",
    version: one.version ?? 0,
    samples: 10 * i,
    r2: 0.9,
    trigger: i === 2 ? "drift" : "interval",
    at_task: 10 * i,
    created_at: 1,
    seconds: 0.1,
  })),
});

describe("learning curve", () => {
  const few = curve([1, 2, 3, 4].map((n) => version(n)));

  it("has a point per version", () => {
    expect(curveOf(few, "error").map((p) => [p.x, p.y])).toEqual([
      [10, 1],
      [20, 0.5],
      [30, 1 / 3],
      [40, 0.25],
    ]);
    expect(curveOf(few, "reward").map((p) => p.y)).toEqual([-2, -2, -2, -2]);
  });

  it("has the loss of a network's versions, and none for models without a network", () => {
    expect(curvesOf(few).map((one) => one.value)).toEqual(["error", "reward", "regret"]);
    const losses = [null, 0.5, 0.25, 0.125];
    const agent = { ...few, history: few.history.map((one, i) => ({ ...one, loss: losses[i] ?? null })) };
    expect(curvesOf(agent).map((one) => one.value)).toContain("loss");
    expect(curveOf(agent, "loss").map((p) => [p.x, p.y])).toEqual([
      [20, 0.5],
      [30, 0.25],
      [40, 0.125],
    ]);
  });

  it("leaves out versions without a value and joins many", () => {
    expect(curveOf(curve([version(1, { error: null }), version(2)]), "error")).toHaveLength(1);
    const many = curve(Array.from({ length: 1000 }, (_, i) => version(i + 1, { error: 0.2, n: i + 1 })));
    const points = curveOf(many, "error");
    expect(points.length).toBeLessThanOrEqual(120);
    expect(points.every((p) => Math.abs(p.y - 0.2) < 1e-12)).toBe(true);
  });

  it("marks drift and sums up", () => {
    expect(driftMarks(few).map((mark) => mark.x)).toEqual([30]);
    expect(summaryOf(few)).toMatchObject({ versions: 4, drifts: 1, first: 1, last: 0.25, predictions: 40 });
    expect(summaryOf(curve([]))).toMatchObject({ versions: 0, first: null, regret: null });
  });
});
