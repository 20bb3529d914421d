/** Query for the learned models of the run. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../client/api";
import { usePollInterval } from "./queryClient";

export function useModels(pollMs: number) {
  const poll = usePollInterval(pollMs);
  return useQuery({
    queryKey: ["models"],
    queryFn: ({ signal }) => api.models({ signal }),
    refetchInterval: poll,
  });
}
