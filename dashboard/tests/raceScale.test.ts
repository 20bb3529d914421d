import { describe, expect, it } from "vitest";
import { raceScale } from "../src/lib/raceScale";

describe("scale of the race", () => {
  it("keeps two slow schedulers apart that a cut axis would draw alike", () => {
    const scale = raceScale("log", [0.13, 7.65, 58.4], 60, 0.062);
    expect(scale.at(58.4) - scale.at(7.65)).toBeGreaterThan(15);
    expect(scale.at(0.062)).toBeGreaterThan(0);
    expect(scale.at(0.13)).toBeGreaterThan(scale.at(0.062));
  });
  it("has every value on a linear axis from zero", () => {
    const scale = raceScale("linear", [1, 2, 58.4], 58.4, null);
    expect(scale.at(0)).toBe(0);
    expect(scale.at(58.4)).toBeLessThanOrEqual(100);
    expect(scale.at(29.2)).toBeCloseTo(scale.at(58.4) / 2);
  });
  it("labels powers of ten where there are two of them", () => {
    expect(raceScale("log", [0.1, 500], 500, 0.05).labels).toEqual([0.1, 1, 10, 100]);
  });
});
