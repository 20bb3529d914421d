import { describe, expect, it } from "vitest";
import type { LearningCurve } from "../src/client/models";
import { errorsOverTime, recoveryFrom } from "../src/features/compare/learningProgress";

const curve = {
  versions: [
    { version: null, first_arrival: 0, error: null },
    { version: 1, first_arrival: 1, error: 0.3 },
    { version: 2, first_arrival: 5, error: 0.01 },
    { version: 3, first_arrival: 11, error: 0.02 },
  ],
  history: [
    { version: 1, trigger: "schedule", error: null },
    { version: 2, trigger: "schedule", error: 0.4 },
    { version: 3, trigger: "drift", error: Math.log(1.5) },
  ],
} as unknown as LearningCurve;

describe("errors over time", () => {
  it("are those of each version; one that a change caused begins with the error that revealed it", () => {
    const found = errorsOverTime(curve);
    expect(found.map(({ x }) => x)).toEqual([1, 5, 11, 11]);
    expect(found.map(({ y }) => y)).toEqual([0.3, 0.01, expect.closeTo(0.5, 12), 0.02]);
  });
});

describe("recovery from a slowdown", () => {
  const errors = [
    { x: 5, y: 0.004 },
    { x: 11, y: 0.4 },
    { x: 12, y: 0.08 },
    { x: 13.5, y: 0.015 },
  ];

  it("counts from the slowdown to the discovery and to the first small error", () => {
    expect(recoveryFrom(10, 20, errors, [2, 10.9, 21])).toEqual({
      noticed: expect.closeTo(0.9, 9),
      back: 3.5,
      limit: 0.02,
    });
  });

  it("is still to come where nothing was noticed within the slowdown", () => {
    expect(recoveryFrom(10, 20, errors, [2, 21])).toEqual({ noticed: null, back: null, limit: 0.02 });
  });

  it("is not misled by a version that began just before the change", () => {
    const across = [{ x: 1, y: 0.003 }, { x: 9.5, y: 2 }, ...errors];
    across.sort((a, b) => a.x - b.x);
    expect(recoveryFrom(10, 20, across, [10.9])).toMatchObject({ back: 3.5, limit: 0.02 });
  });

  it("has a wider limit where durations vary by themselves", () => {
    const noisy = [{ x: 5, y: 0.1 }, ...errors.slice(1)];
    expect(recoveryFrom(10, 20, noisy, [10.9])).toMatchObject({ back: 2, limit: 0.2 });
  });
});
