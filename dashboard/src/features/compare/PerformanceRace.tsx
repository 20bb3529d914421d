import { SchedulerBars } from "../../charts/SchedulerBars";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { METRICS, metricOf } from "../../lib/metrics";
import type { TableData } from "../../lib/tableData";
import { useStandings } from "../../store/selectors";
import { setUi, useUi } from "../../store/uiStore";
import { useIntervals } from "./useConfidenceIntervals";

/** Bar chart of the schedulers by one metric, with the oracle as reference. */
export function PerformanceRace() {
  const metric = metricOf(useUi((s) => s.metric));
  const standings = useStandings(metric.key);
  const { halves, note } = useIntervals(metric, standings);
  const state = useLiveBody({ shape: "bars" });
  const tag = useLiveTag();
  const table = (): TableData => ({
    name: `race-${metric.key}`,
    columns: [
      { key: "scheduler", label: "scheduler" },
      { key: metric.key, label: metric.long, numeric: true },
      { key: "ci95_half_width", label: "± 95 %", numeric: true },
      { key: "ratio_to_oracle", label: "÷ oracle", numeric: true },
      { key: "tasks", label: "tasks", numeric: true },
    ],
    rows: standings.map((s) => [s.style.name, s.value, halves.get(s.style.name) ?? null, s.ratio, s.row.tasks]),
  });
  return (
    <Panel
      title="Performance race"
      subtitle={metric.long}
      state={state}
      tag={tag}
      table={table}
      note={note}
      bodyClass="flex flex-col gap-3"
    >
      <div className="flex flex-wrap items-center gap-2">
        <SegmentedControl
          label="Metric"
          choices={METRICS.map((item) => ({ value: item.key, label: item.label, title: item.long }))}
          value={metric.key}
          onChange={(key) => setUi({ metric: key })}
          className="max-md:w-full max-md:*:flex-1"
        />
      </div>
      <SchedulerBars standings={standings} halves={halves} metric={metric} />
    </Panel>
  );
}
