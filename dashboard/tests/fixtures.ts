/** Small valid records for the tests. */
import type { ComparisonRow, Decision, LogLine, SimulationUpdate, Status } from "../src/client/models";

export function row(name: string, change: Partial<ComparisonRow> = {}): ComparisonRow {
  return {
    name,
    tasks: 100,
    failed: 0,
    mean_time: 0.2,
    mean_latency: 0.25,
    latency_ci95: 0.01,
    mean_wait: 0.05,
    mean_energy: 10,
    mean_cost: 2e-5,
    total_energy: 1000,
    total_cost: 2e-3,
    mean_gpu_fraction: 0.7,
    mean_regret: 0,
    regret_ci95: 0.002,
    p50_latency: 0.2,
    p95_latency: 0.6,
    p99_latency: 0.9,
    window: 100,
    makespan: 30,
    load_balance: 0.9,
    state: "ready",
    model_version: null,
    ...change,
  };
}

export function decision(task: number, scheduler: string, change: Partial<Decision> = {}): Decision {
  return {
    task_id: task,
    scheduler,
    device: "gpu_0",
    fraction: 0.5,
    start: task,
    finish: task + 0.5,
    time: 0.5,
    latency: 0.6,
    wait: 0.1,
    energy: 10,
    cost: 1e-5,
    regret: 0.1,
    cpu_start: task,
    cpu_time: 0.5,
    accelerator_start: task,
    accelerator_time: 0.4,
    size: 1000,
    compute_intensity: 0.5,
    memory_required: 100,
    ...change,
  };
}

export function update(seq: number, change: Partial<SimulationUpdate> = {}): SimulationUpdate {
  return {
    type: "simulation_update",
    seq,
    run_id: "r1",
    t: seq,
    created_at: 1_700_000_000 + seq,
    task: null,
    latest_results: {},
    comparison: [row("oracle"), row("hybrid_ml")],
    utilization: { average_utilization: 0.5 } as SimulationUpdate["utilization"],
    utilization_of: "hybrid_ml",
    utilizations: { hybrid_ml: { cpu_0: 0.5, gpu_0: 0.6 } },
    backlogs: { hybrid_ml: { cpu_0: 0, gpu_0: 0 } },
    decisions: [],
    omitted: 0,
    tasks_processed: seq,
    tasks_per_second: 7,
    virtual_time: seq,
    state: "running",
    ...change,
  };
}

export const log = (seq: number, message = `line ${seq}`): LogLine => ({
  type: "log",
  seq,
  run_id: "r1",
  t: seq,
  created_at: 1_700_000_000 + seq,
  level: "info",
  scheduler: "hybrid_ml",
  message,
  task_id: seq,
});

export const status = (change: Partial<Status> = {}): Status => ({
  state: "running",
  is_running: true,
  is_paused: false,
  run_id: "r1",
  source: "simulated",
  scenario: "default",
  load: 0.1,
  seed: 42,
  speed: 1,
  platform: {
    name: "workstation",
    devices: [
      { name: "cpu_0", kind: "cpu" },
      { name: "gpu_0", kind: "gpu" },
    ],
  },
  schedulers: ["oracle", "hybrid_ml"],
  tasks_processed: 0,
  virtual_time: 0,
  tasks_per_second: 0,
  started_at: 1_700_000_000,
  last_seq: 0,
  next_task_id: 1,
  episode: null,
  unsaved_batches: 0,
  storage: "ok",
  notes: [],
  comparison: [],
  ...change,
});
