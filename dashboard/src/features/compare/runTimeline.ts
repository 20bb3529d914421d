/** Load and waiting times along a run, from the buckets of equally many tasks that the server keeps of it. */
import type { Trends } from "../../client/models";

type Bucket = Trends["buckets"][number];

interface Point {
  x: number;
  y: number;
}

/** Tasks that arrived per second, between the first arrivals of neighbouring buckets. */
export function arrivalRate(buckets: readonly Bucket[]): Point[] {
  return buckets.slice(0, -1).flatMap((bucket, index) => {
    const seconds = (buckets[index + 1]?.first_arrival ?? 0) - bucket.first_arrival;
    const tasks = bucket.last_ordinal - bucket.first_ordinal + 1;
    return seconds > 0 ? [{ x: bucket.first_arrival + seconds / 2, y: tasks / seconds }] : [];
  });
}

/** Mean time that the tasks of each bucket waited in the queues of a scheduler. */
export function waitingTimes(buckets: readonly Bucket[], scheduler: string): Point[] {
  return buckets.flatMap(({ first_arrival, schedulers }) => {
    const { mean_latency: latency, mean_time: time } = schedulers[scheduler] ?? {};
    return latency == null || time == null ? [] : [{ x: first_arrival, y: Math.max(0, latency - time) }];
  });
}
