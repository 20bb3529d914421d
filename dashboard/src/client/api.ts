/** Requests of the dashboard, by name. */
import type { Comparative, RunLabels, RunRequest, StartRequest, TaskCreate, WhatIfRequest } from "./models";
import { get, patch, post, remove, upload } from "./request";
import { resultRecord, taskRecord } from "./resultRecords";

interface Options {
  signal?: AbortSignal;
}

interface TraceFile {
  content: Blob;
  type: string;
}

type TraceQuery = {
  mapping?: string | null;
  skip_bad?: boolean;
  load?: number | null;
  platform?: string | null;
  profile?: string | null;
};

/** Limit for requests that read many rows or run a simulation. */
const LONG_MS = 30_000;

export const api = {
  status: (o: Options = {}) => get("/api/simulation/status", o),
  schedulers: (o: Options = {}) => get("/api/schedulers", o),
  history: async (limit: number, o: Options = {}) =>
    (await get("/api/full_history", { query: { limit }, timeoutMs: LONG_MS, ...o })).map(taskRecord),
  comparative: (limit: number, runId?: string | null, o: Options = {}) =>
    get("/api/history/comparative", { query: { limit, run_id: runId }, ...o }) as Promise<Comparative>,
  load: (
    query: {
      run_id?: string;
      scheduler?: string;
      start?: number;
      end?: number;
      last?: number;
      ahead?: number;
      columns?: number;
    },
    o: Options = {},
  ) => get("/api/history/load", { query, timeoutMs: LONG_MS, ...o }),
  trends: (runId: string | null, buckets = 120, o: Options = {}) =>
    get("/api/history/trends", { query: { run_id: runId, buckets }, ...o }),
  task: async (taskId: number, o: Options = {}) =>
    taskRecord(await get("/api/tasks/{task_id}", { path: { task_id: taskId }, ...o })),
  runs: (limit = 50, before?: string | null, o: Options = {}) =>
    get("/api/runs", { query: { limit, before }, ...o }),
  run: (runId: string, o: Options = {}) => get("/api/runs/{run_id}", { path: { run_id: runId }, ...o }),
  describeRun: (runId: string, body: RunLabels) => patch("/api/runs/{run_id}", { path: { run_id: runId }, body }),
  deleteRun: (runId: string) => remove("/api/runs/{run_id}", { path: { run_id: runId }, timeoutMs: LONG_MS }),
  gantt: (
    runId: string,
    query: { scheduler: string; start?: number; end?: number; limit?: number },
    o: Options = {},
  ) => get("/api/runs/{run_id}/gantt", { path: { run_id: runId }, query, timeoutMs: LONG_MS, ...o }),
  programs: (query: { run_id?: string | null; after?: number; limit?: number }, o: Options = {}) =>
    get("/api/programs", { query, ...o }),
  ganttDiff: (query: { a: string; scheduler: string; b: string; other: string; limit: number }, o: Options = {}) =>
    get("/api/gantt/diff", { query, timeoutMs: LONG_MS, ...o }),
  learning: (runId: string, scheduler: string, o: Options = {}) =>
    get("/api/runs/{run_id}/learning", { path: { run_id: runId }, query: { scheduler }, timeoutMs: LONG_MS, ...o }),
  sweeps: (o: Options = {}) => get("/api/sweeps", o),
  sweep: (name: string, o: Options = {}) => get("/api/sweeps/{name}", { path: { name }, timeoutMs: LONG_MS, ...o }),
  diff: (a: string, b: string, o: Options = {}) => get("/api/diff", { query: { a, b }, ...o }),
  results: async (
    query: { run_id?: string | null; scheduler?: string; after_task?: number; limit?: number },
    o: Options = {},
  ) => (await get("/api/results", { query, ...o })).results.map((row) => resultRecord(row, row.task_id)),
  models: (limit: number, o: Options = {}) => get("/api/models", { query: { limit }, ...o }),
  retrain: (scheduler: string) => post("/api/models/{scheduler}/retrain", { path: { scheduler } }),
  statistics: (o: Options = {}) => get("/api/statistics", o),
  events: (after: number, limit = 500, type?: "notification", o: Options = {}) =>
    get("/api/events", { query: { after, limit, type }, ...o }),
  whatif: (body: WhatIfRequest, o: Options = {}) => post("/api/whatif", { body, timeoutMs: LONG_MS, ...o }),
  start: (body?: StartRequest) => post("/api/simulation/start", { body }),
  stop: () => post("/api/simulation/stop"),
  beginRun: (body: RunRequest) => post("/api/simulation/runs", { body, timeoutMs: LONG_MS }),
  previewRun: (body: RunRequest, o: Options = {}) =>
    post("/api/simulation/preview", { body, timeoutMs: LONG_MS, ...o }),
  scenarios: (o: Options = {}) => get("/api/scenarios", o),
  scenarioPreviews: (o: Options = {}) => get("/api/scenarios/previews", { timeoutMs: LONG_MS, ...o }),
  machines: (o: Options = {}) => get("/api/machines", { timeoutMs: LONG_MS, ...o }),
  traces: (o: Options = {}) => get("/api/traces", o),
  inspectTrace: (file: TraceFile, query: TraceQuery, o: Options = {}) =>
    upload("/api/traces/inspect", file, query, { timeoutMs: LONG_MS, ...o }),
  storeTrace: (file: TraceFile, query: TraceQuery & { name: string }) =>
    upload("/api/traces", file, query, { timeoutMs: LONG_MS }),
  submitTask: (body: TaskCreate) => post("/api/tasks", { body }),
  pause: () => post("/api/simulation/pause"),
  resume: () => post("/api/simulation/resume"),
  speed: (speed: number) => post("/api/simulation/speed", { body: { speed } }),
} as const;
