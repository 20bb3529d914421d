import { QueryClientProvider } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useLive } from "../store/liveStore";
import { queryClient } from "../store/queryClient";

// After an outage widgets on REST data should not wait for their next turn.
useLive.subscribe((now, before) => {
  if (now.connection.phase === "live" && before.connection.phase !== "live" && before.updatedAt !== null) {
    void queryClient.invalidateQueries();
  }
});

/** REST reads for everything inside. Loaded beside the first view, so that the shell stays small. */
export default function Data({ children }: { children: ReactNode }) {
  return <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>;
}
