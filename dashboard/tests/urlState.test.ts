import { describe, expect, it } from "vitest";
import { parsePath, pathOf } from "../src/store/routes";
import { DEFAULTS, formatQuery, parseQuery } from "../src/store/urlState";

describe("routes", () => {
  it.each(["/compare", "/scheduler", "/scheduler/hybrid_ml", "/history", "/run/r-7f3a2c", "/diff"])(
    "%s there and back",
    (path) => {
      expect(pathOf(parsePath(path))).toBe(path);
    },
  );
  it("the root is Compare, anything else is a designed page", () => {
    expect(parsePath("/")).toEqual({ view: "compare" });
    expect(parsePath("/nonsense")).toEqual({ view: "missing", path: "/nonsense" });
    expect(parsePath("/run")).toEqual({ view: "missing", path: "/run" });
    expect(parsePath("/scheduler/%E0%A4%A")).toEqual({ view: "scheduler", name: "%E0%A4%A" });
  });
});

describe("query", () => {
  it("the default needs none", () => expect(formatQuery(DEFAULTS)).toBe(""));
  it("carries the picture", () => {
    const state = {
      ...DEFAULTS,
      range: { kind: "fixed", from: 12.5, to: 40 } as const,
      freeze: 48_213,
      shown: ["oracle", "hybrid_ml"],
      metric: "energy",
      theme: "light" as const,
      focus: "greedy",
      task: 1928,
    };
    expect(parseQuery(formatQuery(state))).toEqual(state);
  });
  it("bad values fall back", () => {
    expect(parseQuery("?range=9-3&freeze=-1&metric=beauty&theme=pink&task=abc")).toEqual(DEFAULTS);
  });
});
