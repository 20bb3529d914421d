import { QueryClientProvider } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ChartProvider } from "../components/ChartProvider";
import { useLive } from "../store/liveStore";
import { queryClient } from "../store/queryClient";

// After an outage widgets on REST data refetch at once instead of at their next interval.
useLive.subscribe((now, before) => {
  if (now.connection.phase === "live" && before.connection.phase !== "live" && before.updatedAt !== null) {
    void queryClient.invalidateQueries();
  }
});

/** REST queries and chart settings for the views inside. Loaded beside the first view, so that the shell stays small. */
export default function ViewProviders({ children }: { children: ReactNode }) {
  return (
    <QueryClientProvider client={queryClient}>
      <ChartProvider>{children}</ChartProvider>
    </QueryClientProvider>
  );
}
