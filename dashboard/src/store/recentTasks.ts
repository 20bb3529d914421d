/** The newest 1000 tasks with the decisions of all schedulers. */
import type { Decision, TaskDetail } from "../client/models";
import { RingBuffer } from "../lib/ringBuffer";

export interface RecentTask {
  id: number;
  size: number;
  intensity: number;
  memory: number;
  /** Virtual seconds; finish − latency of the first decision. */
  arrival: number;
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
      const oldest = this.ring.at(0)?.id ?? Number.NEGATIVE_INFINITY;
      if (decision.task_id <= this.forgotten || decision.task_id < oldest) return false;
      entry = {
        id: decision.task_id,
        size: decision.size,
        intensity: decision.intensity,
        memory: decision.memory,
        arrival: (decision.finish ?? Number.NaN) - (decision.latency ?? Number.NaN),
        results: new Map(),
      };
      this.byId.set(entry.id, entry);
      const dropped = this.ring.push(entry);
      if (dropped) {
        this.byId.delete(dropped.id);
        this.forgotten = Math.max(this.forgotten, dropped.id);
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
    return all.filter((task) => task.arrival >= from && task.arrival <= to);
  }

  clear(): void {
    this.ring.clear();
    this.byId.clear();
    this.forgotten = -1;
  }
}

/** Decisions of a stored task in the form of the stream. */
export function decisionsOf(task: TaskDetail): Decision[] {
  return Object.entries(task.results).map(([scheduler, result]) => ({
    task_id: task.task_id,
    scheduler,
    device: result.device,
    fraction: result.gpu_fraction,
    start: result.start_time,
    finish: result.finish_time,
    time: result.actual_time,
    latency: result.latency,
    energy: result.energy_consumption,
    cost: result.execution_cost,
    regret: result.regret,
    cpu_start: result.cpu_start,
    cpu_time: result.cpu_time,
    gpu_start: result.gpu_start,
    gpu_time: result.gpu_time,
    size: task.size,
    intensity: task.compute_intensity,
    memory: task.memory_required,
  }));
}
