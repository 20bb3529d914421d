import { describe, expect, it } from "vitest";
import type { Trends } from "../src/client/models";
import { arrivalRate, waitingTimes } from "../src/features/compare/runTimeline";

const bucket = (
  first_ordinal: number,
  first_arrival: number,
  latency: number | null,
): Trends["buckets"][number] => ({
  first_ordinal,
  last_ordinal: first_ordinal + 9,
  first_task_id: first_ordinal + 1,
  first_arrival,
  schedulers: {
    greedy: { n: 10, mean_latency: latency, mean_time: 0.5, mean_energy: 1, mean_cost: 1, mean_regret: 0 },
  },
});

describe("timeline of a run", () => {
  const buckets = [bucket(0, 1, 0.4), bucket(10, 3, 2.5), bucket(20, 3, null)];
  it("divides the tasks of a bucket by the time until the next one", () => {
    expect(arrivalRate(buckets)).toEqual([{ x: 2, y: 5 }]);
    expect(arrivalRate([])).toEqual([]);
  });
  it("takes waiting as latency without execution, never below zero", () => {
    expect(waitingTimes(buckets, "greedy")).toEqual([
      { x: 1, y: 0 },
      { x: 3, y: 2 },
    ]);
    expect(waitingTimes(buckets, "missing")).toEqual([]);
  });
});
