import { useQuery } from "@tanstack/react-query";
import { api } from "../client/api";
import { ApiError } from "../client/request";

/** What can be a run at all: asking for anything else only makes the server refuse. */
export const isRunId = (text: string | null): boolean => /^[0-9A-HJKMNP-TV-Z]{26}$/.test(text ?? "");

/** Two runs side by side. Asked only where there are two different ones. */
export function useDiff(a: string | null, b: string | null) {
  return useQuery({
    queryKey: ["diff", a, b],
    queryFn: ({ signal }) => api.diff(a as string, b as string, { signal }),
    enabled: isRunId(a) && isRunId(b) && a !== b,
    staleTime: 10_000,
  });
}

/** The server knows no such run, or the name cannot be one. */
export const isUnknownRun = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 404 || error.status === 422);
