import { afterEach, describe, expect, it, vi } from "vitest";
import { api } from "../src/client/api";
import type { RunDetail } from "../src/client/models";
import { ApiError, get, post, urlOf } from "../src/client/request";

const respond = (body: unknown, status = 200) => {
  const fetched = vi.fn(
    async (_url: string, _options: RequestInit) => new Response(JSON.stringify(body), { status }),
  );
  vi.stubGlobal("fetch", fetched);
  return fetched;
};

afterEach(() => vi.unstubAllGlobals());

describe("requests", () => {
  it("fill path and query parameters and leave out empty ones", async () => {
    const fetched = respond({});
    await api.gantt("a/b", { scheduler: "greedy", start: 0 });
    expect(fetched.mock.calls[0]?.[0]).toBe("/api/runs/a%2Fb/gantt?scheduler=greedy&start=0");
    expect(urlOf("/api/export/trace.json", { query: { run_id: null, scheduler: "x" } })).toBe(
      "/api/export/trace.json?scheduler=x",
    );
  });

  it("send a body as JSON and none where none is given", async () => {
    const fetched = respond({});
    await api.speed(2);
    await api.pause();
    expect(fetched.mock.calls.map(([, options]) => [options.method, options.body])).toEqual([
      ["POST", '{"speed":2}'],
      ["POST", undefined],
    ]);
  });

  it("turn an error body into an ApiError with its hint", async () => {
    respond({ error: { id: "1", code: "not_found", message: "no run x", fields: [], hint: "list the runs" } }, 404);
    const error = await api.run("x").catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 404, code: "not_found", requestId: "1", hint: "list the runs" });
  });

  it("report an unreachable server without a status", async () => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("failed")));
    await expect(api.status()).rejects.toMatchObject({ status: 0, code: "unreachable" });
  });
});

/** Checked by `npm run typecheck`: each line below would fail there if the types accepted it. */
const rejectedByTheTypes = () => {
  // @ts-expect-error a path the API does not have
  void get("/api/nonsense");
  // @ts-expect-error the method does not exist for this path
  void post("/api/runs/{run_id}", { path: { run_id: "x" } });
  // @ts-expect-error the path parameter is missing
  void get("/api/runs/{run_id}");
  // @ts-expect-error the query parameter has another type
  void get("/api/results", { query: { limit: "ten" } });
  // @ts-expect-error the body is required
  void post("/api/whatif");
  // @ts-expect-error the body has another shape
  void post("/api/simulation/speed", { body: { velocity: 2 } });
  const run: Promise<RunDetail> = get("/api/runs/{run_id}", { path: { run_id: "x" } });
  return run;
};
void rejectedByTheTypes;
