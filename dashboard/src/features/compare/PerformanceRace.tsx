import { useMemo } from "react";
import { SchedulerBars } from "../../charts/SchedulerBars";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { count } from "../../lib/format";
import { METRICS, metricOf } from "../../lib/metrics";
import { LOG_FROM } from "../../lib/raceScale";
import { shortLabel } from "../../lib/schedulerStyle";
import type { TableData } from "../../lib/tableData";
import { useLive } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useStandings } from "../../store/selectors";
import { setUi, useUi } from "../../store/uiStore";

const NO_ROWS = new Map<string, never>();

/** Bar chart of the schedulers by one metric. By latency it starts at the lower bound and repeats the verdict's words. */
export function PerformanceRace() {
  const metric = metricOf(useUi((s) => s.metric));
  const chosen = useUi((s) => s.scale);
  const standings = useStandings(metric.key);
  const state = useLiveBody({ shape: "bars" });
  const tag = useLiveTag();
  const verdict = useLive((s) => s.verdict);
  const bound = useLive((s) => s.latencyBound);
  const reference = useSchedulerStyles().find((style) => style.reference);
  const judged = metric.key === "latency" ? verdict : null;
  const lowest = metric.key === "latency" ? bound : null;
  const values = standings.map((s) => s.value).filter((value) => value > 0);
  const wide = Math.max(...values) / Math.min(...values) > LOG_FROM;
  const scale = chosen ?? (lowest !== null || wide ? "log" : "linear");
  const rows = useMemo(() => (judged ? new Map(judged.rows.map((row) => [row.name, row])) : NO_ROWS), [judged]);
  const against = judged && reference ? reference : null;
  const table = (): TableData => ({
    name: `race-${metric.key}`,
    columns: [
      { key: "scheduler", label: "scheduler" },
      { key: metric.key, label: metric.long, numeric: true, unit: metric.quantity },
      { key: "ci95_half_width", label: "± 95 %", numeric: true, unit: metric.quantity },
      { key: "ratio_to_bound", label: "÷ bound", numeric: true },
      { key: "difference", label: "against the oracle", numeric: true, unit: metric.quantity },
      { key: "difference_ci95", label: "± 95 %, paired", numeric: true, unit: metric.quantity },
      { key: "tasks", label: "tasks", numeric: true },
    ],
    rows: standings.map(({ style, value, half, row }) => [
      style.name,
      value,
      half,
      lowest ? value / lowest : null,
      against ? row.mean_regret : null,
      against ? row.regret_ci95 : null,
      row.tasks,
    ]),
  });
  const notes = [
    "Whole run.",
    scale === "log" && lowest !== null
      ? "A bar's length is the ratio to the lower bound, its end is the latency."
      : "",
    metric.half ? "±: 95 % interval of the mean by batch means." : "",
    against ? `Against ${shortLabel(against)}: mean difference, paired task by task.` : "",
    metric.windowed ? `Newest ${count(standings[0]?.row.window)} tasks; a quantile has no interval here.` : "",
  ];
  const controls = (
    <>
      <SegmentedControl
        label="Metric"
        choices={METRICS.map((item) => ({ value: item.key, label: item.label, title: item.long }))}
        value={metric.key}
        onChange={(key) => setUi({ metric: key })}
        className="max-md:w-full max-md:*:flex-1"
      />
      <SegmentedControl
        label="Scale"
        choices={["log", "linear"]}
        value={scale}
        onChange={(value) => setUi({ scale: value })}
        className="max-md:hidden"
      />
    </>
  );
  return (
    <Panel
      title="Performance race"
      subtitle={metric.long}
      state={state}
      tag={tag}
      table={table}
      note={notes.join(" ")}
      actions={<div className="flex gap-2 max-xl:hidden">{controls}</div>}
      bodyClass="flex flex-col gap-2"
    >
      <div className="flex flex-wrap items-center gap-2 xl:hidden">{controls}</div>
      {standings.length ? (
        <SchedulerBars
          standings={standings}
          metric={metric}
          bound={lowest}
          scale={scale}
          rows={rows}
          group={judged?.group ?? []}
          against={against && shortLabel(against)}
        />
      ) : null}
    </Panel>
  );
}
