/**
 * The one store of live data. Events change the buffers and a draft at once; React hears of it at most five times a second,
 * so that a stream of twenty updates a second costs no more than five renders.
 */
import { create } from "zustand";
import type {
  ComparisonRow,
  RunState,
  Scheduler,
  SimulationUpdate,
  Status,
  StreamEvent,
  TaskDetail,
} from "../client/models";
import { decisionsOf } from "./recentTasks";
import { StreamBuffers } from "./streamBuffers";

export type Phase = "connecting" | "live" | "reconnecting" | "offline";

export interface Connection {
  phase: Phase;
  attempt: number;
  retryInMs: number;
  /** `performance.now()` when the connection was lost. */
  lostAt: number | null;
}

export interface LiveData {
  connection: Connection;
  status: Status | null;
  /** Every scheduler the server knows, with its look. */
  schedulers: readonly Scheduler[];
  runId: string | null;
  state: RunState | null;
  comparison: readonly ComparisonRow[];
  virtualTime: number;
  tasksProcessed: number;
  tasksPerSecond: number;
  backlogs: Record<string, Record<string, number>>;
  utilizations: Record<string, Record<string, number>>;
  /** Number of the last event that is on the screen. */
  seq: number;
  /** `performance.now()` of the last update that was applied. */
  updatedAt: number | null;
  /** First data have come (or the server said there are none). */
  ready: boolean;
  frozen: boolean;
  /** Events that wait because the view is frozen. */
  buffered: number;
  /** Events that were not usable. */
  malformed: number;
  /** Decisions the server left out of updates of this run. */
  omitted: number;
}

interface LiveStore extends LiveData {
  /** Rises whenever buffers or data changed: the one thing to depend on when reading `buffers`. */
  rev: number;
}

const FLUSH_MS = 200;
const PENDING_LIMIT = 12_000;

const initial = (): LiveData => ({
  connection: { phase: "connecting", attempt: 0, retryInMs: 0, lostAt: null },
  status: null,
  schedulers: [],
  runId: null,
  state: null,
  comparison: [],
  virtualTime: 0,
  tasksProcessed: 0,
  tasksPerSecond: 0,
  backlogs: {},
  utilizations: {},
  seq: 0,
  updatedAt: null,
  ready: false,
  frozen: false,
  buffered: 0,
  malformed: 0,
  omitted: 0,
});

export const useLive = create<LiveStore>(() => ({ ...initial(), rev: 0 }));
export const buffers = new StreamBuffers();

let draft: LiveData = initial();
let pending: StreamEvent[] = [];
let overflow = false;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Show what has come; otherwise it happens by itself within 200 ms. */
export function flush(): void {
  clearTimeout(timer);
  timer = undefined;
  useLive.setState((previous) => ({ ...draft, rev: previous.rev + 1 }));
}

function changed(): void {
  timer ??= setTimeout(flush, FLUSH_MS);
}

function enterRun(runId: string): void {
  if (draft.runId !== null && draft.runId !== runId) {
    buffers.clear();
    draft = { ...draft, comparison: [], backlogs: {}, utilizations: {}, omitted: 0 };
  }
  draft.runId = runId;
}

function applyUpdate(update: SimulationUpdate): void {
  for (const decision of update.decisions) if (buffers.tasks.add(decision)) buffers.gantt.add(decision);
  buffers.pulse.push(update);
  Object.assign(draft, {
    comparison: update.comparison,
    virtualTime: update.virtual_time,
    tasksProcessed: update.tasks_processed,
    tasksPerSecond: update.tasks_per_second,
    backlogs: update.backlogs ?? {},
    utilizations: update.utilizations ?? {},
    state: update.state,
    omitted: draft.omitted + (update.omitted ?? 0),
    updatedAt: performance.now(),
    ready: true,
  } satisfies Partial<LiveData>);
}

function apply(event: StreamEvent): void {
  enterRun(event.run_id);
  draft.seq = event.seq;
  if (event.type === "simulation_update") applyUpdate(event);
  else {
    buffers.log.push(event);
    if (event.type === "notification") buffers.notifications.push(event);
  }
}

/** Events in order and without duplicates (the sequencer saw to that). A frozen view keeps them for later. */
export function ingest(events: readonly StreamEvent[]): void {
  if (!events.length) return;
  if (draft.frozen) {
    pending.push(...events);
    draft.buffered = pending.length;
    if (pending.length > PENDING_LIMIT) {
      pending = pending.slice(-PENDING_LIMIT / 2);
      overflow = true;
    }
  } else {
    for (const event of events) apply(event);
  }
  changed();
}

export function freeze(): void {
  draft.frozen = true;
  flush();
}

/** Shows everything that came meanwhile. True where so much came that the caller should load the history anew. */
export function thaw(): boolean {
  const late = pending;
  const reload = overflow;
  pending = [];
  overflow = false;
  draft.frozen = false;
  draft.buffered = 0;
  for (const event of late) apply(event);
  flush();
  return reload;
}

/** Stored tasks from before the stream; those already known are left alone. */
export function seedTasks(tasks: readonly TaskDetail[]): void {
  for (const task of tasks) {
    if (draft.runId !== null && task.run_id !== draft.runId) continue;
    for (const decision of decisionsOf(task)) if (buffers.tasks.add(decision)) buffers.gantt.add(decision);
  }
  changed();
}

export function setStatus(status: Status): void {
  draft.status = status;
  if (!draft.frozen) {
    if (status.run_id !== null) enterRun(status.run_id);
    buffers.gantt.setDevices(status.platform.devices);
    draft.state = status.state;
    // An update that is already on the screen is as new as the status or newer.
    if (draft.updatedAt === null) {
      draft.comparison = status.comparison;
      draft.tasksProcessed = status.tasks_processed;
      draft.tasksPerSecond = status.tasks_per_second;
      draft.virtualTime = status.virtual_time;
    }
  }
  flush();
}

export function setSchedulers(schedulers: readonly Scheduler[]): void {
  draft.schedulers = [...schedulers].sort((a, b) => a.order - b.order);
  flush();
}

export function setConnection(connection: Partial<Connection>): void {
  draft.connection = { ...draft.connection, ...connection };
  flush();
}

export function setReady(): void {
  draft.ready = true;
  flush();
}

export function countMalformed(): void {
  draft.malformed++;
  changed();
}

/** A new database or a server that counts from the start: nothing on the screen is true any more. */
export function resetLive(): void {
  const { connection, status, schedulers, frozen } = draft;
  draft = { ...initial(), connection, status, schedulers, frozen };
  pending = [];
  overflow = false;
  buffers.clear();
  flush();
}

/** For tests. */
export function forgetEverything(): void {
  draft = initial();
  resetLive();
}
