import { ArrowLeftRight } from "lucide-react";
import { useState } from "react";
import type { RunDiff } from "../../client/models";
import { DiffTable } from "../../components/DiffTable";
import { EmptyPage } from "../../components/EmptyPage";
import { GanttDiff } from "../../components/GanttDiff";
import { Link } from "../../components/Link";
import { Button } from "../../components/ui/Button";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { ScrollRegion } from "../../components/ui/ScrollRegion";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { TableHead } from "../../components/ui/TableHead";
import { Panel } from "../../components/widget/Panel";
import { PanelBody } from "../../components/widget/PanelBody";
import { queryState } from "../../components/widget/queryState";
import { count } from "../../lib/format";
import { changedKeys, DIFF_METRICS, type DiffMetric, TASK_SETTINGS, whenOf } from "../../lib/runDiff";
import { diffTable } from "../../lib/runDiffTable";
import { isRunId, isUnknownRun, useDiff } from "../../store/runQueries";
import { useStylesOf } from "../../store/schedulerStyles";
import { setUi, useUi } from "../../store/uiStore";
import { Matrix } from "./DiffMatrix";
import { DiffRunCard } from "./DiffRunCard";

function Settings({ diff }: { diff: RunDiff }) {
  const changed = changedKeys(diff.changed, diff.a.config, diff.b.config);
  return (
    <Panel
      title="Changed settings"
      subtitle={changed.length ? `${count(changed.length)} differ` : undefined}
      state={
        changed.length
          ? { kind: "ready" }
          : {
              kind: "empty",
              title: "The same settings",
              hint: "Both runs have the same settings; only their tasks differ.",
            }
      }
      table={() => ({
        name: "changed-settings",
        columns: [
          { key: "setting", label: "setting" },
          { key: "a", label: "A" },
          { key: "b", label: "B" },
        ],
        rows: changed.map((one) => [one.key, one.a, one.b]),
      })}
      className="min-h-48"
    >
      <ScrollRegion label="Changed settings, A and B" className="max-h-80">
        <table className="w-full border-collapse text-12">
          <caption className="sr-only">Settings in which the runs differ</caption>
          <TableHead columns={[["setting"], ["A", "px-2"], ["B"]]} />
          <tbody>
            {changed.map((one) => (
              <tr key={one.key} className="border-hair border-t align-top">
                <td className="break-words py-1.5 pr-2 font-mono">{one.key}</td>
                <td className="break-words px-2 py-1.5 text-muted">{one.a}</td>
                <td className="break-words py-1.5 font-semibold">{one.b}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </Panel>
  );
}

function BySchedulers({ diff }: { diff: RunDiff }) {
  const [key, setKey] = useState<DiffMetric>("mean_latency");
  const metric = DIFF_METRICS.find((one) => one.key === key) ?? DIFF_METRICS[0];
  const styles = useStylesOf(diff.schedulers.map((row) => row.name));
  const others = [diff.a, diff.b].map((run) =>
    run.schedulers.filter((name) => !diff.schedulers.some((row) => row.name === name)),
  );
  const uncompared = others.flatMap((names, i) =>
    names.length ? [`only in ${i ? "B" : "A"}: ${names.join(", ")}`] : [],
  );
  if (!metric) return null;
  return (
    <Panel
      title="Before and after"
      subtitle={metric.long.toLowerCase()}
      state={
        diff.schedulers.length
          ? { kind: "ready" }
          : { kind: "empty", title: "No common scheduler", hint: "No scheduler took part in both runs." }
      }
      table={() => diffTable(diff.schedulers)}
      note={
        <>
          {metric.key === "mean_latency"
            ? "B − A with the 95 % CI of two independent runs; green or red only where it excludes zero."
            : "This metric has no interval."}
          {uncompared.length ? ` Not compared, ${uncompared.join("; ")}.` : ""}
        </>
      }
      className="min-h-48"
      bodyClass="flex flex-col gap-2"
    >
      <SegmentedControl
        label="Metric"
        choices={DIFF_METRICS.map((one) => ({ value: one.key, label: one.label, title: one.long }))}
        value={key}
        onChange={setKey}
        className="self-start max-md:w-full max-md:*:flex-1"
      />
      <DiffTable
        head="scheduler"
        when={whenOf(diff.a, diff.b)}
        caption={`${metric.long} in both runs`}
        lines={diff.schedulers.map((row) => {
          const style = styles.get(row.name);
          return {
            key: row.name,
            head: style ? <SchedulerName style={style} /> : row.name,
            difference: row[metric.key],
            quantity: metric.quantity,
          };
        })}
      />
    </Panel>
  );
}

/** View of two runs: changed settings and changed results. */
export default function DiffView() {
  const a = useUi((s) => s.a);
  const b = useUi((s) => s.b);
  const query = useDiff(a, b);
  if (!a || !b)
    return (
      <EmptyPage title={a || b ? "One run is missing" : "No runs chosen"}>
        A comparison needs two runs. Tick them in the list: the older is A, before; the newer is B, after.
      </EmptyPage>
    );
  if (a === b)
    return (
      <EmptyPage title="A and B are the same run" mono={a}>
        Choose another run for B.
      </EmptyPage>
    );
  if (!isRunId(a) || !isRunId(b) || isUnknownRun(query.error))
    return (
      <EmptyPage title="One of these runs is not in the database" mono={`${a}\n${b}`}>
        It may have been deleted, or the link comes from another server.
      </EmptyPage>
    );
  const diff = query.data;
  if (!diff)
    return (
      <section className="panel min-h-64 p-4">
        <h1 className="sr-only">Diff of two runs</h1>
        <PanelBody state={queryState(query, "Could not compare the runs", "table")}>{null}</PanelBody>
      </section>
    );
  const when = whenOf(diff.a, diff.b);
  const otherTasks = TASK_SETTINGS.filter((name) => name in diff.changed);
  return (
    <div className="space-y-4">
      <header className="flex flex-wrap items-center gap-3">
        <h1 className="font-semibold text-20">Diff of two runs</h1>
        <div className="ml-auto flex items-center gap-2">
          <Link to={{ view: "history" }} className="px-2 text-accent underline underline-offset-4">
            All runs
          </Link>
          <Button icon={<ArrowLeftRight size={14} aria-hidden="true" />} onClick={() => setUi({ a: b, b: a })}>
            Swap A and B
          </Button>
        </div>
      </header>
      <div className="grid gap-4 md:grid-cols-2">
        <DiffRunCard letter="A" when={when[0]} run={diff.a} />
        <DiffRunCard letter="B" when={when[1]} run={diff.b} />
      </div>
      {diff.a.source !== diff.b.source ? (
        <p className="panel border-warn/50 p-4 text-12" role="note">
          Run A was <strong>{diff.a.source}</strong>, run B was <strong>{diff.b.source}</strong>: the difference
          includes that between a machine and its model.
        </p>
      ) : null}
      {otherTasks.length ? (
        <p className="panel border-warn/50 p-4 text-12" role="note" data-testid="other-tasks">
          The runs had <strong>different tasks</strong> ({otherTasks.join(", ")}): the change includes that of the
          tasks, and the schedules cannot be compared task by task. For a fair comparison repeat one run with the
          settings of the other.
        </p>
      ) : null}
      <div className="grid items-start gap-4 xl:grid-cols-[7fr_5fr]">
        <BySchedulers diff={diff} />
        <Settings diff={diff} />
      </div>
      {diff.schedulers.length ? <Matrix rows={diff.schedulers} /> : null}
      {otherTasks.length ? null : <GanttDiff key={`${a} ${b}`} a={diff.a} b={diff.b} />}
    </div>
  );
}
