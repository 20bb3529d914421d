/** Feed of the live store: initial data over REST, then events of the socket; gaps are filled over REST. */
import { api } from "../client/api";
import { EventSequencer, LiveSocket, parseEvent, parseHello, sequenceOf } from "../client/liveStream";
import type { EventPage, Hello } from "../client/models";
import { apiToken } from "../client/request";
import { live, useLive } from "./liveStore";
import { TASK_WINDOW } from "./recentTasks";

/** Number of past events that a newly opened page reads; a link to a frozen view needs more for its picture. */
const LOOK_BACK = 12;
const LOOK_BACK_FROZEN = 1000;
/** Number of stored tasks that a newly opened page reads; the stream brings more. */
const FIRST_TASKS = 100;
const PAGE = 500;
/** Notifications about models: all that they change is in the next update. */
const IN_UPDATES = new Set(["retrained", "drift", "fallback", "recovered"]);
const OFFLINE_AFTER_MS = 30_000;

function socketAddress(): string {
  const { protocol, host } = window.location;
  const token = apiToken();
  const query = token ? `?token=${encodeURIComponent(token)}` : "";
  return `${protocol === "https:" ? "wss" : "ws"}://${host}/ws${query}`;
}

export class LiveFeed {
  private readonly order = new EventSequencer();
  private readonly socket: LiveSocket;
  private begun = false;
  private filling = false;
  private wanted: number | null = null;
  private statusTimer: ReturnType<typeof setTimeout> | undefined;
  private stopped = false;

  /** `freezeAt` is the sequence number of a link to a frozen view; later events are held back. */
  constructor(private freezeAt: number | null = null) {
    this.socket = new LiveSocket(socketAddress, {
      open: () => {},
      message: (value) => this.message(value),
      notJson: () => live.countMalformed(),
      closed: (attempt, retryInMs) => this.closed(attempt, retryInMs),
    });
  }

  start(): void {
    this.socket.start();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.statusTimer);
    this.socket.stop();
  }

  retryNow(): void {
    this.socket.retryNow();
  }

  /** Reads the recent tasks again, after a freeze that dropped events. */
  reload(): void {
    void api.history(TASK_WINDOW).then(
      (tasks) => live.seedTasks(tasks),
      () => {},
    );
  }

  private closed(attempt: number, retryInMs: number): void {
    const { lostAt } = useLive.getState().connection;
    const since = lostAt ?? performance.now();
    const offline = performance.now() - since > OFFLINE_AFTER_MS;
    live.setConnection({ phase: offline ? "offline" : "reconnecting", attempt, retryInMs, lostAt: since });
  }

  private message(value: unknown): void {
    const hello = parseHello(value);
    if (hello) {
      this.greet(hello);
      return;
    }
    const seq = sequenceOf(value);
    const event = parseEvent(value);
    if (!event) live.countMalformed();
    if (seq === null || !this.begun) return;
    if (event?.type === "notification" && !IN_UPDATES.has(event.kind)) this.refreshStatus();
    this.offer(seq, event);
  }

  private greet(hello: Hello): void {
    this.socket.proven();
    live.setConnection({ phase: "live", attempt: 0, retryInMs: 0, lostAt: null });
    this.readSchedulers();
    if (this.begun && hello.seq < this.order.last) {
      // A lower number means another database, whose data must not mix with the old ones.
      live.reset();
      this.begun = false;
    }
    if (hello.status) live.setStatus(hello.status, true);
    else this.refreshStatus();
    if (!this.begun) void this.begin(hello.seq);
    else if (hello.seq > this.order.last) void this.fill(this.order.last);
  }

  /** Reads the schedulers at every connection, because some may have been registered meanwhile. */
  private readSchedulers(tries = 0): void {
    void api.schedulers().then(
      (schedulers) => live.setSchedulers(schedulers),
      () => {
        if (tries < 3 && !this.stopped) setTimeout(() => this.readSchedulers(tries + 1), 1000);
      },
    );
  }

  private async begin(seq: number): Promise<void> {
    this.begun = true;
    const end = this.freezeAt === null ? seq : Math.min(seq, this.freezeAt);
    this.order.reset(Math.max(0, end - (this.freezeAt === null ? LOOK_BACK : LOOK_BACK_FROZEN)));
    if (this.freezeAt === null) {
      // Stored tasks come first, because the window of recent tasks is in the order of their numbers.
      this.filling = true;
      try {
        live.seedTasks(await api.history(FIRST_TASKS));
      } catch {
        // The stream alone gives correct, shorter data.
      }
      this.filling = false;
    }
    if (end > this.order.last) await this.fill(this.order.last);
    if (this.freezeAt !== null) {
      // The event of the link does not exist (pruned, or another database): freeze at the nearest one.
      this.freezeAt = null;
      live.freeze();
    }
    live.setReady();
  }

  private offer(seq: number, event: ReturnType<typeof parseEvent>): void {
    const { ready, askAfter } = this.order.accept(seq, event);
    if (this.freezeAt !== null) {
      const index = ready.findIndex((item) => item.seq > (this.freezeAt as number));
      live.ingest(index < 0 ? ready : ready.slice(0, index));
      if (index < 0 && this.order.last < this.freezeAt) {
        if (askAfter !== null) void this.fill(askAfter);
        return;
      }
      this.freezeAt = null;
      live.freeze();
      live.ingest(index < 0 ? [] : ready.slice(index));
    } else live.ingest(ready);
    if (askAfter !== null) void this.fill(askAfter);
  }

  /** Reads missing events page by page, one request at a time. */
  private async fill(after: number): Promise<void> {
    this.wanted = after;
    if (this.filling) return;
    this.filling = true;
    let pause = 250;
    while (this.wanted !== null && !this.stopped) {
      const from: number = this.wanted;
      this.wanted = null;
      try {
        const page = await api.events(from, PAGE);
        this.take(page, from);
        pause = 250;
      } catch {
        this.wanted ??= from;
        await new Promise((resolve) => setTimeout(resolve, pause));
        pause = Math.min(1500, pause * 2);
      }
    }
    this.filling = false;
  }

  private take(page: EventPage, from: number): void {
    const before = this.order.last;
    for (const raw of page.events) {
      const seq = sequenceOf(raw);
      const event = parseEvent(raw);
      if (!event) live.countMalformed();
      if (seq === null) continue;
      // The server has deleted the events between; skip them instead of asking again.
      if (seq > this.order.last + 1 && from <= this.order.last) live.ingest(this.order.skipTo(seq - 1));
      this.offer(seq, event);
    }
    if (page.events.length === 0 && page.last_seq > before && this.order.last === before) {
      live.ingest(this.order.skipTo(page.last_seq));
    }
    this.wanted = page.truncated || this.order.waiting ? this.order.last : null;
  }

  /** Reads the status after a notification, e.g. of another user's command. */
  private refreshStatus(): void {
    this.statusTimer ??= setTimeout(() => {
      this.statusTimer = undefined;
      void api.status().then(
        (status) => live.setStatus(status),
        () => {},
      );
    }, 150);
  }
}
