import { describe, expect, it } from "vitest";
import { resultRecord, taskRecord } from "../src/client/resultRecords";

const row = {
  scheduler_name: "greedy",
  device: "gpu_2",
  gpu_fraction: 0.62,
  actual_time: 0.031,
  latency: 0.034,
  wait: 0.003,
  start_time: 12.503,
  finish_time: 12.534,
  cpu_start: 12.504,
  cpu_time: 0.02,
  gpu_start: 12.503,
  gpu_time: 0.031,
  energy_consumption: 2.15,
  execution_cost: 3.6e-6,
  regret: 0.004,
  predicted_time: null,
  confidence: null,
  status: "ran" as const,
  model_version: null,
};

const record = {
  task_id: 105,
  scheduler: "greedy",
  device: "gpu_2",
  fraction: 0.62,
  start: 12.503,
  finish: 12.534,
  time: 0.031,
  latency: 0.034,
  wait: 0.003,
  energy: 2.15,
  cost: 3.6e-6,
  regret: 0.004,
  cpu_start: 12.504,
  cpu_time: 0.02,
  accelerator_start: 12.503,
  accelerator_time: 0.031,
  predicted_time: null,
  confidence: null,
  status: "ran",
  model_version: null,
};

describe("records of REST rows", () => {
  it("have core names", () => expect(resultRecord(row, 105)).toEqual(record));

  it("have no wait where the task failed", () => {
    expect(
      resultRecord({ ...row, actual_time: null, latency: null, wait: null, status: "failed" }, 1).wait,
    ).toBeNull();
  });

  it("keep the results of a task by scheduler", () => {
    const task = taskRecord({
      task_id: 105,
      run_id: "r",
      ordinal: 104,
      external_id: null,
      size: 1200,
      compute_intensity: 0.62,
      memory_required: 96,
      arrival_time: 12.5,
      dependencies: [],
      kind: "generic",
      recorded_at: 0,
      divisible: true,
      results: { greedy: row },
      optimal_gpu_fraction: 0.7,
      optimal_time: 0.027,
      explanations: {},
    });
    expect(task).toEqual({
      task_id: 105,
      run_id: "r",
      size: 1200,
      compute_intensity: 0.62,
      memory_required: 96,
      arrival_time: 12.5,
      optimal_time: 0.027,
      results: { greedy: record },
      explanations: {},
    });
  });
});
