import { describe, expect, it } from "vitest";
import { holm, niceCeiling, pearson, signTest, ticks, tQuantile } from "../src/lib/statistics";

describe("intervals", () => {
  it("use t quantiles that agree with published tables", () => {
    expect(tQuantile(1)).toBeCloseTo(12.706, 3);
    expect(tQuantile(20)).toBeCloseTo(2.086, 2);
    expect(tQuantile(1000)).toBeCloseTo(1.962, 3);
  });
});

describe("tests of significance", () => {
  it("give exact p values of the sign test", () => {
    expect(signTest(5, 5)).toBe(1);
    expect(signTest(9, 1)).toBeCloseTo(22 / 1024, 8);
    expect(signTest(10, 0)).toBeCloseTo(2 / 1024, 8);
    expect(signTest(0, 0)).toBe(1);
  });
  it("approximate large samples by the normal tail", () => {
    expect(signTest(40, 22)).toBeCloseTo(0.03, 2);
    expect(signTest(600, 400)).toBeLessThan(1e-8);
    expect(signTest(500, 500)).toBeCloseTo(1, 6);
  });
  it("adjust p values by Holm's method", () => {
    expect(holm([0.01, 0.04, 0.03])).toEqual([0.03, 0.06, 0.06]);
    expect(holm([])).toEqual([]);
  });
});

describe("correlation and axes", () => {
  it("are exact for linear data and undefined for constants", () => {
    expect(pearson([1, 2, 3], [2, 4, 6])).toBeCloseTo(1, 12);
    expect(pearson([1, 2, 3], [3, 2, 1])).toBeCloseTo(-1, 12);
    expect(pearson([1, 1, 1], [1, 2, 3])).toBeNaN();
  });
  it("have round ticks", () => {
    expect(ticks(0, 600, 6)).toEqual([0, 100, 200, 300, 400, 500, 600]);
    expect(niceCeiling(532, 4)).toBe(600);
    expect(niceCeiling(0)).toBe(1);
  });
});
