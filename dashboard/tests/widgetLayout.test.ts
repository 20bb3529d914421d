import { describe, expect, it } from "vitest";
import {
  formatLayout,
  LAYOUT_VERSION,
  merge,
  parseLayout,
  parseLayouts,
  withoutHidden,
} from "../src/store/widgetLayout";

const good = {
  version: LAYOUT_VERSION,
  views: { compare: { places: { lg: [{ i: "race", x: 0, y: 0, w: 4, h: 17 }], md: [], sm: [] }, hidden: ["log"] } },
};

describe("saved layouts", () => {
  it("round-trip", () => expect(parseLayouts(JSON.stringify(good))).toEqual(good));
  it.each([
    ["nothing", null],
    ["no JSON", "{"],
    ["a list", "[]"],
    ["a number", "7"],
    ["a version of the future", JSON.stringify({ ...good, version: 99 })],
    ["an unknown version", JSON.stringify({ ...good, version: 0 })],
    ["no views", JSON.stringify({ version: LAYOUT_VERSION })],
  ])("%s gives the default", (_, text) => expect(parseLayouts(text)).toBeNull());
  it("leave out an invalid view and keep the others", () => {
    const views = {
      ...good.views,
      history: { places: { lg: [{ i: "x", x: 11, y: 0, w: 4, h: 1 }], md: [], sm: [] }, hidden: [] },
    };
    expect(Object.keys(parseLayouts(JSON.stringify({ ...good, views }))?.views ?? {})).toEqual(["compare"]);
  });
  it("of earlier versions keep all views but compare, which has other places now", () => {
    const first = { version: 1, places: good.views.compare.places.lg, hidden: ["log"] };
    const second = { version: 2, views: { ...good.views, history: good.views.compare } };
    expect(parseLayouts(JSON.stringify(first))?.views).toEqual({});
    expect(parseLayouts(JSON.stringify(second))?.views).toEqual({ history: good.views.compare });
  });
  it("give new widgets their default place and drop removed ones", () => {
    const defaults = [
      { i: "race", x: 0, y: 0, w: 4, h: 17 },
      { i: "new", x: 4, y: 0, w: 8, h: 17 },
    ];
    const saved = [
      { i: "race", x: 8, y: 3, w: 4, h: 20 },
      { i: "gone", x: 0, y: 0, w: 1, h: 1 },
    ];
    expect(merge(saved, defaults)).toEqual([saved[0], defaults[1]]);
  });
});

describe("hidden widgets", () => {
  const places = [
    { i: "a", x: 0, y: 0, w: 8, h: 10 },
    { i: "b", x: 8, y: 0, w: 4, h: 10 },
    { i: "c", x: 0, y: 10, w: 5, h: 6 },
    { i: "d", x: 5, y: 10, w: 3, h: 6 },
    { i: "e", x: 8, y: 10, w: 4, h: 12 },
  ];
  const widths = (hidden: string[]) =>
    Object.fromEntries(withoutHidden(places, hidden).map(({ i, x, w }) => [i, `${x}+${w}`]));

  it("leave their columns to a neighbour of the same rows", () => {
    expect(widths(["b"]).a).toBe("0+12");
    expect(widths(["a"]).b).toBe("0+12");
    expect(widths(["d"]).c).toBe("0+8");
    expect(widths(["c", "d"])).toEqual({ a: "0+8", b: "8+4", e: "8+4" });
  });

  it("do not stretch a widget over others", () => {
    expect(widths(["e"])).toEqual({ a: "0+8", b: "8+4", c: "0+5", d: "5+7" });
  });
});

describe("layout in an address", () => {
  it("is read back", () => {
    const places = [{ i: "race", x: 0, y: 2, w: 6, h: 9 }];
    const text = formatLayout("lg", places, ["radar"]);
    expect(parseLayout(text)).toEqual({ places: { lg: places, md: [], sm: [] }, hidden: ["radar"] });
  });

  it.each([null, "", "xl~race.0.0.1.1", "lg~race.0.0.99.1", "lg~race.x"])(
    "is left out where it is damaged: %s",
    (text) => {
      expect(parseLayout(text)).toBeNull();
    },
  );
});
