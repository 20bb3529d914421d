/** REST reads that are not part of the stream. */
import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "../client/request";
import { useLive } from "./liveStore";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      // A wrong question stays wrong; an unreachable server is worth two more tries.
      retry: (tries, error) =>
        tries < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      retryDelay: (tries) => Math.min(1500, 250 * 2 ** tries),
    },
  },
});

/** How often a widget on REST data asks again: not at all while the view is frozen, the run stands still or nobody answers. */
export function usePollInterval(ms = 5_000): number | false {
  const frozen = useLive((s) => s.frozen);
  const running = useLive((s) => s.state === "running");
  const live = useLive((s) => s.connection.phase === "live");
  return frozen || !running || !live ? false : ms;
}
