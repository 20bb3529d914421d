/** Shows the leader and a slower scheduler in the Gantt chart, one above the other, in the time that a cause is about. */
import type { VerdictCause } from "../../client/models";
import { setUi } from "../../store/uiStore";

export function showSideBySide(leader: string | null, { reason }: VerdictCause, panel = "gantt"): void {
  const span = reason.window;
  setUi({
    focus: leader,
    beside: reason.scheduler,
    ...(span && span[1] > span[0] ? { range: { kind: "fixed", from: Math.max(0, span[0]), to: span[1] } } : {}),
  });
  document.getElementById(panel)?.scrollIntoView({ block: "start" });
}
