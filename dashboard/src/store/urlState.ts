/** State of the page in the query string. Invalid values fall back to the default, so that every link opens. */

import type { ThemeName } from "../lib/designTokens";
import { DEFAULT_METRIC, METRICS } from "../lib/metrics";

export type Range =
  | { kind: "last"; seconds: number }
  | { kind: "all" }
  | { kind: "fixed"; from: number; to: number };

export const RANGES: readonly { key: string; label: string; range: Range }[] = [
  { key: "1m", label: "1m", range: { kind: "last", seconds: 60 } },
  { key: "5m", label: "5m", range: { kind: "last", seconds: 300 } },
  { key: "15m", label: "15m", range: { kind: "last", seconds: 900 } },
  { key: "all", label: "All", range: { kind: "all" } },
];

export interface UrlState {
  range: Range;
  /** Sequence number at which the view is frozen; null while it is live. */
  freeze: number | null;
  /** Visible schedulers; null for all. */
  visible: readonly string[] | null;
  metric: string;
  /** Scale of the race; null chooses by the values. */
  scale: "log" | "linear" | null;
  /** Null uses the stored choice. */
  theme: ThemeName | null;
  /** Scheduler of the Gantt chart, workload and correlations; null for the leader. */
  focus: string | null;
  /** Second scheduler of the Gantt chart; null for the slowest one. */
  beside: string | null;
  /** Task whose details are open. */
  task: number | null;
  /** Identifiers of the two runs of /diff. */
  a: string | null;
  b: string | null;
  /** Places of the widgets of this view, instead of the stored ones; see `widgetLayout`. */
  layout: string | null;
  /** Changed settings of the what-if analysis. */
  whatif: string | null;
  /** Choices of the workspace, by the names in `WORKSPACE_KEYS`. */
  workspace: Readonly<Record<string, string>>;
}

/** Parameters of the workspace: runs, sweeps, curves, axes and filters. */
const WORKSPACE_KEYS: readonly string[] = ["runs", "sweeps", "x", "y", "by", "axes", "keep", "color"];

export const DEFAULTS: UrlState = {
  range: { kind: "last", seconds: 60 },
  freeze: null,
  visible: null,
  metric: DEFAULT_METRIC.key,
  scale: null,
  theme: null,
  focus: null,
  beside: null,
  task: null,
  a: null,
  b: null,
  layout: null,
  whatif: null,
  workspace: {},
};

function parseRange(text: string | null): Range {
  const named = RANGES.find((item) => item.key === text);
  if (named) return named.range;
  const match = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text ?? "");
  const [from, to] = [Number(match?.[1]), Number(match?.[2])];
  return match && to > from ? { kind: "fixed", from, to } : DEFAULTS.range;
}

export function rangeKey(range: Range): string {
  if (range.kind === "fixed") return `${Number(range.from.toFixed(3))}-${Number(range.to.toFixed(3))}`;
  if (range.kind === "all") return "all";
  return RANGES.find((item) => item.range.kind === "last" && item.range.seconds === range.seconds)?.key ?? "1m";
}

function whole(text: string | null): number | null {
  const value = Number(text);
  return text !== null && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

export function parseQuery(search: string): UrlState {
  const query = new URLSearchParams(search);
  const theme = query.get("theme");
  const metric = query.get("metric");
  const visible = query.get("s");
  const scale = query.get("scale");
  return {
    range: parseRange(query.get("range")),
    freeze: whole(query.get("freeze")),
    visible: visible === null ? null : visible.split(",").filter(Boolean),
    metric: METRICS.some((item) => item.key === metric) ? (metric as string) : DEFAULTS.metric,
    scale: scale === "log" || scale === "linear" ? scale : null,
    theme: theme === "dark" || theme === "light" ? theme : null,
    focus: query.get("focus") || null,
    beside: query.get("beside") || null,
    task: whole(query.get("task")),
    a: query.get("a") || null,
    b: query.get("b") || null,
    layout: query.get("layout") || null,
    whatif: query.get("whatif") || null,
    workspace: Object.fromEntries([...query].filter(([key, value]) => WORKSPACE_KEYS.includes(key) && value)),
  };
}

export function formatQuery(state: UrlState): string {
  const query = new URLSearchParams();
  const range = rangeKey(state.range);
  if (range !== rangeKey(DEFAULTS.range)) query.set("range", range);
  if (state.freeze !== null) query.set("freeze", String(state.freeze));
  if (state.visible !== null) query.set("s", state.visible.join(","));
  if (state.metric !== DEFAULTS.metric) query.set("metric", state.metric);
  if (state.scale !== null) query.set("scale", state.scale);
  if (state.theme !== null) query.set("theme", state.theme);
  if (state.focus !== null) query.set("focus", state.focus);
  if (state.beside !== null) query.set("beside", state.beside);
  if (state.task !== null) query.set("task", String(state.task));
  if (state.a !== null) query.set("a", state.a);
  if (state.b !== null) query.set("b", state.b);
  if (state.layout !== null) query.set("layout", state.layout);
  if (state.whatif !== null) query.set("whatif", state.whatif);
  for (const [key, value] of Object.entries(state.workspace)) query.set(key, value);
  const text = query.toString().replaceAll("%2C", ",").replaceAll("%3A", ":").replaceAll("%7E", "~");
  return text ? `?${text}` : "";
}
