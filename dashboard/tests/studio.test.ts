import { describe, expect, it } from "vitest";
import type { Run } from "../src/client/models";
import { ApiError } from "../src/client/request";
import {
  commandOf,
  errorFor,
  errorsOf,
  formOf,
  labelledRequest,
  otherError,
  requestOf,
} from "../src/features/studio/studioForm";
import { contentType, guessMapping, isComplete, traceName } from "../src/features/studio/traceMapping";
import { offerUndo, settleUndo, takeBack, useStudio } from "../src/store/studioStore";

const live = { schedulers: ["greedy", "oracle(grid=11)"], seed: 7, speed: 4 };

const run: Run = {
  run_id: "01M7EYTG96DQDVM2239MTEERFN",
  created_at: 0,
  ended_at: null,
  status: "stopped",
  source: "simulated",
  scenario: "trace:week",
  load: 0.5,
  seed: 5,
  platform: "lab",
  schedulers: ["random", "rl_agent(learn=False, epsilon=0.1, durations=None)"],
  config: {},
  config_hash: "0",
  tasks: 10,
  name: "Night",
  tags: ["a"],
  note: "",
};

describe("form of a new run", () => {
  it("starts with the schedulers of the live run and its parameters", () => {
    const form = formOf(null, live);
    expect(form.chosen).toEqual({ greedy: {}, oracle: { grid: 11 } });
    expect(requestOf(form)).toEqual({
      repeat: false,
      scenario: "waves",
      seed: 7,
      speed: 4,
      schedulers: [
        { name: "greedy", parameters: {} },
        { name: "oracle", parameters: { grid: 11 } },
      ],
    });
  });

  it("takes the settings of an earlier run, its trace and its machine included", () => {
    const form = formOf(run, live);
    expect(form.chosen.rl_agent).toEqual({ learn: false, epsilon: 0.1, durations: null });
    const request = labelledRequest(form);
    expect(request).toMatchObject({
      repeats: run.run_id,
      trace: "week",
      load: 0.5,
      name: "Night, again",
      tags: ["a"],
    });
    expect(request).not.toHaveProperty("scenario");
    expect(request).not.toHaveProperty("platform");
  });

  it("names exactly one machine", () => {
    const form = formOf(null, live);
    expect(requestOf({ ...form, machine: { kind: "profile", name: "h200" } })).toMatchObject({ profile: "h200" });
    const own = requestOf({ ...form, machine: { kind: "yaml", name: "" }, yaml: "devices: []" });
    expect(own).toMatchObject({ platform_yaml: "devices: []" });
    expect(own).not.toHaveProperty("profile");
  });

  it("takes, sends and writes a slowdown", () => {
    const slowdown = { device: "gpu", factor: 2, start: 5, until: 9, every: 60 };
    const form = formOf({ ...run, scenario: "mixed", config: { physics: { name: "slowed", slowdown } } }, live);
    expect(requestOf(form).slowdown).toEqual(slowdown);
    const once = {
      ...formOf(null, live),
      slowdown: { device: " gpu_1 ", factor: "3", start: "1", until: "2", every: "" },
    };
    expect(requestOf(once).slowdown).toEqual({ device: "gpu_1", factor: 3, start: 1, until: 2 });
    expect(commandOf(once, "http://host")).toContain(" --slowdown device=gpu_1,factor=3,start=1,until=2");
    expect(requestOf(formOf(run, live))).not.toHaveProperty("slowdown");
  });

  it("gives the same run as a command, by serve or by a request", () => {
    const form = { ...formOf(null, live), load: 0.4 };
    expect(commandOf(form, "http://host")).toBe(
      "hybrid-scheduler serve --scenario waves --utilisation 0.4 --seed 7 --speed 4 --schedulers 'greedy,oracle(grid=11)'",
    );
    const laptop = commandOf({ ...form, machine: { kind: "platform", name: "laptop" } }, "http://host");
    expect(laptop).toMatch(/^curl -X POST http:\/\/host\/api\/simulation\/runs .*"platform":"laptop"/);
  });
});

describe("errors of a request", () => {
  const refused = new ApiError(422, "x", "/", "invalid_input", null, [
    { field: "schedulers.oracle", allowed: "grid: 0 or 2 to 1001 points", got: "-4" },
    { field: "platform_yaml", allowed: "device 2: memory > 0", got: "0" },
  ]);

  it("stand beside their field with what is allowed", () => {
    const errors = errorsOf(refused);
    expect(errorFor(errors, "schedulers")).toBe("must be grid: 0 or 2 to 1001 points, got -4.");
    expect(errorFor(errors, "platform", "profile")).toContain("device 2: memory > 0");
    expect(errorFor(errors, "seed")).toBeNull();
    expect(otherError(errors)).toBeNull();
  });

  it("stand beside the button if they have no field on the page", () => {
    expect(otherError(errorsOf(new Error("the server cannot be reached")))).toBe("the server cannot be reached");
    expect(
      otherError(
        errorsOf(new ApiError(422, "x", "/", "y", null, [{ field: "repeats", allowed: "a run", got: "z" }])),
      ),
    ).toBe("repeats: must be a run, got z.");
  });
});

describe("mapping of columns", () => {
  it("is guessed from names of cluster logs", () => {
    expect(guessMapping(["name", "memory_mib", "creation_time", "deletion_time", "scheduled_time"])).toEqual({
      seconds: { column: "deletion_time", minus: "scheduled_time" },
      arrival_time: { column: "creation_time" },
      memory_required: { column: "memory_mib" },
    });
    expect(guessMapping(["submit", "run_time"])).toEqual({
      seconds: { column: "run_time" },
      arrival_time: { column: "submit" },
    });
  });

  it("is complete with an arrival and a size or a run time", () => {
    expect(isComplete({})).toBe(false);
    expect(isComplete({ arrival_time: { column: "a" }, size: { value: 3 } })).toBe(false);
    expect(isComplete({ arrival_time: { column: "a" }, seconds: { column: "b" } })).toBe(true);
  });

  it("knows content types and names of traces", () => {
    expect(contentType("Week.CSV")).toBe("text/csv");
    expect(contentType("jobs.swf")).toBe("text/plain");
    expect(contentType("flow.json")).toBe("application/json");
    expect(traceName("my trace (1).csv")).toBe("my-trace-1-");
    expect(traceName("...")).toBe("trace");
  });
});

describe("undo", () => {
  it("sends an action when its time is over, or when another one follows", () => {
    const sent: string[] = [];
    offerUndo({ text: "one", undo: () => sent.push("undone"), commit: () => sent.push("one") });
    offerUndo({ text: "two", undo: () => sent.push("undone"), commit: () => sent.push("two") });
    expect(sent).toEqual(["one"]);
    takeBack();
    settleUndo();
    expect(sent).toEqual(["one", "undone"]);
    expect(useStudio.getState().undo).toBeNull();
  });
});
