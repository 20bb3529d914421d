/** Form of a new run: its values, the request that they make, and the command that does the same. */
import type { Run, RunRequest, Scheduler, Slowdown } from "../../client/models";
import { ApiError } from "../../client/request";
import { slowdownOf } from "../../lib/slowdown";

export type Source = "scenario" | "trace" | "task";
export type ParameterValue = string | number | boolean | null;
export type MachineKind = "configured" | "platform" | "profile" | "yaml" | "same";

/** Fields of a slowdown as they are typed. */
export interface SlowdownForm {
  device: string;
  factor: string;
  start: string;
  until: string;
  every: string;
}

export const USUAL_SLOWDOWN: SlowdownForm = { device: "gpu_1", factor: "3", start: "20", until: "40", every: "" };

export interface Form {
  source: Source;
  scenario: string;
  /** Null for the scenario's or the trace's own. */
  load: number | null;
  trace: string;
  repeat: boolean;
  machine: { kind: MachineKind; name: string };
  yaml: string;
  /** Null for devices that keep their speed. */
  slowdown: SlowdownForm | null;
  /** Schedulers that take part, with the parameters that differ from their own. */
  chosen: Readonly<Record<string, Readonly<Record<string, ParameterValue>>>>;
  seed: string;
  speed: string;
  name: string;
  tags: readonly string[];
  note: string;
  repeats: string | null;
}

const YAML_EXAMPLE = `name: lab
devices:
  - {name: cpu, kind: cpu}
  - {name: gpu, count: 2, memory: 24000}
`;

/** Schedulers that can take part in a live run: they decide when a task comes, or when a device is free. */
export const liveSchedulers = (schedulers: readonly Scheduler[]): Scheduler[] =>
  schedulers.filter((scheduler) => scheduler.protocol === "online" || scheduler.protocol === "central");

function parseSpec(spec: string): [string, Record<string, ParameterValue>] {
  const match = /^(\w+)\((.*)\)$/.exec(spec);
  if (!match) return [spec, {}];
  const values = (match[2] ?? "").split(",").flatMap((part): [string, ParameterValue][] => {
    const [key, text] = part.split("=").map((one) => one.trim());
    if (!key || text === undefined) return [];
    const known: Record<string, ParameterValue> = { True: true, False: false, None: null };
    return [
      [key, text in known ? (known[text] as ParameterValue) : Number.isNaN(Number(text)) ? text : Number(text)],
    ];
  });
  return [match[1] as string, Object.fromEntries(values)];
}

function slowdownForm(slowdown: Slowdown | null): SlowdownForm | null {
  if (!slowdown) return null;
  const { device, factor, start, until, every } = slowdown;
  return { device, factor: `${factor}`, start: `${start}`, until: `${until}`, every: every ? `${every}` : "" };
}

/** Scenario that a new form begins with: it tells schedulers apart within a minute. */
const FIRST_SCENARIO = "waves";

/** Form with the settings of the run that is live, or of an earlier one that it then repeats. */
export function formOf(
  run: Run | null,
  live: { schedulers: readonly string[]; seed: number; speed: number | null },
): Form {
  const scenario = run?.scenario ?? FIRST_SCENARIO;
  const trace = scenario.startsWith("trace:") ? scenario.slice(6) : "";
  const specs = run?.schedulers ?? live.schedulers;
  return {
    source: trace ? "trace" : "scenario",
    scenario: trace ? FIRST_SCENARIO : scenario,
    load: run?.load ?? null,
    trace,
    repeat: false,
    machine: { kind: run ? "same" : "configured", name: run?.platform ?? "" },
    yaml: YAML_EXAMPLE,
    slowdown: run ? slowdownForm(slowdownOf(run.config)) : null,
    chosen: Object.fromEntries(specs.map(parseSpec)),
    seed: String(run?.seed ?? live.seed),
    speed: String(live.speed ?? 1),
    name: run?.name ? `${run.name}, again` : "",
    tags: run?.tags ?? [],
    note: "",
    repeats: run?.run_id ?? null,
  };
}

function slowdownRequest({ device, every, ...rest }: SlowdownForm): NonNullable<RunRequest["slowdown"]> {
  const { factor, start, until } = rest;
  return {
    device: device.trim(),
    factor: Number(factor),
    start: Number(start),
    until: Number(until),
    ...(every.trim() ? { every: Number(every) } : {}),
  };
}

