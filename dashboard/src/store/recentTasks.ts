/** The newest 1000 tasks with the decisions of all schedulers. */
import type { Decision } from "../client/models";
import { RingBuffer } from "../lib/ringBuffer";

export interface RecentTask extends Pick<Decision, "task_id" | "size" | "compute_intensity" | "memory_required"> {
  /** Virtual seconds; finish − latency of the first decision. */
  arrival_time: number;
  results: Map<string, Decision>;
}

export const TASK_WINDOW = 1000;

export class RecentTasks {
  private readonly ring = new RingBuffer<RecentTask>(TASK_WINDOW);
  private readonly byId = new Map<number, RecentTask>();
  /** Highest dropped task number; late duplicates up to it are ignored. */
  private forgotten = -1;

  get length(): number {
    return this.ring.length;
  }

  /** Adds a decision; returns false where it is already known or too old. */
  add(decision: Decision): boolean {
    let entry = this.byId.get(decision.task_id);
    if (!entry) {
      // Task numbers rise, so an unknown number below the oldest one would be out of order.
      const oldest = this.ring.at(0)?.task_id ?? Number.NEGATIVE_INFINITY;
      if (decision.task_id <= this.forgotten || decision.task_id < oldest) return false;
      entry = {
        task_id: decision.task_id,
        size: decision.size,
        compute_intensity: decision.compute_intensity,
        memory_required: decision.memory_required,
        arrival_time: (decision.finish ?? Number.NaN) - (decision.latency ?? Number.NaN),
        results: new Map(),
      };
      this.byId.set(entry.task_id, entry);
      const dropped = this.ring.push(entry);
      if (dropped) {
        this.byId.delete(dropped.task_id);
        this.forgotten = Math.max(this.forgotten, dropped.task_id);
      }
    }
    if (entry.results.has(decision.scheduler)) return false;
    entry.results.set(decision.scheduler, decision);
    return true;
  }

  get(id: number): RecentTask | undefined {
    return this.byId.get(id);
  }

  at(index: number): RecentTask | undefined {
    return this.ring.at(index);
  }

  /** Tasks from oldest to newest that arrived within the bounds. */
  list(from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY): RecentTask[] {
    const all = this.ring.toArray();
    if (from === Number.NEGATIVE_INFINITY && to === Number.POSITIVE_INFINITY) return all;
    return all.filter((task) => task.arrival_time >= from && task.arrival_time <= to);
  }

  clear(): void {
    this.ring.clear();
    this.byId.clear();
    this.forgotten = -1;
  }
}
