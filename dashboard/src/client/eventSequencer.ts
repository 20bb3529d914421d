/**
 * Puts events into order: drops what was seen, holds what came too early, and says from where to ask again.
 * It knows nothing of sockets, so every fault of a network can be played through it in a test.
 */
import type { StreamEvent } from "./models";

interface Verdict {
  /** In order, without gap or duplicate: apply these now. */
  ready: StreamEvent[];
  /** Ask the server for what follows this number; null where nothing is missing. */
  askAfter: number | null;
}

const HELD_LIMIT = 2000;

export class Sequencer {
  private held = new Map<number, StreamEvent | null>();
  /** The last number that was applied, −1 before the first. */
  last = -1;
  duplicates = 0;
  /** Numbers that the server no longer had. */
  lost = 0;

  /** Something came too early and waits for what is missing. */
  get waiting(): boolean {
    return this.held.size > 0;
  }

  /** Begin after a number, for a first connection or a server that starts anew. */
  reset(after: number): void {
    this.last = after;
    this.held.clear();
  }

  /** A null event takes its number's place: it was malformed, and asking again would bring the same. */
  accept(seq: number, event: StreamEvent | null): Verdict {
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

  /** The server no longer holds what lies before `seq`: go on behind the hole. */
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
