// REST responses of the fake server.
import { RUN, SCHEDULERS } from "./fakeModel.mjs";

export function answer(simulation, method, url, body) {
  const path = url.pathname;
  const query = Object.fromEntries(url.searchParams);
  if (method === "POST") {
    if (path.endsWith("/pause")) {
      simulation.paused = true;
      simulation.note("paused", "paused");
      return simulation.status;
    }
    if (path.endsWith("/resume")) {
      simulation.paused = false;
      simulation.note("resumed", "resumed");
      return simulation.status;
    }
    if (path.endsWith("/start")) {
      simulation.empty = false;
      return simulation.status;
    }
    if (path.endsWith("/speed")) {
      simulation.speed = body.speed;
      simulation.note("speed", `speed ${body.speed}×`);
      return simulation.status;
    }
    return undefined;
  }
  if (path === "/api/simulation/status" || path === "/api/status") return simulation.status;
  if (path === "/api/schedulers")
    return SCHEDULERS.map(({ choose, ...s }, order) => ({
      ...s,
      order,
      in_run: true,
      published: true,
      protocol: "online",
      knows: s.name === "oracle" ? "realised" : "nothing",
      summary: "",
      parameters: {},
    }));
  if (path === "/api/full_history") return simulation.tasks.slice(-Number(query.limit ?? 1000));
  if (path === "/api/events") {
    const after = Number(query.after ?? 0);
    const found = simulation.events.filter((e) => e.seq > after && (!query.type || e.type === query.type));
    const limit = Number(query.limit ?? 500);
    return {
      events: found.slice(0, limit),
      last_seq: simulation.seq,
      oldest_seq: simulation.events[0]?.seq ?? 0,
      truncated: found.length > limit,
    };
  }
  if (path === "/api/history/comparative") return comparative(simulation, Number(query.limit ?? 1000));
  if (path.startsWith("/api/tasks/"))
    return simulation.tasks.find((t) => t.task_id === Number(path.split("/").pop()));
  if (/^\/api\/runs\/[^/]+\/gantt$/.test(path)) return gantt(simulation, query);
  return undefined;
}

function comparative(simulation, limit) {
  const tasks = simulation.tasks.slice(-limit);
  const wins = {};
  for (const a of SCHEDULERS) {
    wins[a.name] = {};
    for (const b of SCHEDULERS) {
      if (a === b) continue;
      wins[a.name][b.name] = tasks.filter(
        (t) => t.results[a.name].latency < t.results[b.name].latency - 1e-9,
      ).length;
    }
  }
  return {
    run_id: RUN,
    tasks: tasks.length,
    first_task_id: tasks[0]?.task_id ?? null,
    last_task_id: tasks.at(-1)?.task_id ?? null,
    schedulers: [],
    wins,
  };
}

function gantt(simulation, { scheduler, start = 0, end = Number.POSITIVE_INFINITY, limit = 50000 }) {
  const out = {
    run_id: RUN,
    scheduler,
    task_id: [],
    device: [],
    part: [],
    start: [],
    end: [],
    intensity: [],
    truncated: false,
  };
  for (const task of simulation.tasks) {
    const r = task.results[scheduler];
    if (!r || r.finish_time < start || r.start_time > end) continue;
    for (const part of ["cpu", "gpu"]) {
      if (r[`${part}_start`] === null) continue;
      if (out.task_id.length >= limit) {
        out.truncated = true;
        return out;
      }
      out.task_id.push(task.task_id);
      out.device.push(part === "cpu" ? "cpu_0" : r.device);
      out.part.push(part);
      out.start.push(r[`${part}_start`]);
      out.end.push(r[`${part}_start`] + r[`${part}_time`]);
      out.intensity.push(task.compute_intensity);
    }
  }
  return out;
}
