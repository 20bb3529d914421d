import { beforeEach, describe, expect, it } from "vitest";
import type { RunDetail, Sweep } from "../src/client/models";
import { parseSettings, present, requestOf } from "../src/components/whatIf/whatIfSettings";
import { curvesOf, schedulersOf } from "../src/features/workspace/curves";
import { available, keeps, scaleOf, usualAxes } from "../src/features/workspace/parallelAxes";
import { rowsOf, type Source } from "../src/features/workspace/workspaceData";
import { formatWorkspace, parseWorkspace, toggled } from "../src/features/workspace/workspaceState";
import { addressIn, deleteView, parseViews, saveView, useSavedViews } from "../src/store/savedViews";

const sweep: Sweep = {
  name: "demo",
  truncated: false,
  cells: ["greedy", "oracle"].flatMap((scheduler) =>
    [0.1, 0.5].flatMap((load) =>
      [1, 2].map((seed) => ({
        scheduler,
        load,
        seed,
        scenario: "mixed",
        batch: false,
        tasks: 10,
        energy: 100 * load,
        mean_latency: load * seed * (scheduler === "greedy" ? 10 : 1),
      })),
    ),
  ),
};
const source: Source = {
  key: "demo",
  kind: "sweep",
  label: "demo",
  color: "#fff",
  dash: [],
  sweep,
  leader: "greedy",
};
const rows = rowsOf(source);

describe("workspace in the address", () => {
  it("is restored from what was written", () => {
    const state = parseWorkspace({
      runs: "A,B,A",
      sweeps: "demo",
      x: "load",
      y: "energy",
      by: "all",
      axes: "load,scheduler",
      keep: "load:0.1~0.5;scheduler:greedy~oracle",
      color: "source",
    });
    expect(state.runs).toEqual(["A", "B"]);
    expect(state.keep).toEqual({ load: ["0.1", "0.5"], scheduler: ["greedy", "oracle"] });
    expect(parseWorkspace(formatWorkspace(state))).toEqual(state);
  });

  it("falls back to the defaults where it is damaged", () => {
    const state = parseWorkspace({ x: "colour", color: "7", keep: "load;:1~2;seed:~3" });
    expect(state).toEqual(parseWorkspace({}));
    expect(formatWorkspace(state)).toEqual({});
  });

  it("adds and removes items", () => {
    expect(toggled(["a"], "b")).toEqual(["a", "b"]);
    expect(toggled(["a", "b"], "a")).toEqual(["b"]);
  });
});

describe("rows of runs and sweeps", () => {
  it("have energies per task and no load of a batch", () => {
    expect(rows[0]?.values.mean_energy).toBe(1);
    const batch = { ...sweep, cells: [{ scheduler: "greedy", load: 0.7, batch: true }] };
    expect(rowsOf({ ...source, sweep: batch })[0]?.values.load).toBeNull();
  });

  it("come from the comparison of a run", () => {
    const run = {
      scenario: "waves",
      load: 0.2,
      seed: 3,
      platform: "p",
      comparison: [{ name: "greedy", mean_latency: 2 }],
    };
    const [row] = rowsOf({ ...source, kind: "run", sweep: undefined, run: run as unknown as RunDetail });
    expect(row?.values).toMatchObject({ scheduler: "greedy", scenario: "waves", load: 0.2, mean_latency: 2 });
  });
});

describe("parallel axes", () => {
  it("are the parameters that vary and the metrics that exist", () => {
    expect(usualAxes(rows)).toEqual(["load", "scheduler", "mean_latency", "mean_energy"]);
    expect(available(rows).map((one) => one.key)).toContain("seed");
  });

  const scales = available(rows).map((info) => scaleOf(info, rows, (_, name) => name));
  const scale = (key: string) => scales.find((one) => one.key === key)!;

  it.each([
    [{ load: ["0.1", "0.2"] }, 4],
    [{ scheduler: ["oracle", "oracle"] }, 4],
    [{ load: ["0.1", "0.2"], scheduler: ["oracle", "oracle"] }, 2],
    [{ load: ["x", "y"] }, 8],
    [{ unknown: ["1", "2"] }, 8],
  ] as const)("filter %j keeps %i rows", (keep, count) => {
    expect(rows.filter(keeps(scales, keep as unknown as Record<string, [string, string]>))).toHaveLength(count);
  });

  it.each(["load", "scheduler", "mean_latency"])("of %s give back the bounds of a range", (key) => {
    const bounds = scale(key).boundsOf([0, 1]);
    expect(scale(key).spanOf(bounds)).toEqual([0, 1]);
  });

  it("takes the nearest name where a range has none", () => {
    expect(scale("scheduler").boundsOf([0.6, 0.8])).toEqual(["oracle", "oracle"]);
  });
});

describe("curves", () => {
  const state = parseWorkspace({ x: "load" });

  it("over the load are means with intervals over seeds", () => {
    const [curve, ...rest] = curvesOf([source], rows, state, new Map());
    expect(rest).toEqual([]);
    expect(curve?.points.map((p) => [p.x, p.y])).toEqual([
      [0.1, 1.5],
      [0.5, 7.5],
    ]);
    expect(curve?.points[0]?.half).toBeGreaterThan(0);
  });

  it("are of the leader, of all or of one scheduler", () => {
    expect(schedulersOf(source, rows, "leader")).toEqual(["greedy"]);
    expect(schedulersOf(source, rows, "all")).toEqual(["greedy", "oracle"]);
    expect(schedulersOf(source, rows, "none")).toEqual([]);
  });
});

describe("saved views", () => {
  beforeEach(() => useSavedViews.setState({ views: [] }));

  it("are replaced by name, sorted and deleted", () => {
    saveView("b", "/workspace");
    saveView(" a ", "/compare");
    saveView("b", "/history");
    expect(useSavedViews.getState().views).toEqual([
      { name: "a", address: "/compare" },
      { name: "b", address: "/history" },
    ]);
    deleteView("a");
    expect(parseViews(window.localStorage.getItem("hs.views"))).toEqual([{ name: "b", address: "/history" }]);
  });

  it.each([
    [`${window.location.origin}/workspace?runs=A#x`, "/workspace?runs=A"],
    ["/compare?s=greedy", "/compare?s=greedy"],
    ["https://elsewhere.example/workspace", null],
    ["  ", null],
  ])("reads the address of the link %s", (link, address) => {
    expect(addressIn(link)).toBe(address);
  });

  it.each([null, "{", "{}", '[{"name": 1}, null, {"name": "x", "address": "https://elsewhere.example"}]'])(
    "leaves out what is damaged: %s",
    (text) => expect(parseViews(text)).toEqual([]),
  );
});

describe("what-if requests", () => {
  it("ask about tasks of a scenario where the run plays a trace, which cannot be drawn again", () => {
    const now = present(4, 0.5);
    expect(requestOf({ ...now, num_gpus: 8 }, now, ["greedy"], "trace:week")).toEqual({
      schedulers: ["greedy"],
      scenario: "mixed",
      num_gpus: 8,
    });
    expect(requestOf(now, now, ["greedy"], "waves")).toEqual({ schedulers: ["greedy"] });
  });
});

describe("what-if settings in the address", () => {
  it("are within the range of their sliders", () => {
    expect(parseSettings("num_gpus:8,load:0.3,gpu_speed:99,bandwidth:,other:1")).toEqual({
      num_gpus: 8,
      load: 0.3,
    });
  });
});
