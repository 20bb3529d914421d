// Toy simulation of six schedulers on one CPU and four GPUs with FIFO queues.
import { DEVICES, mulberry, physics, RUN, SCHEDULERS } from "./fakeModel.mjs";

export class Simulation {
  constructor({ rate = 7, empty = false } = {}) {
    this.random = mulberry(42);
    Object.assign(this, {
      rate,
      empty,
      now: 0,
      seq: 0,
      nextArrival: 0,
      taskId: 1,
      speed: 1,
      paused: false,
      version: 3,
    });
    this.tasks = [];
    this.events = [];
    this.lanes = SCHEDULERS.map((s) => ({
      ...s,
      free: Object.fromEntries(DEVICES.map((d) => [d.name, 0])),
      turn: 0,
      sum: null,
      recent: [],
      regrets: [],
    }));
    this.startedAt = Date.now() / 1000;
    this.wall = this.startedAt - 280;
  }

  get status() {
    return {
      state: this.empty ? "stopped" : this.paused ? "paused" : "running",
      is_running: !this.empty,
      is_paused: this.paused,
      run_id: this.empty ? null : RUN,
      source: "simulated",
      scenario: "mixed",
      load: 0.5,
      seed: 42,
      speed: this.speed,
      platform: { name: "workstation", devices: DEVICES },
      schedulers: SCHEDULERS.map((s) => s.name),
      tasks_processed: this.tasks.length,
      virtual_time: this.now,
      tasks_per_second: this.rate,
      started_at: this.startedAt,
      last_seq: this.seq,
      next_task_id: this.taskId,
      episode: null,
      unsaved_batches: 0,
      storage: "ok",
      notes: [],
      comparison: this.empty ? [] : this.comparison(),
    };
  }

  hello() {
    return {
      type: "hello",
      seq: this.seq,
      run_id: this.empty ? null : RUN,
      server_version: "0.0-fake",
      status: this.status,
    };
  }

  event(type, body) {
    const event = { type, seq: ++this.seq, run_id: RUN, t: this.now, created_at: this.wall, ...body };
    this.events.push(event);
    if (this.events.length > 6000) this.events.splice(0, 1000);
    return event;
  }

  /** Advances virtual time and returns the events, one update per `step`. */
  advance(seconds, step) {
    const out = [];
    if (this.empty || this.paused) return out;
    for (let end = this.now + seconds; this.now < end - 1e-9; ) {
      this.now = Math.min(end, this.now + step);
      this.wall += step / this.speed;
      out.push(...this.tick());
    }
    return out;
  }

  tick() {
    const out = [];
    const decisions = [];
    while (this.nextArrival <= this.now) {
      const task = this.newTask(this.nextArrival);
      for (const lane of this.lanes) decisions.push(this.decide(lane, task));
      this.score(task);
      this.nextArrival += -Math.log(1 - this.random()) / this.rate;
      if (task.task_id % 50 === 0) {
        this.version++;
        out.push(
          this.event("notification", {
            level: "info",
            kind: "retrained",
            message: `hybrid_ml v${this.version} active: ${task.task_id} samples, test R² 0.95`,
            scheduler: "hybrid_ml",
            version: this.version,
            at_task: task.task_id,
          }),
        );
      }
      if (task.task_id % 403 === 0) {
        out.push(
          this.event("notification", {
            level: "warning",
            kind: "drift",
            message: "drift: Page-Hinkley 24.6 > 20; window dropped",
            scheduler: "hybrid_ml",
            version: null,
            at_task: task.task_id,
          }),
        );
      }
    }
    const last = this.tasks.at(-1);
    for (const decision of decisions.slice(-2)) {
      out.push(
        this.event("log", {
          level: "info",
          scheduler: decision.scheduler,
          message: `task ${decision.task_id} to ${decision.device.replace("_", " ").toUpperCase()}`,
          task_id: decision.task_id,
        }),
      );
    }
    const shares = {};
    const backlogs = {};
    for (const lane of this.lanes) {
      shares[lane.name] = {};
      backlogs[lane.name] = {};
      for (const { name } of DEVICES) {
        const ahead = lane.free[name] - this.now;
        backlogs[lane.name][name] = Math.max(0, ahead);
        shares[lane.name][name] = Math.min(
          1,
          Math.max(
            0,
            (ahead > 0 ? 0.86 : 0.24) + 0.14 * Math.sin(this.now / 3 + name.length) + 0.1 * (this.random() - 0.5),
          ),
        );
      }
    }
    const mine = shares.hybrid_ml;
    out.push(
      this.event("simulation_update", {
        task: last
          ? {
              task_id: last.task_id,
              size: last.size,
              compute_intensity: last.compute_intensity,
              memory_required: last.memory_required,
              arrival_time: last.arrival_time,
            }
          : null,
        latest_results: {},
        comparison: this.comparison(),
        utilization: { average_utilization: Object.values(mine).reduce((a, b) => a + b) / DEVICES.length },
        utilization_of: "hybrid_ml",
        utilizations: shares,
        backlogs,
        decisions: decisions.slice(-200),
        omitted: Math.max(0, decisions.length - 200),
        tasks_processed: this.tasks.length,
        tasks_per_second: this.rate,
        virtual_time: this.now,
        state: "running",
      }),
    );
    return out;
  }

