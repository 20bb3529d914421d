/** Client of REST queries and their poll interval. */
import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "../client/request";
import { useLive } from "./liveStore";

/** A rejected request is not repeated; an unreachable server is tried twice more. */
function retry(tries: number, error: Error): boolean {
  return tries < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500);
}

/** Of computations: a worker that compiles its code, or is busy, answers 503 and says so. */
export const RETRY_WHILE_BUSY = {
  retry: (tries: number, error: Error) =>
    error instanceof ApiError && error.status === 503 ? tries < 100 : retry(tries, error),
  retryDelay: 2_000,
};

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      retry,
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
