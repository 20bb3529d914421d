/** Choices of the workspace: read from the address and written to it. */
import { useMemo } from "react";
import { useLive } from "../../store/liveStore";
import { setUi, useUi } from "../../store/uiStore";

/** Bounds of a filter: numbers, or the names of the first and last category. */
export type Bounds = readonly [string, string];

export interface WorkspaceState {
  runs: readonly string[];
  sweeps: readonly string[];
  /** Horizontal axis of the curves. */
  x: "task" | "time" | "load";
  /** Metric of the curves, a key of `CURVE_METRICS`. */
  y: string;
  /** Scheduler of the curves: a name, "leader" of each run, or "all". */
  by: string;
  /** Axes of the parallel coordinates, in order; null for those that vary. */
  axes: readonly string[] | null;
  keep: Readonly<Record<string, Bounds>>;
  color: "scheduler" | "source";
}

const list = (text: string | undefined): string[] => [...new Set((text ?? "").split(",").filter(Boolean))];

export function parseWorkspace(given: Readonly<Record<string, string>>): WorkspaceState {
  const keep: Record<string, Bounds> = {};
  for (const item of (given.keep ?? "").split(";")) {
    const [key = "", bounds = ""] = item.split(":");
    const [low, high] = bounds.split("~");
    if (key && low && high) keep[key] = [low, high];
  }
  return {
    runs: list(given.runs),
    sweeps: list(given.sweeps),
    x: given.x === "time" || given.x === "load" ? given.x : "task",
    y: given.y ?? "latency",
    by: given.by ?? "leader",
    axes: given.axes ? list(given.axes) : null,
    keep,
    color: given.color === "source" ? "source" : "scheduler",
  };
}

/** Parameters of the address; defaults are left out. */
export function formatWorkspace(state: WorkspaceState): Record<string, string> {
  const keep = Object.entries(state.keep).map(([key, bounds]) => `${key}:${bounds.join("~")}`);
  const all = {
    runs: state.runs.join(","),
    sweeps: state.sweeps.join(","),
    x: state.x === "task" ? "" : state.x,
    y: state.y === "latency" ? "" : state.y,
    by: state.by === "leader" ? "" : state.by,
    axes: state.axes?.join(",") ?? "",
    keep: keep.join(";"),
    color: state.color === "source" ? state.color : "",
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
}

/** The choices of the address; without any the live run is shown. */
const chosenOr = (given: Readonly<Record<string, string>>, live: string | null): WorkspaceState => {
  const state = parseWorkspace(given);
  return live && given.runs === undefined && given.sweeps === undefined ? { ...state, runs: [live] } : state;
};

export function useWorkspaceState(): WorkspaceState {
  const given = useUi((s) => s.workspace);
  const live = useLive((s) => s.runId);
  return useMemo(() => chosenOr(given, live), [given, live]);
}

export function setWorkspace(change: Partial<WorkspaceState>): void {
  const current = chosenOr(useUi.getState().workspace, useLive.getState().runId);
  setUi({ workspace: formatWorkspace({ ...current, ...change }) });
}

/** The list without the item, or with it at the end. */
export const toggled = (items: readonly string[], item: string): string[] =>
  items.includes(item) ? items.filter((one) => one !== item) : [...items, item];
