import { useMemo } from "react";
import { linearScale, logScale, logTicks } from "../../charts/canvasAxes";
import { type Bin, Histogram } from "../../charts/Histogram";
import { type ScatterAxis, ScatterChart } from "../../charts/ScatterChart";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { shareColor } from "../../lib/colorScales";
import { compact, count, tick } from "../../lib/format";
import type { Cell, TableData } from "../../lib/tableData";
import type { RecentTask } from "../../store/recentTasks";
import { useFocus } from "../../store/selectors";
import { setUi, useTheme } from "../../store/uiStore";
import { useTasksInRange } from "./useTasksInRange";

/** Most points; more would overlap. */
const POINTS = 420;
const BINS = 12;
const ENOUGH = 10;

const INTENSITY: ScatterAxis = {
  title: "intensity I",
  ticks: [0, 0.25, 0.5, 0.75, 1],
  format: tick,
  scale: (from, to) => linearScale(0, 1, from, to),
};

function bounds(tasks: readonly RecentTask[]): [number, number] {
  let [low, high] = [Number.POSITIVE_INFINITY, 0];
  for (const { size } of tasks) {
    low = Math.min(low, size);
    high = Math.max(high, size);
  }
  // Edges at 1, 2 or 5 times a power of ten, so that bins do not move with every new task.
  const marks = logTicks(Math.max(low, 1e-6) / 10, Math.max(high, 2) * 10);
  return [marks.findLast((mark) => mark <= low) ?? low, marks.find((mark) => mark >= high) ?? high];
}

export function logBins(sizes: readonly number[], low: number, high: number, bins = BINS): Bin[] {
  const step = Math.log(high / low) / bins;
  const edges = Array.from({ length: bins + 1 }, (_, i) => low * Math.exp(i * step));
  const counts = new Array<number>(bins).fill(0);
  for (const size of sizes) {
    const at = Math.min(bins - 1, Math.max(0, Math.floor(Math.log(size / low) / step)));
    counts[at] = (counts[at] ?? 0) + 1;
  }
  return counts.map((n, i) => ({ low: edges[i] as number, high: edges[i + 1] as number, n }));
}

function ShareRamp() {
  const theme = useTheme();
  return (
    <span className="flex items-center gap-2 text-faint max-sm:hidden">
      CPU
      <span className="flex h-2 overflow-hidden rounded-[2px]">
        {[0, 0.17, 0.33, 0.5, 0.67, 0.83, 1].map((share) => (
          <i key={share} className="w-2.5" style={{ background: shareColor(share, theme) }} />
        ))}
      </span>
      GPU
    </span>
  );
}

/** Histogram of task sizes and scatter chart of size against compute intensity. */
export function WorkloadCharts() {
  const theme = useTheme();
  const focus = useFocus();
  const tasks = useTasksInRange();
  const state = useLiveBody({ shape: "bars", have: tasks.length, need: ENOUGH });
  const { bins, points, size } = useMemo(() => {
    const [low, high] = bounds(tasks);
    const axis: ScatterAxis = {
      title: "size N (log)",
      ticks: logTicks(low, high),
      format: compact,
      scale: (a, b) => logScale(low, high, a, b),
    };
    return {
      bins: logBins(
        tasks.map((task) => task.size),
        low,
        high,
      ),
      size: axis,
      points: tasks.slice(-POINTS).map((task) => ({
        x: task.size,
        y: task.compute_intensity,
        id: task.task_id,
        color: shareColor(task.results.get(focus?.name ?? "")?.fraction ?? 0.5, theme),
      })),
    };
  }, [tasks, focus, theme]);
  const table = (): TableData => ({
    name: "workload",
    columns: [
      { key: "task_id", label: "task", numeric: true, show: String },
      { key: "size", label: "size", numeric: true },
      { key: "intensity", label: "intensity", numeric: true },
      { key: "memory_mb", label: "memory, MB", numeric: true },
      { key: "gpu_share", label: `GPU share, ${focus?.label ?? ""}`, numeric: true },
    ],
    rows: tasks.map<Cell[]>((t) => [
      t.task_id,
      t.size,
      t.compute_intensity,
      t.memory_required,
      t.results.get(focus?.name ?? "")?.fraction ?? null,
    ]),
  });
  return (
    <Panel
      title="Workload"
      subtitle={`${count(tasks.length)} tasks`}
      state={state}
      tag={useLiveTag()}
      table={table}
      actions={
        <>
          <span className="truncate text-faint max-md:hidden">GPU share by {focus?.label}</span>
          <ShareRamp />
        </>
      }
      bodyClass="flex flex-col gap-4 md:flex-row md:gap-6"
    >
      <div className="flex min-h-48 min-w-0 flex-col md:min-h-0 md:basis-2/5">
        <p className="mb-1 text-muted">Task sizes, tasks per bin</p>
        <Histogram
          bins={bins}
          title="size N (log bins)"
          label={`Histogram of the sizes of ${tasks.length} tasks`}
        />
      </div>
      <div className="flex min-h-56 min-w-0 flex-1 flex-col md:min-h-0">
        <p className="mb-1 text-muted">Intensity I against size N, last {count(points.length)} tasks</p>
        <ScatterChart
          points={points}
          x={size}
          y={INTENSITY}
          label={`Intensity against size of ${points.length} tasks, coloured by GPU share`}
          onSelect={(task) => setUi({ task })}
        />
      </div>
    </Panel>
  );
}
