/**
 * Sequencer of stream events: drops duplicates, holds early events and says where to continue reading.
 * It does not use sockets, so that tests can simulate every network fault.
 */
import type { StreamEvent } from "./models";

interface SequenceResult {
  /** Events to apply now, in order, without gap or duplicate. */
  ready: StreamEvent[];
  /** Number after which events are missing; null where none are. */
  askAfter: number | null;
}

const HELD_LIMIT = 2000;

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
