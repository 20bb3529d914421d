/** Query and search of the list of runs. */
import { infiniteQueryOptions } from "@tanstack/react-query";
import { api } from "../client/api";
import type { Run } from "../client/models";

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
