/** The list of runs, a hundred at a time, newest first. */
import { infiniteQueryOptions } from "@tanstack/react-query";
import { api } from "../../client/api";
import type { Run } from "../../client/models";

const PAGE = 100;

export const runPages = infiniteQueryOptions({
  queryKey: ["runs"],
  queryFn: ({ pageParam, signal }) => api.runs(PAGE, pageParam, { signal }),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.next_before,
});

/** Every word must stand somewhere in what the row shows. */
export function matches(run: Run, text: string, status: string): boolean {
  if (status !== "all" && run.status !== status) return false;
  const hay = [run.run_id, run.scenario, run.platform, run.source, `seed ${run.seed}`, ...run.schedulers]
    .join(" ")
    .toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => hay.includes(word));
}

interface Picked {
  a: string | null;
  b: string | null;
}

/** The first run picked is A, the second B; a third takes B's place; picking again lets go. */
export function pick({ a, b }: Picked, id: string): Picked {
  if (a === id) return { a: b, b: null };
  if (b === id) return { a, b: null };
  return a === null ? { a: id, b } : { a, b: id };
}
