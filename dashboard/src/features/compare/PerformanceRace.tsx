import { useMemo } from "react";
import { SchedulerBars } from "../../charts/SchedulerBars";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { METRICS, metricOf } from "../../lib/metrics";
import { LOG_FROM } from "../../lib/raceScale";
import type { TableData } from "../../lib/tableData";
import { useLive } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useStandings } from "../../store/selectors";
import { setUi, useUi } from "../../store/uiStore";
import { useIntervals } from "./useConfidenceIntervals";

const NO_ROWS = new Map<string, never>();

/** Bar chart of the schedulers by one metric. By latency it starts at the lower bound and repeats the verdict's words. */
export function PerformanceRace() {
  const metric = metricOf(useUi((s) => s.metric));
  const chosen = useUi((s) => s.scale);
  const standings = useStandings(metric.key);
  const { halves, note } = useIntervals(metric, standings);
  const state = useLiveBody({ shape: "bars" });
  const tag = useLiveTag();
  const verdict = useLive((s) => s.verdict);
  const bound = useLive((s) => s.latencyBound);
  const styles = useSchedulerStyles();
  const judged = metric.key === "latency" ? verdict : null;
  const lowerBound = metric.key === "latency" ? bound : null;
  const values = standings.map((s) => s.value).filter((value) => value > 0);
  const wide = Math.max(...values) / Math.min(...values) > LOG_FROM;
  const scale = chosen ?? (lowerBound !== null || wide ? "log" : "linear");
  const rows = useMemo(() => (judged ? new Map(judged.rows.map((row) => [row.name, row])) : NO_ROWS), [judged]);
  const byName = useMemo(() => new Map(styles.map((style) => [style.name, style])), [styles]);
  const table = (): TableData => ({
    name: `race-${metric.key}`,
    columns: [
      { key: "scheduler", label: "scheduler", show: (name) => byName.get(name as string)?.label ?? String(name) },
      { key: metric.key, label: metric.long, numeric: true },
      { key: "ci95_half_width", label: "± 95 %", numeric: true },
      { key: "ratio_to_floor", label: "÷ bound", numeric: true },
      { key: "ratio_to_oracle", label: "÷ per-task best", numeric: true },
      { key: "tasks", label: "tasks", numeric: true },
    ],
    rows: standings.map((s) => [
      s.style.name,
      s.value,
      halves.get(s.style.name) ?? null,
      lowerBound ? s.value / lowerBound : null,
      s.ratio,
      s.row.tasks,
    ]),
  });
  const words =
    scale === "log"
      ? lowerBound === null
        ? "Log scale: bars do not start at zero. "
        : "Log scale: a bar's length is the ratio to the lower bound, and where it ends is seconds. "
      : "";
  return (
    <Panel
      title="Performance race"
      subtitle={metric.long}
      state={state}
      tag={tag}
      table={table}
      note={words + note}
      bodyClass="flex flex-col gap-2"
    >
      <div className="flex flex-wrap items-center gap-2">
        <SegmentedControl
          label="Metric"
          choices={METRICS.map((item) => ({ value: item.key, label: item.label, title: item.long }))}
          value={metric.key}
          onChange={(key) => setUi({ metric: key })}
          className="max-md:w-full max-md:*:flex-1"
        />
        <SegmentedControl
          label="Scale"
          choices={[
            { value: "log", label: "log" },
            { value: "linear", label: "linear" },
          ]}
          value={scale}
          onChange={(value) => setUi({ scale: value })}
        />
      </div>
      {standings.length ? (
        <SchedulerBars
          standings={standings}
          halves={halves}
          metric={metric}
          bound={lowerBound}
          scale={scale}
          rows={rows}
          leader={judged?.leader ?? null}
          styles={byName}
        />
      ) : null}
    </Panel>
  );
}
