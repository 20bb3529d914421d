/** The newest tasks with what every scheduler made of them: ledger, workload, correlations and intervals read from here. */
import type { Decision, TaskDetail } from "../client/models";
import { RingBuffer } from "../lib/ringBuffer";

export interface RecentTask {
  id: number;
  size: number;
  intensity: number;
  memory: number;
  /** Virtual seconds; from the decision: finish − latency. */
  arrival: number;
  results: Map<string, Decision>;
}

export const TASK_WINDOW = 1000;

export class RecentTasks {
  private readonly ring = new RingBuffer<RecentTask>(TASK_WINDOW);
  private readonly byId = new Map<number, RecentTask>();
  /** Everything up to here has been dropped: a late duplicate of it must not come back. */
  private forgotten = -1;

  get length(): number {
    return this.ring.length;
  }

  /** False where this scheduler's decision for the task is already known or too old. */
  add(decision: Decision): boolean {
    let entry = this.byId.get(decision.task_id);
    if (!entry) {
      // Numbers rise: what is older than the oldest here was left out on purpose and would come out of order.
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

  /** Oldest first; with bounds, only those that arrived within them. */
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

/** A stored task in the words of the stream. */
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