  newTask(arrival) {
    const size = 100 * 50 ** (1 - this.random() ** 1.9 * 0.98);
    const task = {
      task_id: this.taskId++,
      run_id: RUN,
      ordinal: this.tasks.length,
      external_id: null,
      size,
      compute_intensity: this.random(),
      memory_required: 10 + 490 * this.random(),
      arrival_time: arrival,
      dependencies: [],
      kind: "generic",
      recorded_at: this.wall,
      results: {},
      optimal_gpu_fraction: 0.8,
      optimal_time: 0.1,
      explanations: {},
    };
    this.tasks.push(task);
    if (this.tasks.length > 20000) this.tasks.splice(0, 5000);
    return task;
  }

  decide(lane, task) {
    const t = task.arrival_time;
    const gpus = DEVICES.filter((d) => d.kind === "gpu");
    const earliest = gpus.reduce((a, b) => (lane.free[a.name] <= lane.free[b.name] ? a : b)).name;
    const { fraction, gpu } = lane.choose({ task, lane, earliest, gpus, random: this.random, now: t });
    const whole = physics(task);
    const gpuTime = fraction > 0 ? whole.gpu * fraction : 0;
    const cpuTime = fraction < 1 ? whole.cpu * (1 - fraction) : 0;
    const gpuStart = gpuTime ? Math.max(t, lane.free[gpu]) : null;
    const cpuStart = cpuTime ? Math.max(t, lane.free.cpu_0) : null;
    if (gpuStart !== null) lane.free[gpu] = gpuStart + gpuTime;
    if (cpuStart !== null) lane.free.cpu_0 = cpuStart + cpuTime;
    const finish = Math.max(gpuStart === null ? 0 : gpuStart + gpuTime, cpuStart === null ? 0 : cpuStart + cpuTime);
    const time = Math.max(gpuTime, cpuTime);
    const energy = gpuTime * 52 + cpuTime * 26;
    const cost = gpuTime * 9e-5 + cpuTime * 2e-5;
    const device = gpuTime ? gpu : "cpu_0";
    const start = Math.min(gpuStart ?? Infinity, cpuStart ?? Infinity);
    task.results[lane.name] = {
      scheduler_name: lane.name,
      device,
      gpu_fraction: fraction,
      actual_time: time,
      latency: finish - t,
      wait: start - t,
      start_time: start,
      finish_time: finish,
      cpu_start: cpuStart,
      cpu_time: cpuTime,
      gpu_start: gpuStart,
      gpu_time: gpuTime,
      energy_consumption: energy,
      execution_cost: cost,
      regret: null,
      predicted_time: time * (0.9 + 0.2 * this.random()),
      status: "ran",
      model_version: lane.name === "hybrid_ml" ? this.version : null,
    };
    return {
      task_id: task.task_id,
      scheduler: lane.name,
      device,
      fraction,
      start,
      finish,
      time,
      latency: finish - t,
      wait: finish - t - time,
      energy,
      cost,
      regret: null,
      cpu_start: cpuStart,
      cpu_time: cpuTime,
      accelerator_start: gpuStart,
      accelerator_time: gpuTime,
      size: task.size,
      compute_intensity: task.compute_intensity,
      memory_required: task.memory_required,
    };
  }

  score(task) {
    const best = task.results.oracle.latency;
    for (const lane of this.lanes) {
      const r = task.results[lane.name];
      r.regret = r.latency - best;
      lane.sum ??= {
        n: 0,
        time: 0,
        latency: 0,
        energy: 0,
        cost: 0,
        fraction: 0,
        regret: 0,
        regret2: 0,
        latency2: 0,
        end: 0,
      };
      const s = lane.sum;
      s.n++;
      s.time += r.actual_time;
      s.latency += r.latency;
      s.latency2 += r.latency ** 2;
      s.energy += r.energy_consumption;
      s.cost += r.execution_cost;
      s.fraction += r.gpu_fraction;
      s.regret += r.regret;
      s.regret2 += r.regret ** 2;
      s.end = Math.max(s.end, r.finish_time);
      lane.recent.push(r.latency);
      if (lane.recent.length > 1000) lane.recent.shift();
    }
  }

  comparison() {
    return this.lanes
      .filter((lane) => lane.sum)
      .map((lane) => {
        const s = lane.sum;
        const sorted = [...lane.recent].sort((a, b) => a - b);
        const q = (p) => sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))];
        const half = (sum, square) => 1.96 * Math.sqrt(Math.max(0, square / s.n - (sum / s.n) ** 2) / s.n);
        return {
          name: lane.name,
          tasks: s.n,
          failed: 0,
          mean_time: s.time / s.n,
          mean_latency: s.latency / s.n,
          latency_ci95: half(s.latency, s.latency2),
          mean_wait: (s.latency - s.time) / s.n,
          mean_energy: s.energy / s.n,
          mean_cost: s.cost / s.n,
          total_energy: s.energy,
          total_cost: s.cost,
          mean_gpu_fraction: s.fraction / s.n,
          mean_regret: s.regret / s.n,
          regret_ci95: half(s.regret, s.regret2),
          p50_latency: q(0.5),
          p95_latency: q(0.95),
          p99_latency: q(0.99),
          window: sorted.length,
          makespan: s.end,
          load_balance: 0.94,
          state: lane.name === "hybrid_ml" ? "learned" : "ready",
          model_version: lane.name === "hybrid_ml" ? this.version : null,
        };
      });
  }

  note(kind, message, level = "info") {
    this.onNote?.(
      this.event("notification", { level, kind, message, scheduler: null, version: null, at_task: null }),
    );
  }
}
