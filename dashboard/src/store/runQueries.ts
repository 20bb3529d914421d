import { useQuery } from "@tanstack/react-query";
import { api } from "../client/api";
import { ApiError } from "../client/request";

/** Whether a text has the form of a run identifier. */
export const isRunId = (text: string | null): boolean => /^[0-9A-HJKMNP-TV-Z]{26}$/.test(text ?? "");

/** Query for the difference of two runs; disabled unless they are different runs. */
export function useDiff(a: string | null, b: string | null) {
  return useQuery({
    queryKey: ["diff", a, b],
    queryFn: ({ signal }) => api.diff(a as string, b as string, { signal }),
    enabled: isRunId(a) && isRunId(b) && a !== b,
    staleTime: 10_000,
  });
}

/** Whether the error says that the run does not exist. */
export const isUnknownRun = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 404 || error.status === 422);
