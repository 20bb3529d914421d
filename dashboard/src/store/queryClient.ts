/** Client of REST queries and their poll interval. */
import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "../client/request";
import { useLive } from "./liveStore";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      // A rejected request is not repeated; an unreachable server is tried twice more.
      retry: (tries, error) =>
        tries < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      retryDelay: (tries) => Math.min(1500, 250 * 2 ** tries),
    },
  },
});

/** Poll interval of a REST query; false while the view is frozen, the run is not running or the server is unreachable. */
export function usePollInterval(ms = 5_000): number | false {
  const frozen = useLive((s) => s.frozen);
  const running = useLive((s) => s.state === "running");
  const live = useLive((s) => s.connection.phase === "live");
  return frozen || !running || !live ? false : ms;
}
