/**
 * Store of live data: connection, status, comparison rows and the buffers that the stream fills.
 * Events change the buffers and a draft at once; React is notified at most five times a second, so that twenty updates a
 * second cost no more than five renders.
 */
import { create } from "zustand";
import type {
  ComparisonRow,
  RunState,
  Scheduler,
  SimulationUpdate,
  Status,
  StreamEvent,
  Verdict,
} from "../client/models";
import type { TaskRecord } from "../client/resultRecords";
import { StreamBuffers } from "./streamBuffers";

type Phase = "connecting" | "live" | "reconnecting" | "offline";

interface Connection {
  phase: Phase;
  attempt: number;
  retryInMs: number;
  /** `performance.now()` when the connection was lost. */
  lostAt: number | null;
}

interface LiveData {
  connection: Connection;
  status: Status | null;
  /** All schedulers of the server with their drawing styles. */
  schedulers: readonly Scheduler[];
  runId: string | null;
  state: RunState | null;
  comparison: readonly ComparisonRow[];
  /** Who leads and why, as the server says. */
  verdict: Verdict | null;
  /** Lower bound on the mean latency of the tasks so far. */
  latencyBound: number | null;
  /** Lower bound on the makespan so far, and the arrival from which makespans count. */
  makespanBound: number | null;
  firstArrival: number | null;
  virtualTime: number;
  tasksProcessed: number;
  tasksPerSecond: number;
  backlogs: Record<string, Record<string, number>>;
  utilizations: Record<string, Record<string, number>>;
  /** Sequence number of the last applied event. */
  seq: number;
  /** `performance.now()` of the last update that was applied. */
  updatedAt: number | null;
  /** Whether the first data have arrived, or the server has none. */
  ready: boolean;
  frozen: boolean;
  /** Number of events that are held back while the view is frozen. */
  buffered: number;
  /** Number of malformed events. */
  malformed: number;
  /** Number of decisions that the server left out of updates of this run. */
  omitted: number;
}

/** Read access to the buffers. A new object at every notification, so that hooks can depend on it. */
type StreamView = Omit<StreamBuffers, "clear">;

interface LiveStore extends LiveData {
  stream: StreamView;
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
  verdict: null,
  latencyBound: null,
  makespanBound: null,
  firstArrival: null,
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

function viewOf({ tasks, utilization, log, notifications }: StreamBuffers): StreamView {
  return { tasks, utilization, log, notifications };
}

export const useLive = create<LiveStore>(() => ({ ...initial(), stream: viewOf(new StreamBuffers()) }));

/** Buffered data of the stream: recent tasks, utilization, log and notifications. */
export const useStream = (): StreamView => useLive((s) => s.stream);

/** Writer of the live store. Components read through `useLive` and `useStream` only. */
class LiveWriter {
  private readonly buffers = new StreamBuffers();
  private draft = initial();
  private pending: StreamEvent[] = [];
  private overflow = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Number of the update or status that the state of the run comes from. */
  private stateSeq = 0;

  constructor() {
    this.flush();
  }

  /** Notifies React of everything that has arrived; otherwise this happens within 200 ms. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    useLive.setState({ ...this.draft, stream: viewOf(this.buffers) });
  }

  private scheduleFlush(): void {
    this.timer ??= setTimeout(() => this.flush(), FLUSH_MS);
  }

  private enterRun(runId: string): void {
    if (this.draft.runId !== null && this.draft.runId !== runId) {
      this.buffers.clear();
      this.draft = {
        ...this.draft,
        comparison: [],
        verdict: null,
        latencyBound: null,
        backlogs: {},
        utilizations: {},
        omitted: 0,
      };
    }
    this.draft.runId = runId;
  }

  /**
   * Takes over the state of the run, which updates and statuses bring in any order: the newest decides. The engine
   * numbers both in the order in which the state changed; but of an engine that is gone only an old status tells. A
   * frozen view follows as well, because commands need the state.
   */
  private followState(seq: number, state: RunState): void {
    if (seq < this.stateSeq && state !== "held" && state !== "stopped") return;
    this.stateSeq = Math.max(this.stateSeq, seq);
    this.draft.state = state;
  }

