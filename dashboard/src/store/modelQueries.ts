/** Query for the learned models of the run. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../client/api";
import { usePollInterval } from "./queryClient";

/** `limit` is the largest number of newest versions of each model. */
export function useModels(pollMs: number, limit: number) {
  const poll = usePollInterval(pollMs);
  return useQuery({
    queryKey: ["models", limit],
    queryFn: ({ signal }) => api.models(limit, { signal }),
    refetchInterval: poll,
  });
}
