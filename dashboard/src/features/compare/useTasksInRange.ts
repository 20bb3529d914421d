/** The recent tasks that lie within the page's time range. */
import { useMemo } from "react";
import { buffers, useLive } from "../../store/liveStore";
import type { RecentTask } from "../../store/recentTasks";
import { boundsOf } from "../../store/selectors";
import { useUi } from "../../store/uiStore";

export function useTasksInRange(): RecentTask[] {
  const rev = useLive((s) => s.rev);
  const now = useLive((s) => s.virtualTime);
  const range = useUi((s) => s.range);
  // biome-ignore lint/correctness/useExhaustiveDependencies: rev stands for the buffers
  return useMemo(() => {
    const { from, to } = boundsOf(range, now);
    // The newest arrivals of an update may lie a moment after its clock.
    return range.kind === "all"
      ? buffers.tasks.list()
      : buffers.tasks.list(from, range.kind === "fixed" ? to : Number.POSITIVE_INFINITY);
  }, [rev, range]);
}