/** Request without the labels: what a preview needs. */
export function requestOf(form: Form): RunRequest {
  const { machine } = form;
  const number = (text: string) => (text.trim() === "" ? undefined : Number(text));
  const seed = number(form.seed);
  const speed = number(form.speed);
  return {
    repeat: form.source === "trace" && form.repeat,
    ...(form.repeats ? { repeats: form.repeats } : {}),
    ...(form.source === "trace" ? { trace: form.trace } : { scenario: form.scenario }),
    ...(form.load === null ? {} : { load: form.load }),
    ...(seed === undefined ? {} : { seed }),
    ...(speed === undefined ? {} : { speed }),
    ...(machine.kind === "platform" ? { platform: machine.name } : {}),
    ...(machine.kind === "profile" ? { profile: machine.name } : {}),
    ...(machine.kind === "yaml" ? { platform_yaml: form.yaml } : {}),
    ...(form.slowdown ? { slowdown: slowdownRequest(form.slowdown) } : {}),
    schedulers: Object.entries(form.chosen).map(([name, parameters]) => ({ name, parameters: { ...parameters } })),
  };
}

export function labelledRequest(form: Form): RunRequest {
  return { ...requestOf(form), name: form.name.trim(), tags: [...form.tags], note: form.note.trim() };
}

const quoted = (text: string): string => (/^[\w.,=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Command that begins the same run: `serve` where its options suffice, else a request to this server. */
export function commandOf(form: Form, origin: string): string {
  const request = labelledRequest(form);
  const plain =
    form.machine.kind === "configured" && !form.repeats && !form.name && !form.tags.length && !form.note.trim();
  if (!plain)
    return `curl -X POST ${origin}/api/simulation/runs -H 'content-type: application/json' -d ${quoted(JSON.stringify(request))}`;
  const specs = Object.entries(form.chosen).map(([name, parameters]) => {
    const inner = Object.entries(parameters).map(([key, value]) => `${key}=${literal(value)}`);
    return inner.length ? `${name}(${inner.join(", ")})` : name;
  });
  return [
    "hybrid-scheduler serve",
    form.source === "trace"
      ? `--trace ${quoted(form.trace)}${form.repeat ? " --repeat" : ""}`
      : `--scenario ${form.scenario}`,
    ...(form.load === null ? [] : [`--utilisation ${form.load}`]),
    `--seed ${form.seed}`,
    `--speed ${form.speed}`,
    `--schedulers ${quoted(specs.join(","))}`,
    ...(request.slowdown
      ? [
          `--slowdown ${quoted(
            Object.entries(request.slowdown)
              .map(([key, value]) => `${key}=${value}`)
              .join(","),
          )}`,
        ]
      : []),
  ].join(" ");
}

const literal = (value: ParameterValue): string =>
  value === null ? "None" : value === true ? "True" : value === false ? "False" : String(value);

interface FieldError {
  field: string;
  text: string;
}

/** Errors of a request by field, in words for the page. */
export function errorsOf(error: unknown): FieldError[] {
  if (!error) return [];
  if (!(error instanceof ApiError) || error.fields.length === 0)
    return [{ field: "", text: error instanceof Error ? error.message : "The request failed" }];
  return error.fields.map((one, index) => ({
    field: one.field,
    text: `must be ${one.allowed}, got ${one.got}.${index === 0 && error.hint ? ` ${error.hint}` : ""}`,
  }));
}

/** Fields that have a place of their own on the page; errors of others stand beside the button. */
const PLACES = [
  "load",
  "utilisation",
  "scenario",
  "trace",
  "platform",
  "profile",
  "schedulers",
  "slowdown",
  "seed",
  "speed",
  "name",
  "tags",
  "note",
];
const root = (field: string): string => field.replace("platform_yaml", "platform").split(".")[0] ?? "";

export const errorFor = (errors: readonly FieldError[], ...fields: string[]): string | null =>
  errors.find((one) => fields.includes(root(one.field)))?.text ?? null;

export const otherError = (errors: readonly FieldError[]): string | null => {
  const found = errors.find((one) => !PLACES.includes(root(one.field)));
  return found ? [found.field, found.text].filter(Boolean).join(": ") : null;
};
