import { beforeEach, describe, expect, it } from "vitest";
import { DeviceTimeline } from "../src/lib/deviceTimeline";
import { live, useLive } from "../src/store/liveStore";
import { TASK_WINDOW } from "../src/store/recentTasks";
import { decision, log, status, update } from "./fixtures";

const state = () => useLive.getState();

beforeEach(() => {
  live.resetAll();
  live.setStatus(status());
});

describe("reducers", () => {
  it("replace the values and fill the buffers on an update", () => {
    live.ingest([update(1, { decisions: [decision(1, "oracle"), decision(1, "hybrid_ml")], tasks_processed: 1 })]);
    live.flush();
    expect(state().tasksProcessed).toBe(1);
    expect(state().comparison).toHaveLength(2);
    expect(useLive.getState().stream.tasks.length).toBe(1);
    expect(useLive.getState().stream.utilization.busyShare("hybrid_ml", "gpu_0")).toEqual([
      { t: 1, value: expect.closeTo(0.6) },
    ]);
  });
  it("count a repeated decision once", () => {
    const twice = update(1, { decisions: [decision(1, "oracle")] });
    live.ingest([twice, { ...twice, seq: 2 }]);
    expect(useLive.getState().stream.tasks.length).toBe(1);
  });
  it("store logs and notifications in their buffers", () => {
    live.ingest([log(1), { ...log(2), type: "notification", kind: "drift", level: "warning" } as never]);
    expect(useLive.getState().stream.log.length).toBe(2);
    expect(useLive.getState().stream.notifications.length).toBe(1);
  });
  it("clear the buffers when another run starts", () => {
    live.ingest([update(1, { decisions: [decision(1, "oracle")] })]);
    live.ingest([update(2, { run_id: "r2", decisions: [decision(9, "oracle")] })]);
    live.flush();
    expect(state().runId).toBe("r2");
    expect(
      useLive
        .getState()
        .stream.tasks.list()
        .map((task) => task.task_id),
    ).toEqual([9]);
  });
  it("keep the buffers bounded", () => {
    for (let i = 1; i <= TASK_WINDOW + 500; i++)
      live.ingest([update(i, { decisions: [decision(i, "oracle")] }), log(i)]);
    expect(useLive.getState().stream.tasks.length).toBe(TASK_WINDOW);
    expect(useLive.getState().stream.log.length).toBe(500);
    // A late duplicate of a dropped task does not come back.
    live.ingest([update(9999, { decisions: [decision(3, "oracle")] })]);
    expect(useLive.getState().stream.tasks.get(3)).toBeUndefined();
  });
});

describe("freeze", () => {
  it("holds events until thaw, then applies them in order", () => {
    live.ingest([update(1)]);
    live.flush();
    live.freeze();
    live.ingest([update(2, { decisions: [decision(2, "oracle")] }), update(3)]);
    live.flush();
    expect(state().seq).toBe(1);
    expect(state().buffered).toBe(2);
    expect(useLive.getState().stream.tasks.length).toBe(0);
    expect(live.thaw()).toBe(false);
    expect(state().seq).toBe(3);
    expect(state().buffered).toBe(0);
    expect(useLive.getState().stream.tasks.length).toBe(1);
  });
  it("follows the state of the run, which commands need, but not its data", () => {
    live.ingest([update(1)]);
    live.freeze();
    live.setStatus(status({ last_seq: 1, state: "paused" }));
    expect(state().state).toBe("paused");
    live.ingest([update(2)]);
    live.flush();
    expect([state().state, state().seq]).toEqual(["running", 1]);
  });
  it("reports dropped events at thaw", () => {
    live.freeze();
    live.ingest(Array.from({ length: 13_000 }, (_, i) => log(i + 1)));
    expect(live.thaw()).toBe(true);
  });
});

describe("statuses that overtake each other", () => {
  it("ignores the answer of a command that a later one has overtaken", () => {
    live.setStatus(status({ last_seq: 8, state: "running" }));
    live.setStatus(status({ last_seq: 7, state: "paused" }));
    expect(state().state).toBe("running");
    live.setStatus(status({ last_seq: 8, state: "paused" }));
    expect(state().state).toBe("paused");
  });
  it("takes the state of the run from the newest of updates and statuses", () => {
    live.setStatus(status({ last_seq: 4 }));
    live.ingest([update(5, { state: "paused" })]);
    live.setStatus(status({ last_seq: 4, speed: 7 })); // an answer that update 5 has overtaken
    expect([state().state, state().status?.speed]).toEqual(["paused", 7]);
    live.setStatus(status({ last_seq: 7 }));
    live.ingest([update(6, { state: "paused" })]); // sent before the run was resumed
    live.flush();
    expect(state().state).toBe("running");
  });
  it("takes the state over before the first status, and from updates of a run that no status names yet", () => {
    live.ingest([update(3, { state: "paused" })]);
    live.flush();
    expect(state().state).toBe("paused");
    live.setStatus(status({ last_seq: 2, run_id: "an earlier run" }));
    expect(state().state).toBe("paused");
  });
  it("believes an old status that the engine is gone, until an update comes", () => {
    live.ingest([update(9)]);
    live.setStatus(status({ last_seq: 8, state: "held" }));
    expect(state().state).toBe("held");
    live.ingest([update(10)]);
    live.flush();
    expect(state().state).toBe("running");
  });
  it("takes the status of a new connection over, whatever its number", () => {
    live.setStatus(status({ last_seq: 8 }));
    live.setStatus(status({ last_seq: 5, state: "paused" }), true);
    expect(state().state).toBe("paused");
    live.setStatus(status({ last_seq: 6 }));
    expect(state().state).toBe("running");
  });
});

describe("device timeline", () => {
  it("finds the first visible block and the busy time", () => {
    const lane = new DeviceTimeline(200);
    for (let i = 1; i <= 100; i++) lane.push(i, i + 0.4, 0.5, i);
    expect(lane.firstEndingAfter(50.5)).toBe(50);
    expect(lane.busy(10, 20)).toBeCloseTo(4, 9);
  });
});
