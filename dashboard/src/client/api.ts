/** Every request the dashboard makes, by name. */

import type {
  Comparative,
  EventPage,
  Gantt,
  Model,
  ResultPage,
  RunDetail,
  RunDiff,
  RunPage,
  ScenarioInfo,
  Scheduler,
  Statistics,
  Status,
  TaskDetail,
  Trends,
  WhatIfAnswer,
  WhatIfRequest,
} from "./models";
import { type Ask, ask } from "./request";

type Signal = Pick<Ask, "signal">;
const id = encodeURIComponent;

export const api = {
  status: (o: Signal = {}) => ask<Status>("/api/simulation/status", o),
  schedulers: (o: Signal = {}) => ask<Scheduler[]>("/api/schedulers", o),
  scenarios: (o: Signal = {}) => ask<ScenarioInfo[]>("/api/scenarios", o),
  history: (limit: number, o: Signal = {}) =>
    ask<TaskDetail[]>("/api/full_history", { query: { limit }, timeoutMs: 30_000, ...o }),
  comparative: (limit: number, runId?: string | null, o: Signal = {}) =>
    ask<Comparative>("/api/history/comparative", { query: { limit, run_id: runId }, ...o }),
  trends: (runId: string | null, buckets = 120, o: Signal = {}) =>
    ask<Trends>("/api/history/trends", { query: { run_id: runId, buckets }, ...o }),
  task: (taskId: number, o: Signal = {}) => ask<TaskDetail>(`/api/tasks/${taskId}`, o),
  runs: (limit = 50, before?: string | null, o: Signal = {}) =>
    ask<RunPage>("/api/runs", { query: { limit, before }, ...o }),
  run: (runId: string, o: Signal = {}) => ask<RunDetail>(`/api/runs/${id(runId)}`, o),
  gantt: (
    runId: string,
    query: { scheduler: string; start?: number; end?: number; limit?: number },
    o: Signal = {},
  ) => ask<Gantt>(`/api/runs/${id(runId)}/gantt`, { query, timeoutMs: 30_000, ...o }),
  diff: (a: string, b: string, o: Signal = {}) => ask<RunDiff>("/api/diff", { query: { a, b }, ...o }),
  results: (
    query: { run_id?: string | null; scheduler?: string; after_task?: number; limit?: number },
    o: Signal = {},
  ) => ask<ResultPage>("/api/results", { query, ...o }),
  models: (o: Signal = {}) => ask<Model[]>("/api/models", o),
  retrain: (scheduler: string) => ask<unknown>(`/api/models/${id(scheduler)}/retrain`, { method: "POST" }),
  statistics: (o: Signal = {}) => ask<Statistics>("/api/statistics", o),
  events: (after: number, limit = 500, type?: string, o: Signal = {}) =>
    ask<EventPage>("/api/events", { query: { after, limit, type }, ...o }),
  whatif: (body: WhatIfRequest, o: Signal = {}) =>
    ask<WhatIfAnswer>("/api/whatif", { method: "POST", body, timeoutMs: 30_000, ...o }),
  start: (body?: {
    scenario?: string;
    utilisation?: number;
    seed?: number;
    speed?: number;
    schedulers?: string[];
  }) => ask<Status>("/api/simulation/start", { method: "POST", ...(body ? { body } : {}) }),
  pause: () => ask<Status>("/api/simulation/pause", { method: "POST" }),
  resume: () => ask<Status>("/api/simulation/resume", { method: "POST" }),
  speed: (speed: number) => ask<Status>("/api/simulation/speed", { method: "POST", body: { speed } }),
} as const;
