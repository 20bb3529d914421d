import { useState } from "react";
import { DiffTable } from "../../components/DiffTable";
import { Link } from "../../components/Link";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { Select } from "../../components/ui/Select";
import { Panel } from "../../components/widget/Panel";
import type { BodyState } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { shortRunId } from "../../lib/format";
import { DIFF_METRICS, whenOf } from "../../lib/runDiff";
import { diffTable } from "../../lib/runDiffTable";
import { isRunId, isUnknownRun, useDiff } from "../../store/runQueries";
import { useStylesOf } from "../../store/schedulerStyles";
import { useFocus } from "../../store/selectors";
import { useUi } from "../../store/uiStore";

/** Comparison of two runs for one scheduler. */
export function RunDiffSummary() {
  const a = useUi((s) => s.a);
  const b = useUi((s) => s.b);
  const query = useDiff(a, b);
  const focus = useFocus();
  const [wanted, setWanted] = useState<string | null>(null);
  const rows = query.data?.schedulers ?? [];
  const styles = useStylesOf(rows.map((row) => row.name));
  const row =
    rows.find((one) => one.name === wanted) ?? rows.find((one) => one.name === focus?.name) ?? rows[0] ?? null;
  const state: BodyState =
    !a || !b
      ? {
          kind: "empty",
          title: a ? "One more run" : "Pick two runs",
          hint: a ? "Tick a second run in the list." : "Tick two runs in the list: A is before, B is after.",
        }
      : a === b
        ? { kind: "empty", title: "A and B are the same run", hint: "Tick another one in the list." }
        : !isRunId(a) || !isRunId(b) || isUnknownRun(query.error)
          ? { kind: "empty", title: "One of the runs does not exist", hint: "Tick two runs of the list." }
          : query.data && rows.length === 0
            ? { kind: "empty", title: "No common scheduler", hint: "No scheduler took part in both runs." }
            : queryState(query, "Could not compare the runs", "table");
  return (
    <Panel
      title="Diff of two runs"
      subtitle={a && b && a !== b ? `A ${shortRunId(a)}, B ${shortRunId(b)}` : undefined}
      state={state}
      table={() => diffTable(query.data?.schedulers ?? [])}
      actions={
        row ? (
          <Select
            label="Scheduler"
            value={row.name}
            onChange={setWanted}
            options={[...styles.values()].map((style) => ({
              value: style.name,
              label: style.label,
              icon: <SchedulerGlyph style={style} />,
            }))}
          />
        ) : null
      }
      note="Runs are independent. Only mean latency has an interval; the other changes have none."
      bodyClass="flex flex-col"
    >
      {row ? (
        <>
          <DiffTable
            head="metric"
            when={query.data ? whenOf(query.data.a, query.data.b) : undefined}
            caption={`${row.name} in both runs`}
            lines={DIFF_METRICS.map((metric) => ({
              key: metric.key,
              head: metric.long,
              difference: row[metric.key],
              quantity: metric.quantity,
            }))}
          />
          <p className="mt-auto pt-3">
            <Link to={{ view: "diff" }} className="text-accent underline underline-offset-4">
              Every scheduler and the changed settings
            </Link>
          </p>
        </>
      ) : null}
    </Panel>
  );
}
