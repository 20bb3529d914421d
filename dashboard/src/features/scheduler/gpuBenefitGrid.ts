/** Grid of tasks by size and intensity, with the mean GPU share and the GPU speed-up per cell. */
import type { RecentTask } from "../../store/recentTasks";

const SIZE_BINS = 10;
export const INTENSITY_BINS = 8;

export interface Cell {
  n: number;
  /** Mean share on the GPU; null without tasks. */
  share: number | null;
  /** Mean log2 of (CPU seconds ÷ GPU seconds) of the whole task, from the parts that ran. */
  speedup: number | null;
}

export interface GpuBenefitGrid {
  /** Edges of the size bins, logarithmic. */
  edges: number[];
  /** Rows from high to low intensity. */
  rows: Cell[][];
}

/** Time of the whole task on the CPU and on the GPU, from the parts that schedulers ran there. */
function wholes(task: RecentTask): { cpu: number; gpu: number } | null {
  let cpu: number | null = null;
  let gpu: number | null = null;
  let cpuShare = 0;
  let gpuShare = 0;
  for (const d of task.results.values()) {
    if (d.fraction === null) continue;
    // Larger parts contain less rounding and fixed cost.
    if (d.cpu_time && 1 - d.fraction > cpuShare) {
      cpuShare = 1 - d.fraction;
      cpu = d.cpu_time / cpuShare;
    }
    if (d.accelerator_time && d.fraction > gpuShare) {
      gpuShare = d.fraction;
      gpu = d.accelerator_time / gpuShare;
    }
  }
  return cpu !== null && gpu !== null ? { cpu, gpu } : null;
}

export function gpuBenefitGrid(tasks: readonly RecentTask[], scheduler: string): GpuBenefitGrid {
  const sizes = tasks.map((task) => task.size);
  const low = Math.min(...sizes);
  const high = Math.max(...sizes) * 1.0001;
  const step = Math.log(high / low) / SIZE_BINS || 1;
  const edges = Array.from({ length: SIZE_BINS + 1 }, (_, i) => low * Math.exp(i * step));
  const sums = Array.from({ length: INTENSITY_BINS }, () =>
    Array.from({ length: SIZE_BINS }, () => ({ n: 0, share: 0, shares: 0, logs: 0, speeds: 0 })),
  );
  for (const task of tasks) {
    const column = Math.min(SIZE_BINS - 1, Math.max(0, Math.floor(Math.log(task.size / low) / step)));
    const row =
      INTENSITY_BINS - 1 - Math.min(INTENSITY_BINS - 1, Math.floor(task.compute_intensity * INTENSITY_BINS));
    const cell = sums[row]?.[column];
    if (!cell) continue;
    const fraction = task.results.get(scheduler)?.fraction;
    cell.n += 1;
    if (fraction != null) {
      cell.share += fraction;
      cell.shares += 1;
    }
    const whole = wholes(task);
    if (whole) {
      cell.logs += Math.log2(whole.cpu / whole.gpu);
      cell.speeds += 1;
    }
  }
  return {
    edges,
    rows: sums.map((row) =>
      row.map((cell) => ({
        n: cell.n,
        share: cell.shares ? cell.share / cell.shares : null,
        speedup: cell.speeds ? cell.logs / cell.speeds : null,
      })),
    ),
  };
}

/** Break-even contour: for every row the first column with a positive value. */
export function contour(heat: GpuBenefitGrid, value: (cell: Cell) => number | null): (number | null)[] {
  return heat.rows.map((row) => {
    const first = row.findIndex((cell) => (value(cell) ?? Number.NEGATIVE_INFINITY) > 0);
    return first < 0 ? null : first;
  });
}
