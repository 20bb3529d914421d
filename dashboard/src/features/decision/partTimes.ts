/** Times of the CPU and the GPU part of a task as functions of the GPU share, from the parts that ran. */
import type { ResultRecord } from "../../client/resultRecords";

/** Result of a task that ran, with all numbers present. */
const NUMBERS = ["fraction", "time", "latency", "wait", "cpu_time", "accelerator_time"] as const;
export type Ran = ResultRecord & { [K in (typeof NUMBERS)[number]]: number };

export function ran(result: ResultRecord): result is Ran {
  return NUMBERS.every((key) => result[key] !== null);
}

export interface PartTimes {
  /** Seconds of the whole task on the CPU; null where no scheduler used it. */
  cpu: number | null;
  /** Seconds of the whole task on a GPU, and the fixed cost of a part. */
  gpu: number | null;
  fixed: number;
}

/** Parts are affine in the share: two different ones determine slope and fixed cost, one only the slope. */
export function partTimes(results: readonly Ran[]): PartTimes {
  const onCpu = results.filter((r) => r.cpu_time > 0 && r.fraction < 1);
  const widest = onCpu.reduce<Ran | null>(
    (best, r) => (best === null || r.fraction < best.fraction ? r : best),
    null,
  );
  const onGpu = results
    .filter((r) => r.accelerator_time > 0 && r.fraction > 0)
    .sort((a, b) => a.fraction - b.fraction);
  const [first, last] = [onGpu[0], onGpu.at(-1)];
  let gpu: number | null = null;
  let fixed = 0;
  if (first && last) {
    const apart = last.fraction - first.fraction;
    gpu =
      apart > 0.02
        ? (last.accelerator_time - first.accelerator_time) / apart
        : last.accelerator_time / last.fraction;
    fixed = apart > 0.02 ? Math.max(0, last.accelerator_time - gpu * last.fraction) : 0;
    // Below a nanosecond the fixed cost is a rounding error.
    if (fixed < 1e-9 * Math.max(1, gpu)) fixed = 0;
  }
  return { cpu: widest ? widest.cpu_time / (1 - widest.fraction) : null, gpu, fixed };
}

export function timeAt(parts: PartTimes, share: number): number | null {
  const cpu = share < 1 ? (parts.cpu === null ? null : (1 - share) * parts.cpu) : 0;
  const gpu = share > 0 ? (parts.gpu === null ? null : parts.fixed + share * parts.gpu) : 0;
  return cpu === null || gpu === null ? null : Math.max(cpu, gpu);
}
