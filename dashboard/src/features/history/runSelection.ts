/** Query, search and selection of the list of runs. */
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

/** Whether a run has the status and contains every word of the search text. */
export function matches(run: Run, text: string, status: string): boolean {
  if (status !== "all" && run.status !== status) return false;
  const hay = [
    run.run_id,
    run.scenario,
    run.platform,
    run.source,
    run.name,
    run.note,
    `seed ${run.seed}`,
    ...run.tags,
    ...run.schedulers,
  ]
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

/**
 * Selects a run; a third replaces the newer one, and selecting a run again removes it. The older one is A, before:
 * identifiers of runs sort by time.
 */
export function pick({ a, b }: Picked, id: string): Picked {
  if (a === id) return { a: b, b: null };
  if (b === id) return { a, b: null };
  if (a === null) return { a: id, b };
  return a < id ? { a, b: id } : { a: id, b: a };
}
