/** Recent tasks within the page's time range. */
import { useMemo } from "react";
import { useLive, useStream } from "../../store/liveStore";
import type { RecentTask } from "../../store/recentTasks";
import { boundsOf } from "../../store/selectors";
import { useUi } from "../../store/uiStore";

export function useTasksInRange(): RecentTask[] {
  const stream = useStream();
  const now = useLive((s) => s.virtualTime);
  const range = useUi((s) => s.range);
  return useMemo(() => {
    const { from, to } = boundsOf(range, now);
    // Arrivals of the newest update may be slightly later than its time.
    return range.kind === "all"
      ? stream.tasks.list()
      : stream.tasks.list(from, range.kind === "fixed" ? to : Number.POSITIVE_INFINITY);
  }, [stream, range, now]);
}
