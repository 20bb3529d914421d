import { describe, expect, it } from "vitest";
import { busyBetween, heatOf } from "../src/charts/ganttModel";
import { slowSpansOf } from "../src/lib/slowdown";

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

describe("slow times", () => {
  const devices = [
    { name: "cpu", kind: "cpu" },
    { name: "gpu_0", kind: "gpu" },
    { name: "gpu_1", kind: "gpu" },
  ];
  const once = { device: "gpu_1", factor: 3, start: 20, until: 40 };

  it("are those within the window, on the named device or on all of its kind", () => {
    expect(slowSpansOf(null, devices, 0, 60)).toBeNull();
    const one = slowSpansOf(once, devices, 0, 60);
    expect([[...(one?.devices ?? [])], one?.spans, one?.who, one?.label]).toEqual([
      ["gpu_1"],
      [[20, 40]],
      "GPU 1",
      "3× slower",
    ]);
    expect(slowSpansOf(once, devices, 40, 60)?.spans).toEqual([]);
    expect(slowSpansOf({ ...once, device: "gpu" }, devices, 0, 60)?.who).toBe("2 GPUs");
  });

  it("come again with their period", () => {
    expect(slowSpansOf({ ...once, every: 60 }, devices, 90, 141)?.spans).toEqual([
      [80, 100],
      [140, 160],
    ]);
  });
});
