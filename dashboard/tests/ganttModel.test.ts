import { describe, expect, it } from "vitest";
import { busyBetween, heatOf } from "../src/charts/ganttModel";

describe("heat strip", () => {
  const lane = { device: "cpu", sources: [], heat: heatOf(10, 2, [1, 2, 0, 0.5]) };
  it("adds up the busy seconds of whole columns exactly", () => {
    expect(busyBetween(lane, 10, 18)).toBeCloseTo(3.5, 12);
    expect(busyBetween(lane, 12, 14)).toBeCloseTo(2, 12);
  });
  it("spreads those of a part of a column evenly, and knows none outside", () => {
    expect(busyBetween(lane, 10, 11)).toBeCloseTo(0.5, 12);
    expect(busyBetween(lane, 0, 10)).toBe(0);
    expect(busyBetween(lane, 18, 30)).toBe(0);
  });
});
