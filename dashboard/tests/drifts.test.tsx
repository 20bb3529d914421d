import { QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, it, vi } from "vitest";
import { api } from "../src/client/api";
import type { Notification } from "../src/client/models";
import { useDrifts } from "../src/features/compare/useGanttData";
import { live } from "../src/store/liveStore";
import { queryClient } from "../src/store/queryClient";
import { update } from "./fixtures";

it("a change that is noticed while the page is open is shown at once", () => {
  vi.spyOn(api, "events").mockResolvedValue({ events: [], last_seq: 1, oldest_seq: 1, truncated: false });
  live.resetAll();
  live.ingest([update(1)]);
  live.flush();
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
  );
  const { result } = renderHook(() => useDrifts("hybrid_ml"), { wrapper });
  expect(result.current).toEqual([]);
  const note = {
    ...{ type: "notification", seq: 2, run_id: "r1", t: 27.1, created_at: 0, level: "warning", kind: "drift" },
    ...{ message: "durations changed", scheduler: "hybrid_ml", version: 3, at_task: 5 },
  };
  act(() => {
    live.ingest([note as Notification]);
    live.flush();
  });
  expect(result.current).toEqual([{ at: 27.1, scheduler: "hybrid_ml" }]);
  live.resetAll();
  vi.restoreAllMocks();
});
