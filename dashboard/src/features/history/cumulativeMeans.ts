/** Mean values of every scheduler over the first tasks of a run, from trend buckets and single results. */
import type { Trends } from "../../client/models";
import type { ResultRecord } from "../../client/resultRecords";
import { deviation, tQuantile } from "../../lib/statistics";

export type Bucket = Trends["buckets"][number];

export interface Means {
  /** Number of tasks in the means. */
  n: number;
  latency: number | null;
  time: number | null;
  energy: number | null;
  cost: number | null;
  regret: number | null;
  /** Half width of the 95 % interval of the regret, by batch means over complete buckets; null for fewer than ten. */
  half: number | null;
}

/** Least number of batches for an interval. */
const BATCHES = 10;
const FIELDS = ["latency", "time", "energy", "cost", "regret"] as const;
type Field = (typeof FIELDS)[number];

export const totalOf = (buckets: readonly Bucket[]): number => (buckets.at(-1)?.last_ordinal ?? -1) + 1;

/** Number of tasks at the end of each bucket; the playhead snaps to these. */
export const endsOf = (buckets: readonly Bucket[]): number[] => buckets.map((bucket) => bucket.last_ordinal + 1);

/** Bucket end nearest to a position. */
export function nearest(ends: readonly number[], at: number): number {
  let best = ends[0] ?? 0;
  for (const end of ends) if (Math.abs(end - at) < Math.abs(best - at)) best = end;
  return best;
}

/** Bucket that contains the playhead; null where the playhead is at the end of a bucket. */
export function partialBucket(buckets: readonly Bucket[], at: number): Bucket | null {
  return buckets.find((bucket) => bucket.first_ordinal < at && bucket.last_ordinal + 1 > at) ?? null;
}

/** Position in the run, from 1, of a task id. Ids have gaps where measured runs were stored meanwhile. */
export function positionOf(buckets: readonly Bucket[], task: number): number {
  const bucket = buckets.findLast((one) => one.first_task_id <= task);
  if (!bucket) return 0;
  return Math.min(bucket.first_ordinal + task - bucket.first_task_id, bucket.last_ordinal) + 1;
}

/** Task id at a position of the run; null in a bucket with a gap. */
export function idAt(buckets: readonly Bucket[], at: number): number | null {
  const i = buckets.findIndex((one) => one.last_ordinal + 1 >= at);
  const [bucket, next] = [buckets[i], buckets[i + 1]];
  if (!bucket) return null;
  const width = bucket.last_ordinal - bucket.first_ordinal + 1;
  if (next && next.first_task_id - bucket.first_task_id !== width) return null;
  return bucket.first_task_id + at - 1 - bucket.first_ordinal;
}

class Sum {
  private readonly sums = new Map<Field, { total: number; n: number }>();
  readonly regrets: number[] = [];
  n = 0;

  add(field: Field, value: number | null | undefined, weight = 1): void {
    if (value === null || value === undefined || !Number.isFinite(value)) return;
    const sum = this.sums.get(field) ?? { total: 0, n: 0 };
    this.sums.set(field, { total: sum.total + value * weight, n: sum.n + weight });
  }

  mean(field: Field): number | null {
    const sum = this.sums.get(field);
    return sum && sum.n > 0 ? sum.total / sum.n : null;
  }

  half(): number | null {
    const k = this.regrets.length;
    return k < BATCHES ? null : (tQuantile(k - 1) * deviation(this.regrets)) / Math.sqrt(k);
  }
}

/** Results of the first `count` tasks; the rows are in task order. */
function firstTasks(rows: readonly ResultRecord[], count: number): ResultRecord[] {
  const seen = new Set<number>();
  const kept: ResultRecord[] = [];
  for (const row of rows) {
    seen.add(row.task_id);
    if (seen.size > count) break;
    kept.push(row);
  }
  return kept;
}

export function cumulativeMeans(
  buckets: readonly Bucket[],
  at: number,
  rows: readonly ResultRecord[] = [],
): ReadonlyMap<string, Means> {
  const sums = new Map<string, Sum>();
  const of = (name: string): Sum => {
    let sum = sums.get(name);
    if (!sum) {
      sum = new Sum();
      sums.set(name, sum);
    }
    return sum;
  };
  for (const bucket of buckets) {
    if (bucket.last_ordinal + 1 > at) break;
    for (const [name, point] of Object.entries(bucket.schedulers)) {
      const sum = of(name);
      for (const field of FIELDS) sum.add(field, point[`mean_${field}`], point.n);
      sum.n += point.n;
      if (point.mean_regret !== null) sum.regrets.push(point.mean_regret);
    }
  }
  const cut = partialBucket(buckets, at);
  if (cut) {
    for (const row of firstTasks(rows, at - cut.first_ordinal)) {
      if (row.status !== "ran") continue;
      const sum = of(row.scheduler);
      for (const field of FIELDS) sum.add(field, row[field]);
      sum.n += 1;
    }
  }
  return new Map(
    [...sums].map(([name, sum]) => [
      name,
      {
        n: sum.n,
        latency: sum.mean("latency"),
        time: sum.mean("time"),
        energy: sum.mean("energy"),
        cost: sum.mean("cost"),
        regret: sum.mean("regret"),
        half: sum.half(),
      },
    ]),
  );
}
