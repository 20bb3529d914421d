import { TrendChart } from "../../charts/TrendChart";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Select } from "../../components/ui/Select";
import { Panel } from "../../components/widget/Panel";
import type { BodyState } from "../../components/widget/panelState";
import { compact, count, significant, tick, time } from "../../lib/format";
import { ticks } from "../../lib/statistics";
import { useStylesOf } from "../../store/schedulerStyles";
import { CURVE_METRICS, curvesOf } from "./curves";
import { useWorkspace } from "./workspaceContext";
import { setWorkspace, useWorkspaceState } from "./workspaceState";

const AXIS_TITLES = { task: "task of the run", time: "virtual time", load: "load, share of capacity" };
const AXES = [
  { value: "task", label: "tasks" },
  { value: "time", label: "time" },
  { value: "load", label: "load", title: "One point per run; of sweeps the mean over seeds" },
] as const;

/** Curves of all chosen runs and sweeps in one chart. */
export function OverlayCurves() {
  const state = useWorkspaceState();
  const { sources, kept, rows, pending } = useWorkspace();
  const styles = useStylesOf([...new Set(rows.map((row) => row.scheduler))]);
  const metric = CURVE_METRICS.find((one) => one.value === state.y) ?? CURVE_METRICS[0];
  if (!metric) return null;
  const series = curvesOf(sources, kept, state, styles).filter((one) => one.points.length > 0);
  const xs = series.flatMap((one) => one.points.map((p) => p.x));
  const [low, high] = [state.x === "load" ? Math.min(...xs, 1) : 0, Math.max(...xs, 0)];
  const show = (x: number) => (state.x === "time" ? `${tick(x)} s` : state.x === "load" ? tick(x) : compact(x));
  const onlySweeps = sources.length > 0 && sources.every((one) => one.kind === "sweep");
  const body: BodyState =
    sources.length === 0
      ? { kind: "empty", title: "Nothing chosen", hint: "Choose runs or sweeps in the list." }
      : series.length
        ? { kind: "ready" }
        : pending
          ? { kind: "loading", shape: "lines" }
          : {
              kind: "empty",
              title: "No curve",
              hint:
                onlySweeps && state.x !== "load"
                  ? "A sweep has no values over tasks or time. Choose load as the axis."
                  : "No chosen run has values of this scheduler and metric, or the filters exclude them.",
            };
  return (
    <Panel
      title="Curves"
      subtitle={`mean ${metric.label} per ${state.x === "load" ? "run or cell" : "bucket"}`}
      state={body}
      table={() => ({
        name: "workspace-curves",
        columns: [
          { key: "source", label: "run or sweep, scheduler" },
          { key: state.x, label: AXIS_TITLES[state.x], numeric: true },
          { key: metric.value, label: metric.label, numeric: true },
          { key: "ci95_half_width", label: "± 95 %", numeric: true },
        ],
        rows: series.flatMap((one) => one.points.map((p) => [one.style.label, p.x, p.y, p.half])),
      })}
      note="Colour: run or sweep; with all schedulers, glyph and dash tell the scheduler. Bands: 95 % over seeds. Logarithmic where values span more than a factor of 20."
      bodyClass="flex flex-col gap-2"
    >
      <div className="flex flex-wrap items-center gap-2">
        <SegmentedControl
          label="Metric"
          choices={CURVE_METRICS}
          value={metric.value}
          onChange={(y) => setWorkspace({ y })}
        />
        <SegmentedControl label="Axis" choices={AXES} value={state.x} onChange={(x) => setWorkspace({ x })} />
        <Select
          label="Scheduler"
          value={state.by}
          onChange={(by) => setWorkspace({ by })}
          options={[
            { value: "leader", label: "Leader of each" },
            { value: "all", label: "All schedulers" },
            ...[...styles.values()].map((style) => ({
              value: style.name,
              label: style.label,
              icon: <SchedulerGlyph style={style} />,
            })),
          ]}
        />
      </div>
      <TrendChart
        series={series}
        unit={metric.kind}
        xTicks={ticks(low, high, 5).map((at) => ({ at, text: show(at) }))}
        xTitle={AXIS_TITLES[state.x]}
        nameOf={(x) =>
          state.x === "task"
            ? `up to task ${count(x)}`
            : state.x === "time"
              ? `from ${time(x)}`
              : `load ${significant(x)}`
        }
        label={`Mean ${metric.label} of ${count(series.length)} curves over ${AXIS_TITLES[state.x]}`}
      />
    </Panel>
  );
}
