/** Differences between two schedules of the same tasks, as numbers for a summary. */
import type { GanttDiff } from "../client/models";
import { mean } from "./statistics";

interface TaskChange {
  /** Identifier of the task in the second schedule. */
  task: number;
  /** Seconds that it ends later in the second schedule; negative for earlier. */
  seconds: number;
}

interface GanttChange {
  tasks: number;
  moved: number;
  earlier: number;
  later: number;
  /** Mean change of the finish in seconds. */
  mean: number;
  /** The tasks whose finish changes most. */
  largest: readonly TaskChange[];
}

/** Changes below this many seconds are rounding. */
const ROUNDING = 1e-9;

export function ganttChange(diff: GanttDiff, most = 5): GanttChange {
  const tasks = new Map(diff.b.ordinal.map((ordinal, i) => [ordinal, diff.b.task_id[i] as number]));
  const changes = diff.ordinal.map((ordinal, i) => ({
    task: tasks.get(ordinal) as number,
    seconds: diff.finish_difference[i] as number,
  }));
  return {
    tasks: diff.ordinal.length,
    moved: diff.moved.filter(Boolean).length,
    earlier: changes.filter((one) => one.seconds < -ROUNDING).length,
    later: changes.filter((one) => one.seconds > ROUNDING).length,
    mean: mean(diff.finish_difference),
    largest: changes
      .filter((one) => Math.abs(one.seconds) > ROUNDING)
      .sort((x, y) => Math.abs(y.seconds) - Math.abs(x.seconds))
      .slice(0, most),
  };
}
