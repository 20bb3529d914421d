import { describe, expect, it } from "vitest";
import { delayFor, EventSequencer, parseEvent, parseHello } from "../src/client/liveStream";
import { log, status, update } from "./fixtures";

const seqs = (events: { seq: number }[]) => events.map((event) => event.seq);

describe("sequencer", () => {
  it("passes events that are in order", () => {
    const order = new EventSequencer();
    order.reset(10);
    expect(seqs(order.accept(11, log(11)).ready)).toEqual([11]);
    expect(order.last).toBe(11);
  });
  it("drops duplicates, also of held events", () => {
    const order = new EventSequencer();
    order.reset(10);
    order.accept(11, log(11));
    expect(order.accept(11, log(11))).toEqual({ ready: [], askAfter: null });
    order.accept(14, log(14));
    order.accept(14, log(14));
    expect(order.duplicates).toBe(2);
  });
  it("holds an early event and asks for the missing ones", () => {
    const order = new EventSequencer();
    order.reset(10);
    expect(order.accept(13, log(13))).toEqual({ ready: [], askAfter: 10 });
    expect(order.accept(11, log(11)).askAfter).toBe(11);
    expect(seqs(order.accept(12, log(12)).ready)).toEqual([12, 13]);
    expect(order.waiting).toBe(false);
  });
  it("counts a malformed event as received", () => {
    const order = new EventSequencer();
    order.reset(0);
    order.accept(1, null);
    expect(seqs(order.accept(2, log(2)).ready)).toEqual([2]);
  });
  it("skips events that the server no longer has", () => {
    const order = new EventSequencer();
    order.reset(0);
    order.accept(50, log(50));
    expect(seqs(order.skipTo(49))).toEqual([50]);
    expect(order.lost).toBe(49);
  });
  it("returns a shuffled stream sorted and complete", () => {
    const order = new EventSequencer();
    order.reset(0);
    const numbers = Array.from({ length: 200 }, (_, i) => i + 1).sort(
      (a, b) => ((a * 7919) % 211) - ((b * 7919) % 211),
    );
    const out = [...numbers, ...numbers].flatMap((n) => seqs(order.accept(n, log(n)).ready));
    expect(out).toEqual(Array.from({ length: 200 }, (_, i) => i + 1));
  });
});

describe("validation", () => {
  it("accepts valid events", () => {
    expect(parseEvent(update(1))?.seq).toBe(1);
    expect(parseHello({ type: "hello", seq: 4, run_id: null, server_version: "1", status: status() })?.seq).toBe(4);
    expect(parseHello({ type: "hello", seq: 4, run_id: null, server_version: "1", status: null })).not.toBeNull();
  });
  it.each([
    null,
    42,
    "text",
    [],
    {},
    { ...update(1), seq: -1 },
    { ...update(1), seq: 1.5 },
    { ...update(1), comparison: null },
    { ...update(1), decisions: [{ task_id: "x" }] },
    { ...update(1), virtual_time: Number.NaN },
    { ...log(1), message: undefined },
    { ...log(1), type: "unheard_of" },
  ])("rejects malformed event %#", (value) => expect(parseEvent(value)).toBeNull());
});

it("reconnect delays grow from 250 ms to 1.5 s", () => {
  expect([1, 2, 3, 4, 5, 50].map(delayFor)).toEqual([250, 500, 1000, 1500, 1500, 1500]);
});
