import { describe, expect, it } from "vitest";
import { parsePath, pathOf } from "../src/store/routes";
import { DEFAULTS, formatQuery, parseQuery } from "../src/store/urlState";

describe("routes", () => {
  it.each([
    "/compare",
    "/scheduler",
    "/scheduler/hybrid_ml",
    "/history",
    "/run/r-7f3a2c",
    "/run/r-7f3a2c/learning/hybrid_ml",
    "/diff",
    "/workspace",
  ])("%s round-trips", (path) => {
    expect(pathOf(parsePath(path))).toBe(path);
  });
  it("map the root to Compare and unknown paths to a missing page", () => {
    expect(parsePath("/")).toEqual({ view: "compare" });
    expect(parsePath("/nonsense")).toEqual({ view: "missing", path: "/nonsense" });
    expect(parsePath("/run")).toEqual({ view: "missing", path: "/run" });
    expect(parsePath("/scheduler/%E0%A4%A")).toEqual({ view: "scheduler", name: "%E0%A4%A" });
  });
});

describe("query", () => {
  it("is empty for the default state", () => expect(formatQuery(DEFAULTS)).toBe(""));
  it("round-trips a full state", () => {
    const state = {
      ...DEFAULTS,
      range: { kind: "fixed", from: 12.5, to: 40 } as const,
      freeze: 48_213,
      visible: ["oracle", "hybrid_ml"],
      metric: "energy",
      theme: "light" as const,
      focus: "greedy",
      task: 1928,
      layout: "lg~race.0.0.12.14",
      whatif: "num_gpus:8",
      workspace: { runs: "A,B", keep: "load:0.1~0.5" },
    };
    expect(parseQuery(formatQuery(state))).toEqual(state);
  });
  it("falls back to defaults for invalid values", () => {
    expect(parseQuery("?range=9-3&freeze=-1&metric=beauty&theme=pink&task=abc")).toEqual(DEFAULTS);
  });
});
