import type { RunDetail, VerdictCause } from "../../client/models";
import { Leader, Why } from "../../components/VerdictText";
import { useStylesOf } from "../../store/schedulerStyles";
import { setUi } from "../../store/uiStore";

/** Shows a cause in the run's Gantt chart: the scheduler, and the time that the reason is about. */
function showInGantt({ reason: { scheduler, window: span } }: VerdictCause): void {
  setUi({
    focus: scheduler,
    ...(span && span[1] > span[0] ? { range: { kind: "fixed", from: Math.max(0, span[0]), to: span[1] } } : {}),
  });
  document.getElementById("run-gantt")?.scrollIntoView({ block: "start" });
}

/** Verdict on a stored run: who leads, by how much, how certain that is, and why the others lose. */
export function RunVerdict({ run }: { run: RunDetail }) {
  const { verdict } = run;
  const styles = [...useStylesOf(run.schedulers).values()];
  if (!verdict?.leader) return null;
  return (
    <section aria-label="Verdict" data-testid="run-verdict" className="panel panel-glow p-4 text-12">
      <Leader verdict={verdict} styles={styles} level={2} />
      <Why
        verdict={verdict}
        styles={styles}
        onShow={showInGantt}
        showLabel="show in Gantt"
        onTask={(task, focus) => setUi({ task, focus })}
      />
    </section>
  );
}