  private applyUpdate(update: SimulationUpdate): void {
    for (const decision of update.decisions) this.buffers.tasks.add(decision);
    this.buffers.utilization.push(update);
    Object.assign(this.draft, {
      comparison: update.comparison,
      verdict: update.verdict ?? null,
      latencyBound: update.latency_bound ?? null,
      makespanBound: update.makespan_bound ?? null,
      firstArrival: update.first_arrival ?? null,
      virtualTime: update.virtual_time,
      tasksProcessed: update.tasks_processed,
      tasksPerSecond: update.tasks_per_second,
      backlogs: update.backlogs ?? {},
      utilizations: update.utilizations ?? {},
      omitted: this.draft.omitted + (update.omitted ?? 0),
      updatedAt: performance.now(),
      ready: true,
    } satisfies Partial<LiveData>);
  }

  private apply(event: StreamEvent): void {
    this.enterRun(event.run_id);
    this.draft.seq = event.seq;
    if (event.type === "simulation_update") this.applyUpdate(event);
    else {
      this.buffers.log.push(event);
      if (event.type === "notification") this.buffers.notifications.push(event);
    }
  }

  /** Takes events in order and without duplicates (the sequencer ensures both). A frozen view keeps them for later. */
  ingest(events: readonly StreamEvent[]): void {
    if (!events.length) return;
    for (const event of events) if (event.type === "simulation_update") this.followState(event.seq, event.state);
    if (this.draft.frozen) {
      this.pending.push(...events);
      this.draft.buffered = this.pending.length;
      if (this.pending.length > PENDING_LIMIT) {
        this.pending = this.pending.slice(-PENDING_LIMIT / 2);
        this.overflow = true;
      }
    } else {
      for (const event of events) this.apply(event);
    }
    this.scheduleFlush();
  }

  freeze(): void {
    this.draft.frozen = true;
    this.flush();
  }

  /** Applies the buffered events. Returns true if some were dropped, so that the caller reloads the history. */
  thaw(): boolean {
    const { pending, overflow } = this;
    this.pending = [];
    this.overflow = false;
    this.draft.frozen = false;
    this.draft.buffered = 0;
    for (const event of pending) this.apply(event);
    this.flush();
    return overflow;
  }

  /** Adds stored tasks from before the stream; tasks that are already known stay as they are. */
  seedTasks(tasks: readonly TaskRecord[]): void {
    for (const task of tasks) {
      if (this.draft.runId !== null && task.run_id !== this.draft.runId) continue;
      const { size, compute_intensity, memory_required } = task;
      for (const result of Object.values(task.results)) {
        this.buffers.tasks.add({ ...result, size, compute_intensity, memory_required });
      }
    }
    this.scheduleFlush();
  }

  /** Takes a status over, unless a newer one is known: the answer to a command can be overtaken by later ones. */
  setStatus(status: Status, newConnection = false): void {
    const { draft } = this;
    // A server that was restarted may have lost events, and then counts from a lower number.
    if (!newConnection && draft.status !== null && status.last_seq < draft.status.last_seq) return;
    draft.status = status;
    if (newConnection) this.stateSeq = 0;
    this.followState(status.last_seq, status.state);
    if (!draft.frozen) {
      if (status.run_id !== null) this.enterRun(status.run_id);
      // An update that was already applied is at least as recent as the status.
      if (this.draft.updatedAt === null) {
        this.draft.comparison = status.comparison;
        this.draft.verdict = status.verdict ?? null;
        this.draft.latencyBound = status.latency_bound ?? null;
        this.draft.makespanBound = status.makespan_bound ?? null;
        this.draft.firstArrival = status.first_arrival ?? null;
        this.draft.tasksProcessed = status.tasks_processed;
        this.draft.tasksPerSecond = status.tasks_per_second;
        this.draft.virtualTime = status.virtual_time;
      }
    }
    this.flush();
  }

  setSchedulers(schedulers: readonly Scheduler[]): void {
    this.draft.schedulers = [...schedulers].sort((a, b) => a.order - b.order);
    this.flush();
  }

  setConnection(connection: Partial<Connection>): void {
    this.draft.connection = { ...this.draft.connection, ...connection };
    this.flush();
  }

  setReady(): void {
    this.draft.ready = true;
    this.flush();
  }

  countMalformed(): void {
    this.draft.malformed++;
    this.scheduleFlush();
  }

  /** Drops all data of the stream after a new database or a restarted event counter. */
  reset(): void {
    const { connection, status, schedulers, frozen } = this.draft;
    this.draft = { ...initial(), connection, status, schedulers, frozen };
    this.pending = [];
    this.overflow = false;
    this.stateSeq = 0;
    this.buffers.clear();
    this.flush();
  }

  /** Restores the initial state, for tests. */
  resetAll(): void {
    this.draft = initial();
    this.reset();
  }
}

export const live = new LiveWriter();
