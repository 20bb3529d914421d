import { describe, expect, it } from "vitest";
import * as f from "../src/lib/format";

describe("multiples", () => {
  it("have two digits, or all whole ones, as the server writes them", () => {
    expect([1.84, 12.3, 126.4, 3680.2].map(f.times)).toEqual(["1.8 ×", "12 ×", "126 ×", "3,680 ×"]);
    expect(f.times(null)).toBe("–");
  });
});

describe("significant", () => {
  it.each([
    [0, "0"],
    [283.4, "283"],
    [17.46, "17.5"],
    [1.0234, "1.02"],
    [0.04204, "0.0420"],
    [999.6, "1,000"],
    [1956, "1,960"],
    [-0.001, "−0.00100"],
    [1e-7, "1.00e−7"],
  ])("%d is %s", (value, text) => expect(f.significant(value)).toBe(text));

  it.each([Number.NaN, Number.POSITIVE_INFINITY, null, undefined])("%s is an en dash", (value) => {
    expect(f.significant(value)).toBe("–");
    expect(f.time(value)).toBe("–");
    expect(f.percent(value)).toBe("–");
    expect(f.ratio(value)).toBe("–");
    expect(f.count(value)).toBe("–");
    expect(f.estimate(value, 1, "time")).toBe("–");
  });
});

describe("units", () => {
  it("are chosen after rounding", () => {
    expect(f.time(0.000_025)).toBe("25.0 µs");
    expect(f.time(0.2834)).toBe("283 ms");
    expect(f.time(0.999_9)).toBe("1.00 s");
    expect(f.time(281.2)).toBe("281 s");
    expect(f.time(0)).toBe("0 s");
  });
  it("cover energy, cost and memory", () => {
    expect(f.energy(17.46)).toBe("17.5 J");
    expect(f.energy(12_345)).toBe("12.3 kJ");
    expect(f.cost(3.09e-5)).toBe("30.9 µ$");
    expect(f.memory(324.4)).toBe("324 MB");
  });
  it("are the same for a value and its interval", () => {
    expect(f.estimate(0.2834, 0.0016, "time")).toBe("283 ± 1.6 ms");
    expect(f.estimate(1.28, 0.045, "time")).toBe("1.28 ± 0.045 s");
    expect(f.estimate(0.2834, null, "time")).toBe("283 ms");
    expect(f.estimate(0, 0, "time")).toBe("0 s");
    expect(f.ratioEstimate(1, 0)).toBe("1.00×");
  });
  it("keep the sign of a difference", () => {
    expect(f.signed(0.00543, "time")).toBe("+5.43 ms");
    expect(f.signed(-0.00543, "time")).toBe("−5.43 ms");
  });
});

describe("other formats", () => {
  it("cover ratios, shares, counts, devices and ages", () => {
    expect(f.ratio(1.0234)).toBe("1.02×");
    expect(f.ratioEstimate(1.0234, 0.0061)).toBe("1.02× ± 0.0061");
    expect(f.percent(0.553)).toBe("55.3 %");
    expect(f.count(48_213)).toBe("48,213");
    expect(f.compact(2000)).toBe("2k");
    expect(f.compact(180_000)).toBe("180k");
    expect(f.tick(2)).toBe("2");
    expect(f.tick(0.25)).toBe("0.25");
    expect(f.tick(200)).toBe("200");
    expect(f.device("gpu_2")).toBe("GPU 2");
    expect(f.device("cpu_0")).toBe("CPU");
    expect(f.device("cpu_0", 2)).toBe("CPU 0");
    expect(f.device("cpu")).toBe("CPU");
    expect(f.device("cpu_narrow")).toBe("CPU narrow");
    expect(f.device("node 3: gpu")).toBe("node 3: gpu");
    expect(f.age(12.4)).toBe("12 s");
    expect(f.age(200)).toBe("3 min");
  });
});
