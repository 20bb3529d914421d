import { describe, expect, it } from "vitest";
import { changedKeys, changeText, reachOf, shares, verdictOf } from "../src/lib/runDiff";

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
