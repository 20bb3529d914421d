/**
 * Live stream: a WebSocket that reconnects by itself after 250 ms to 1.5 s, checks of the fields that the store relies
 * on, and the order of events. Checks and order do not use sockets, so that tests can simulate every network fault.
 */
import type { Hello, StreamEvent } from "./models";

interface SocketReport {
  open: () => void;
  message: (value: unknown) => void;
  /** Called for text that is not JSON. */
  notJson: () => void;
  closed: (attempt: number, retryInMs: number) => void;
}

const FIRST_MS = 250;
const LONGEST_MS = 1500;
/** Time limit of a handshake, for networks that drop packets silently. */
const HANDSHAKE_TIMEOUT_MS = 4000;

export const delayFor = (attempt: number): number => Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, attempt - 1));

export class LiveSocket {
  private socket: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private handshakeTimeout: ReturnType<typeof setTimeout> | undefined;
  private attempt = 0;
  private stopped = false;

  constructor(
    private readonly url: () => string,
    private readonly report: SocketReport,
  ) {}

  start(): void {
    this.stopped = false;
    this.connect();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    clearTimeout(this.handshakeTimeout);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  /** Resets the back-off after the first message, which proves that the connection works. */
  proven(): void {
    this.attempt = 0;
  }

  retryNow(): void {
    if (this.socket?.readyState === WebSocket.OPEN) return;
    clearTimeout(this.timer);
    this.connect();
  }

  private connect(): void {
    if (this.stopped) return;
    const previous = this.socket;
    this.socket = null;
    previous?.close();
    const socket = new WebSocket(this.url());
    this.socket = socket;
    this.handshakeTimeout = setTimeout(() => socket.close(), HANDSHAKE_TIMEOUT_MS);
    socket.onopen = () => {
      clearTimeout(this.handshakeTimeout);
      if (this.socket === socket) this.report.open();
    };
    socket.onmessage = (message) => {
      if (this.socket !== socket) return;
      let value: unknown;
      try {
        value = JSON.parse(String(message.data));
      } catch {
        this.report.notJson();
        return;
      }
      this.report.message(value);
    };
    socket.onclose = () => {
      clearTimeout(this.handshakeTimeout);
      if (this.socket !== socket || this.stopped) return;
      this.socket = null;
      this.attempt++;
      const delay = delayFor(this.attempt);
      this.report.closed(this.attempt, delay);
      this.timer = setTimeout(() => this.connect(), delay);
    };
  }
}

// ---------------------------------------------------------------- validation

type Loose = Record<string, unknown>;

const isObject = (value: unknown): value is Loose =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isFinite_ = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

function isUpdate(event: Loose): boolean {
  return (
    Array.isArray(event.comparison) &&
    event.comparison.every((row) => isObject(row) && typeof row.name === "string") &&
    Array.isArray(event.decisions) &&
    event.decisions.every((row) => isObject(row) && isFinite_(row.task_id) && typeof row.scheduler === "string") &&
    isFinite_(event.virtual_time) &&
    isFinite_(event.tasks_processed)
  );
}

export function parseEvent(value: unknown): StreamEvent | null {
  if (!isObject(value) || !Number.isSafeInteger(value.seq) || (value.seq as number) < 0) return null;
  if (!isFinite_(value.t) || !isFinite_(value.created_at) || typeof value.run_id !== "string") return null;
  switch (value.type) {
    case "simulation_update":
      return isUpdate(value) ? (value as unknown as StreamEvent) : null;
    case "notification":
    case "log":
      return typeof value.message === "string" && typeof value.level === "string"
        ? (value as unknown as StreamEvent)
        : null;
    default:
      return null;
  }
}

export function parseHello(value: unknown): Hello | null {
  if (!isObject(value) || value.type !== "hello" || !Number.isSafeInteger(value.seq)) return null;
  if (value.status !== null && !(isObject(value.status) && Array.isArray(value.status.comparison))) return null;
  return value as unknown as Hello;
}

/** Sequence number of a message, also of a malformed one, which would otherwise count as a gap. */
export function sequenceOf(value: unknown): number | null {
  return isObject(value) && Number.isSafeInteger(value.seq) ? (value.seq as number) : null;
}

// ---------------------------------------------------------------- order

interface SequenceResult {
  /** Events to apply now, in order, without gap or duplicate. */
  ready: StreamEvent[];
  /** Number after which events are missing; null where none are. */
  askAfter: number | null;
}

const HELD_LIMIT = 2000;

/** Drops duplicates, holds early events and says where to continue reading. */
export class EventSequencer {
  private held = new Map<number, StreamEvent | null>();
  /** Number of the last applied event, −1 before the first. */
  last = -1;
  duplicates = 0;
  /** Count of events that the server no longer had. */
  lost = 0;

  /** Whether early events wait for missing ones. */
  get waiting(): boolean {
    return this.held.size > 0;
  }

  /** Starts after a number, for a first connection or a restarted event counter. */
  reset(after: number): void {
    this.last = after;
    this.held.clear();
  }

  /** Accepts an event; null means a malformed one, which the server would only send again. */
  accept(seq: number, event: StreamEvent | null): SequenceResult {
    if (seq <= this.last || this.held.has(seq)) {
      this.duplicates++;
      return { ready: [], askAfter: null };
    }
    this.held.set(seq, event);
    const ready = this.drain();
    const waiting = this.held.size > 0;
    if (this.held.size > HELD_LIMIT)
      return { ready: [...ready, ...this.skipTo(Math.min(...this.held.keys()) - 1)], askAfter: null };
    return { ready, askAfter: waiting ? this.last : null };
  }

  /** Continues after `seq`, because the server no longer has the events before it. */
  skipTo(seq: number): StreamEvent[] {
    if (seq > this.last) {
      this.lost += seq - this.last;
      this.last = seq;
      for (const key of [...this.held.keys()]) if (key <= seq) this.held.delete(key);
    }
    return this.drain();
  }

  private drain(): StreamEvent[] {
    const ready: StreamEvent[] = [];
    while (this.held.has(this.last + 1)) {
      this.last++;
      const event = this.held.get(this.last);
      this.held.delete(this.last);
      if (event) ready.push(event);
    }
    return ready;
  }
}
