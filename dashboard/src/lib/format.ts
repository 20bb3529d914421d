/**
 * Formatting of numbers: three significant digits, a fitting unit, an en dash for missing values.
 * Every displayed number of the dashboard is formatted here.
 */
export const NOTHING = "–";
const MINUS = "−";

export type Quantity = "time" | "energy" | "cost" | "memory" | "share" | "plain";

interface Step {
  factor: number;
  unit: string;
}

const steps = (...units: readonly [factor: number, unit: string][]): readonly Step[] =>
  units.map(([factor, unit]) => ({ factor, unit }));

const STEPS: Record<Quantity, readonly Step[]> = {
  time: steps([1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]),
  energy: steps([1e6, "MJ"], [1e3, "kJ"], [1, "J"], [1e-3, "mJ"], [1e-6, "µJ"]),
  cost: steps([1, "$"], [1e-3, "m$"], [1e-6, "µ$"], [1e-9, "n$"]),
  memory: steps([1e3, "GB"], [1, "MB"], [1e-3, "kB"]),
  share: steps([0.01, "%"]),
  plain: steps([1, ""]),
};

export function isNumber(value: number | null | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function grouped(text: string): string {
  const [whole = "", rest] = text.split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return rest === undefined ? spaced : `${spaced}.${rest}`;
}

/** Rounds to `digits` significant digits but never rounds whole digits; groups thousands. */
export function significant(value: number | null | undefined, digits = 3): string {
  if (!isNumber(value)) return NOTHING;
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  // 999.6 rounds up to 1,000, so the magnitude is that of the rounded value.
  const rounded = Number(value.toPrecision(digits));
  const after = Math.floor(Math.log10(Math.abs(rounded)));
  const size = Number.isFinite(after) ? after : magnitude;
  if (size < -5) return value.toExponential(digits - 1).replace("-", MINUS);
  const places = Math.min(Math.max(digits - 1 - size, 0), 12);
  const text = grouped(Math.abs(rounded).toFixed(places));
  return value < 0 ? MINUS + text : text;
}

/** Unit in which a value is displayed. */
export function stepFor(value: number, quantity: Quantity): Step {
  const steps = STEPS[quantity];
  const size = Math.abs(Number(value.toPrecision(3)));
  if (size === 0) return steps.find((step) => step.factor === 1) ?? { factor: 1, unit: "" };
  return steps.find((step) => size >= step.factor) ?? steps[steps.length - 1] ?? { factor: 1, unit: "" };
}

const baseUnit = (quantity: Quantity): string => STEPS[quantity].find((step) => step.factor === 1)?.unit ?? "";

export interface Parts {
  value: string;
  unit: string;
}

export function parts(value: number | null | undefined, quantity: Quantity): Parts {
  if (!isNumber(value)) return { value: NOTHING, unit: "" };
  const step = stepFor(value, quantity);
  // Differences of times that are this small are rounding errors.
  if (quantity !== "plain" && Math.abs(value) < 1e-3 * step.factor) return { value: "0", unit: baseUnit(quantity) };
  return { value: significant(value / step.factor), unit: step.unit };
}

export function quantity(value: number | null | undefined, kind: Quantity): string {
  const { value: number, unit } = parts(value, kind);
  return unit ? `${number} ${unit}` : number;
}

export const time = (seconds: number | null | undefined): string => quantity(seconds, "time");
export const energy = (joules: number | null | undefined): string => quantity(joules, "energy");
export const cost = (dollars: number | null | undefined): string => quantity(dollars, "cost");
export const memory = (megabytes: number | null | undefined): string => quantity(megabytes, "memory");

/** A position on the clock of a run, to a tenth of a second: rounded to three digits it would lie beside its mark. */
export const moment = (seconds: number | null | undefined): string =>
  isNumber(seconds) && Math.abs(seconds) >= 100 ? `${grouped(seconds.toFixed(1))} s` : time(seconds);

/** Value and half width in one unit: "283 ± 1.6 ms". Only the value where it is exact or the half width unknown. */
export function estimate(
  value: number | null | undefined,
  half: number | null | undefined,
  kind: Quantity,
): string {
  if (!isNumber(value)) return NOTHING;
  if (!isNumber(half) || half === 0) return quantity(value, kind);
  const step = stepFor(Math.max(Math.abs(value), half), kind);
  const text = `${significant(value / step.factor)} ± ${significant(half / step.factor, 2)}`;
  return step.unit ? `${text} ${step.unit}` : text;
}

export function signed(value: number | null | undefined, kind: Quantity): string {
  if (!isNumber(value)) return NOTHING;
  const text = quantity(value, kind);
  return value > 0 ? `+${text}` : text;
}

/** A share of one as per cent: "55.3 %". */
export function percent(share: number | null | undefined, digits = 3): string {
  if (!isNumber(share)) return NOTHING;
  // Shares that are this small are rounding errors.
  return `${significant(Math.abs(share) < 1e-6 ? 0 : share * 100, digits)} %`;
}

/** A multiple in words, as the server writes it: "1.8 ×", "126 ×". */
export const times = (value: number | null | undefined): string =>
  isNumber(value) ? `${value >= 100 ? count(value) : significant(value, 2)} ×` : NOTHING;

/** A ratio of two numbers: "1.02×". */
export function ratio(value: number | null | undefined): string {
  return isNumber(value) ? `${significant(value)}×` : NOTHING;
}

export function ratioEstimate(value: number | null | undefined, half: number | null | undefined): string {
  if (!isNumber(value)) return NOTHING;
  if (!isNumber(half) || half === 0) return ratio(value);
  return `${significant(value)}× ± ${significant(half, 2)}`;
}

export function count(value: number | null | undefined): string {
  if (!isNumber(value)) return NOTHING;
  return (value < 0 ? MINUS : "") + grouped(Math.abs(Math.round(value)).toString());
}

/** Axis labels and settings: no trailing zeros, "2" and not "2.00". */
export function tick(value: number, digits = 3): string {
  return significant(value, digits)
    .replace(/(\.\d*?)0+$/, "$1")
    .replace(/\.$/, "");
}

/** Short axis labels: 2,000 → "2k". */
export function compact(value: number): string {
  if (!Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  if (size >= 1e6) return `${tick(value / 1e6, 2)}M`;
  if (size >= 1e3) return `${tick(value / 1e3, size >= 1e4 ? 3 : 2)}k`;
  return tick(value, 3);
}

export function clock(unixSeconds: number | null | undefined): string {
  if (!isNumber(unixSeconds)) return NOTHING;
  return new Date(unixSeconds * 1000).toTimeString().slice(0, 8);
}

export function date(unixSeconds: number | null | undefined): string {
  if (!isNumber(unixSeconds)) return NOTHING;
  const day = new Date(unixSeconds * 1000);
  const month = day.toLocaleString("en", { month: "short" });
  return `${day.getDate()} ${month} ${day.toTimeString().slice(0, 5)}`;
}

/** Duration in rounded units: "12 s", "3 min". */
export function age(seconds: number): string {
  if (!Number.isFinite(seconds)) return NOTHING;
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** Display name of a device: "gpu_2" → "GPU 2", "cpu_wide" → "CPU wide". An only CPU has no number. */
export function device(name: string, cpus = 1): string {
  const match = /^([a-z]+)(?:_(\d+|[a-z]+))?$/i.exec(name);
  if (!match) return name;
  const kind = (match[1] ?? "").toUpperCase();
  const only = kind === "CPU" && cpus === 1 && /^\d*$/.test(match[2] ?? "");
  return match[2] === undefined || only ? kind : `${kind} ${match[2]}`;
}

/** The last eight characters of a long run identifier, which tell runs apart. */
export const shortRunId = (runId: string | null): string =>
  runId ? (runId.length > 12 ? `…${runId.slice(-8)}` : runId) : "none";

/** Name of a run in lists, which have its scenario in another column: its own, or its short identifier. */
export const runName = ({ name, run_id }: { name: string; run_id: string }): string => name || shortRunId(run_id);

/** Heading of a run, also of its report: its own name, or its scenario and seed. */
export const runTitle = ({ name, scenario, seed }: { name: string; scenario: string; seed: number }): string =>
  name || `${scenario}, seed ${seed}`;
