/** Records in core names from the task and result rows of the REST API, which keep their published SQL names. */
import type { Decision } from "./models";
import type { components } from "./types";

type Schemas = components["schemas"];

export type Explanation = Schemas["DecisionExplanation"];

type TaskField = "size" | "compute_intensity" | "memory_required";

/** What one scheduler made of one task. */
export interface ResultRecord extends Omit<Decision, TaskField> {
  predicted_time: number | null;
  status: Schemas["Result"]["status"];
  model_version: number | null;
}

export interface TaskRecord extends Pick<Decision, "task_id" | TaskField> {
  run_id: string;
  arrival_time: number;
  /** Execution time of the best split of the task alone. */
  optimal_time: number | null;
  /** By scheduler. */
  results: Readonly<Record<string, ResultRecord>>;
  /** By learned scheduler; only of the newest tasks of the live run. */
  explanations: Readonly<Record<string, Explanation>>;
}

export function resultRecord(row: Schemas["Result"], taskId: number): ResultRecord {
  return {
    task_id: taskId,
    scheduler: row.scheduler_name,
    device: row.device,
    fraction: row.gpu_fraction,
    start: row.start_time,
    finish: row.finish_time,
    time: row.actual_time,
    latency: row.latency,
    wait: row.wait,
    energy: row.energy_consumption,
    cost: row.execution_cost,
    regret: row.regret,
    cpu_start: row.cpu_start,
    cpu_time: row.cpu_time,
    accelerator_start: row.gpu_start,
    accelerator_time: row.gpu_time,
    predicted_time: row.predicted_time,
    confidence: row.confidence,
    status: row.status,
    model_version: row.model_version,
  };
}

export function taskRecord(row: Schemas["TaskDetail"] & Partial<Schemas["ExplainedTask"]>): TaskRecord {
  const { task_id, run_id, size, compute_intensity, memory_required, arrival_time, optimal_time } = row;
  const results = Object.entries(row.results).map(([name, result]) => [name, resultRecord(result, task_id)]);
  return {
    task_id,
    run_id,
    size,
    compute_intensity,
    memory_required,
    arrival_time,
    optimal_time,
    results: Object.fromEntries(results),
    explanations: row.explanations ?? {},
  };
}
