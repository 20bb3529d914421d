/** Command that repeats a run, from its stored configuration. */
import type { Run } from "../../client/models";

type Settings = Readonly<Record<string, unknown>>;

const inner = (value: unknown): Settings =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Settings) : {};

/** Text quoted for a shell where it has special characters. */
const quoted = (text: string): string => (/^[\w.,=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

interface Replay {
  command: string;
  /** Whether the mix of tasks changes during the run, at a point that depends on the number of tasks. */
  shifts: boolean;
}

/** Null for a measured run, whose times cannot be repeated. */
export function replayCommand(run: Run): Replay | null {
  if (run.source !== "simulated") return null;
  const { config } = run;
  const scenario = inner(config.scenario);
  const physics = inner(config.physics).name;
  const sigma = inner(config.noise).sigma;
  const objective = Object.entries(inner(config.objective)).filter(([, weight]) => weight !== 0);
  const parts = [
    "hybrid-scheduler simulate",
    `--scenario ${quoted(run.scenario)}`,
    `--utilisation ${run.load}`,
    `--seed ${run.seed}`,
    `--tasks ${Math.max(1, run.tasks)}`,
    `--platform ${quoted(run.platform)}`,
    `--schedulers ${quoted(run.schedulers.join(","))}`,
  ];
  if (typeof physics === "string" && physics !== scenario.physics) parts.push(`--physics ${quoted(physics)}`);
  if (typeof sigma === "number" && sigma > 0) parts.push(`--noise ${sigma}`);
  if (typeof config.memory_policy === "string" && config.memory_policy !== "clip")
    parts.push(`--memory-policy ${quoted(config.memory_policy)}`);
  if (objective.length > 1 || (objective[0] && objective[0][0] !== "latency"))
    parts.push(`--objective ${objective.map(([name, weight]) => `${name}=${weight}`).join(",")}`);
  return { command: parts.join(" "), shifts: scenario.then !== null && scenario.then !== undefined };
}
