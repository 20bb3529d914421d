import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { StreamEvent } from "../src/client/models";
import { LiveFeed } from "../src/store/liveFeed";
import { live, useLive } from "../src/store/liveStore";
import { log, status } from "./fixtures";

/** A server in a few lines: it remembers every event, and its sockets can be cut. */
class FakeSocket {
  static open: FakeSocket | null = null;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  constructor() {
    FakeSocket.open = this;
    queueMicrotask(() => this.onopen?.());
  }
  send(value: unknown) {
    this.onmessage?.({ data: typeof value === "string" ? value : JSON.stringify(value) });
  }
  close() {
    this.onclose?.();
  }
}

let stored: StreamEvent[] = [];
let asked: string[] = [];
const hello = (seq: number) => ({ type: "hello", seq, run_id: "r1", server_version: "t", status: status() });
const appliedSeqs = () =>
  useLive
    .getState()
    .stream.log.toArray()
    .map((entry) => entry.seq);
const settle = () => vi.waitFor(() => expect(useLive.getState().ready).toBe(true));

beforeEach(() => {
  live.resetAll();
  stored = Array.from({ length: 10 }, (_, i) => log(i + 1));
  asked = [];
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("fetch", async (url: string) => {
    asked.push(url);
    const query = new URL(url, "http://x").searchParams;
    const after = Number(query.get("after"));
    const limit = Number(query.get("limit"));
    const found = stored.filter((event) => event.seq > after);
    const page = {
      events: found.slice(0, limit),
      last_seq: stored.at(-1)?.seq ?? 0,
      oldest_seq: stored[0]?.seq ?? 0,
      truncated: found.length > limit,
    };
    return Response.json(url.startsWith("/api/events") ? page : []);
  });
});
afterEach(() => vi.unstubAllGlobals());

describe("feed", () => {
  it("reads stored events first, then follows the stream", async () => {
    const feed = new LiveFeed();
    feed.start();
    FakeSocket.open?.send(hello(10));
    await settle();
    FakeSocket.open?.send(log(11));
    expect(appliedSeqs()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    feed.stop();
  });
  it("fills a gap over REST without missing or duplicate events", async () => {
    const feed = new LiveFeed();
    feed.start();
    FakeSocket.open?.send(hello(10));
    await settle();
    for (let seq = 11; seq <= 15; seq++) stored.push(log(seq));
    FakeSocket.open?.send(log(15));
    FakeSocket.open?.send(log(14));
    await vi.waitFor(() => expect(appliedSeqs().at(-1)).toBe(15));
    expect(appliedSeqs()).toEqual(Array.from({ length: 15 }, (_, i) => i + 1));
    feed.stop();
  });
  it("catches up after a lost connection", async () => {
    const feed = new LiveFeed();
    feed.start();
    FakeSocket.open?.send(hello(10));
    await settle();
    FakeSocket.open?.close();
    expect(useLive.getState().connection.phase).toBe("reconnecting");
    for (let seq = 11; seq <= 13; seq++) stored.push(log(seq));
    await new Promise((resolve) => setTimeout(resolve, 300));
    FakeSocket.open?.send(hello(13));
    await vi.waitFor(() => expect(appliedSeqs().at(-1)).toBe(13));
    expect(appliedSeqs()).toEqual(Array.from({ length: 13 }, (_, i) => i + 1));
    expect(useLive.getState().connection.phase).toBe("live");
    feed.stop();
  });
  it("skips events that the server has deleted", async () => {
    stored = [log(3), log(7), log(8)];
    const feed = new LiveFeed();
    feed.start();
    FakeSocket.open?.send(hello(8));
    await settle();
    FakeSocket.open?.send(log(9));
    expect(appliedSeqs()).toEqual([3, 7, 8, 9]);
    feed.stop();
  });
  it("counts malformed messages and continues", async () => {
    const feed = new LiveFeed();
    feed.start();
    FakeSocket.open?.send(hello(10));
    await settle();
    FakeSocket.open?.send("{not json");
    FakeSocket.open?.send({ ...log(11), message: 5 });
    FakeSocket.open?.send(log(12));
    live.flush();
    expect(appliedSeqs().at(-1)).toBe(12);
    expect(useLive.getState().malformed).toBe(2);
    feed.stop();
  });
  it("drops old data when the event counter restarts", async () => {
    const feed = new LiveFeed();
    feed.start();
    FakeSocket.open?.send(hello(10));
    await settle();
    stored = [log(1, "new database")];
    FakeSocket.open?.send(hello(1));
    await vi.waitFor(() => expect(useLive.getState().stream.log.at(-1)?.message).toBe("new database"));
    expect(appliedSeqs()).toEqual([1]);
    feed.stop();
  });
  it("stops at the event of a link to a frozen view and buffers the rest", async () => {
    const feed = new LiveFeed(6);
    feed.start();
    FakeSocket.open?.send(hello(10));
    await settle();
    expect(appliedSeqs()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(useLive.getState()).toMatchObject({ frozen: true, buffered: 4 });
    live.thaw();
    expect(appliedSeqs().at(-1)).toBe(10);
    feed.stop();
  });
});
