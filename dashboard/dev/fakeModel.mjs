// Duration model and scheduling rules of the fake server.
export const RUN = "fake-7f3a2c";
export const DEVICES = [
  { name: "cpu_0", kind: "cpu" },
  ...[0, 1, 2, 3].map((i) => ({ name: `gpu_${i}`, kind: "gpu" })),
];

/** Seeded random number generator, so that every replay is the same. */
export function mulberry(seed) {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Seconds of the whole task on the CPU and on a GPU. */
export function physics({ size, compute_intensity: i, memory_required: m }) {
  const work = (size / 2500) ** 1.5 * 0.5;
  return { cpu: work, gpu: work / (1 + 4 * i) + 0.004 + m / 16000 };
}

const split = ({ cpu, gpu }) => Math.min(1, Math.max(0, cpu / (cpu + gpu)));

/** GPU share with which both parts end together, given the waiting times. */
function balanced(task, waitCpu, waitGpu, error = 0) {
  const { cpu, gpu } = physics(task);
  const f = (cpu + waitCpu - waitGpu) / (cpu + gpu) + error;
  return f > 0.97 ? 1 : f < 0.03 ? 0 : f;
}

const look = (dark, light, glyph, dash) => ({ dark, light, glyph, dash });
const planned =
  (error) =>
  ({ task, lane, earliest, random, now }) => ({
    fraction: balanced(
      task,
      Math.max(0, lane.free.cpu_0 - now),
      Math.max(0, lane.free[earliest] - now),
      error * (random() - 0.5),
    ),
    gpu: earliest,
  });

export const SCHEDULERS = [
  { name: "oracle", label: "Oracle", look: look("#FFE841", "#684908", "★", "dotted"), choose: planned(0) },
  { name: "hybrid_ml", label: "Hybrid ML", look: look("#22D3EE", "#157A8B", "●", "solid"), choose: planned(0.12) },
  { name: "rl_agent", label: "RL agent", look: look("#C85FFD", "#7E19E8", "◆", "dashed"), choose: planned(0.3) },
  {
    name: "random",
    label: "Random",
    look: look("#7B87A7", "#3B4D63", "✕", "thin"),
    choose: ({ random, gpus }) => ({
      fraction: 0.45 + 0.55 * random(),
      gpu: gpus[Math.floor(random() * gpus.length)].name,
    }),
  },
  {
    name: "greedy",
    label: "Greedy",
    look: look("#FB7F27", "#AE5F28", "▲", "dash-dot"),
    choose: ({ task, earliest }) => ({
      fraction: Math.max(split(physics(task)) * 0.93, task.compute_intensity),
      gpu: earliest,
    }),
  },
  {
    name: "round_robin",
    label: "Round Robin",
    look: look("#3DB885", "#0A3625", "■", "long dash"),
    choose: ({ task, lane, gpus }) => ({
      fraction: task.task_id % 2 ? 1 : 0.72,
      gpu: gpus[lane.turn++ % gpus.length].name,
    }),
  },
];
