import { Check, Download, LocateFixed, Maximize } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { type LaneOfKind, visit } from "../../charts/ganttModel";
import type { DeviceLoad, VerdictRow } from "../../client/models";
import { urlOf } from "../../client/request";
import { GanttView, GanttZoomButtons } from "../../components/GanttView";
import { SchedulerSelect } from "../../components/SchedulerSelect";
import { IconButton } from "../../components/ui/Button";
import { SchedulerName } from "../../components/ui/SchedulerGlyph";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { intensityRamp } from "../../lib/colorScales";
import { count, significant, time } from "../../lib/format";
import { type SchedulerStyle, shortLabel } from "../../lib/schedulerStyle";
import { type SlowSpans, slowSpansOf } from "../../lib/slowdown";
import type { Cell, TableData } from "../../lib/tableData";
import { useLive } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useDevices, useFocus, useRow } from "../../store/selectors";
import { setUi, useTheme, useUi } from "../../store/uiStore";
import { type Drift, useDrifts, useGanttData, useGanttOverview, useMarks } from "./useGanttData";
import { type LiveGanttWindow, useGanttWindow } from "./useGanttWindow";

interface LegendProps {
  balance: number | null;
  slow: SlowSpans | null;
  drifts: readonly Drift[];
}

/** Each learner with the second at which it noticed the newest change, such as "Hybrid ML at 27 s". */
function noticedBy(drifts: readonly Drift[], styles: readonly SchedulerStyle[]): string {
  const newest = new Map(drifts.map((one) => [one.scheduler, one.at]));
  return [...newest]
    .map(([name, at]) => {
      const style = styles.find((one) => one.name === name);
      return `${style ? shortLabel(style) : name} at ${at.toFixed(0)} s`;
    })
    .join(", ");
}

function Legend({ balance, slow, drifts }: LegendProps) {
  const ramp = intensityRamp(useTheme());
  const styles = useSchedulerStyles();
  return (
    <div className="mt-2 flex flex-wrap items-center gap-x-5 gap-y-1 text-faint">
      <span className="flex items-center gap-2">
        intensity 0
        <span className="flex h-2 overflow-hidden rounded-[2px]">
          {ramp.map((color) => (
            <i key={color} className="w-2.5" style={{ background: color }} />
          ))}
        </span>
        1
      </span>
      <span className="flex items-center gap-2">
        <svg width="20" height="10" aria-hidden="true">
          <defs>
            <pattern id="queued" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="1.5" height="5" fill={ramp[4]} />
            </pattern>
          </defs>
          <rect x="0.5" y="0.5" width="19" height="9" rx="2" fill="url(#queued)" stroke={ramp[4]} />
        </svg>
        queued
      </span>
      <span className="flex items-center gap-2">
        <i className="w-5 border-muted border-t-2 border-dashed" />
        lower bound
      </span>
      {slow?.spans.length ? (
        <span
          className="flex items-center gap-2"
          data-testid="slowdown"
          title="Tasks that arrive in this time take longer there, under every scheduler"
        >
          <i className="h-2.5 w-5 border-warn border-y-2 bg-warn/15" />
          {slow.who} {slow.label}
        </span>
      ) : null}
      {drifts.length ? (
        <span
          className="flex items-baseline gap-2"
          data-testid="drifts"
          data-at={drifts.map((one) => one.at).join(" ")}
        >
          <svg width="10" height="9" aria-hidden="true" className="shrink-0">
            <path d="M5 0L10 9H0z" fill="var(--warn)" />
          </svg>
          change noticed by {noticedBy(drifts, styles)}
        </span>
      ) : null}
      <span className="md:ml-auto">load balance (Jain) {significant(balance)}</span>
    </div>
  );
}

function tableOf(lanes: readonly LaneOfKind[], window: LiveGanttWindow, scheduler: string): TableData {
  const rows: Cell[][] = [];
  for (const lane of lanes) {
    visit(lane, window.from, window.to, (source, i) => {
      rows.push([
        source.task(i),
        lane.device,
        source.start(i),
        source.end(i),
        source.end(i) - source.start(i),
        source.intensity(i),
      ]);
    });
  }
  const seconds = (value: Cell) => time(value as number);
  return {
    name: `gantt-${scheduler}`,
    columns: [
      { key: "task_id", label: "task", numeric: true, show: String },
      { key: "device", label: "device" },
      { key: "start_s", label: "start", numeric: true, show: (v) => `${(v as number).toFixed(3)} s` },
      { key: "end_s", label: "end", numeric: true, show: (v) => `${(v as number).toFixed(3)} s` },
      { key: "busy_s", label: "busy", numeric: true, show: seconds },
      { key: "intensity", label: "intensity", numeric: true },
    ],
    rows,
  };
}

/** Name of a scheduler above its lanes, and its longest queue now. */
function Named({ style }: { style: SchedulerStyle | null | undefined }) {
  const backlogs = useLive((s) => s.backlogs[style?.name ?? ""]);
  if (!style) return null;
  return (
    <p className="-mb-6 flex gap-2">
      <SchedulerName style={style} className="font-semibold" />
      {backlogs ? <span className="text-muted">queue {time(Math.max(0, ...Object.values(backlogs)))}</span> : null}
    </p>
  );
}

const idleWords = (load: DeviceLoad | undefined): string =>
  load ? `${load.start.toFixed(1)} to ${load.known_to.toFixed(1)} s` : "the window";

/** Says that nothing is sampled, and what a column is where there are no single blocks. */
function Exactness({ load }: { load: DeviceLoad }) {
  return (
    <span
      data-testid="exact"
      data-start={load.start}
      data-known-to={load.known_to}
      title={
        load.blocks
          ? "Every part of every task in this window"
          : `One column is ${significant(load.column_s)} s: busy time in it, summed over every task`
      }
      className="inline-flex h-6 items-center gap-1.5 whitespace-nowrap rounded-[6px] border border-ok/50 px-2 text-ok max-md:hidden"
    >
      <Check size={13} aria-hidden="true" />
      {load.blocks ? "every task" : `all ${count(load.tasks)} tasks`}, exact
    </span>
  );
}

/** Scheduler below the one in focus: the chosen one, else the slowest that is told no durations. */
function useBeside(focus: string | null): string | null {
  const chosen = useUi((s) => s.beside);
  const styles = useSchedulerStyles();
  const rows = useLive((s) => s.verdict?.rows ?? NO_ROWS);
  if (chosen !== null && chosen !== focus && styles.some((style) => style.name === chosen)) return chosen;
  const others = rows.filter((row) => row.name !== focus && !styles.find((style) => style.name === row.name)?.told);
  return others.at(-1)?.name ?? null;
}

const NO_ROWS: readonly VerdictRow[] = [];

/** Live Gantt charts of a scheduler and of a slower one, on one time axis. */
export function LiveGantt() {
  const focus = useFocus();
  const name = focus?.name ?? null;
  const row = useRow(name);
  const runId = useLive((s) => s.runId);
  const { bound, makespan } = useMarks(row?.makespan ?? null);
  const overview = useGanttOverview(name);
  const [newest, setNewest] = useState<number | null>(null);
  const window = useGanttWindow(newest);
  const data = useGanttData(name, window.wanted);
  const beside = useBeside(name);
  const other = useGanttData(beside, window.wanted);
  const seen = data.load?.newest ?? null;
  // The window follows the newest data, which come with the answer for the window.
  useEffect(() => setNewest(seen), [seen]);
  const now = newest ?? 0;
  const slowdown = useLive((s) => s.status?.slowdown ?? null);
  const devices = useDevices();
  const { from, to } = window;
  const slow = useMemo(() => slowSpansOf(slowdown, devices, from, to), [slowdown, devices, from, to]);
  const found = useDrifts(name);
  const drifts = useMemo(() => found.filter(({ at }) => at >= from && at <= to), [found, from, to]);
  const driftTimes = useMemo(() => drifts.map(({ at }) => at), [drifts]);
  const styles = useSchedulerStyles();
  const liveTag = useLiveTag();
  const state = useLiveBody({ shape: "lines" });
  const trace = urlOf("/api/export/trace.json", { query: { run_id: runId, scheduler: name } });
  return (
    <Panel
      title="Cluster Gantt"
      subtitle={
        <span className="max-xl:hidden">
          {window.following ? "following" : "held"}, drag pans, Ctrl and wheel zooms; idle share of{" "}
          {idleWords(data.load)}
        </span>
      }
      state={state}
      tag={liveTag}
      table={() => tableOf(data.lanes, window, name ?? "")}
      actions={
        <>
          {data.load ? <Exactness load={data.load} /> : null}
          <SchedulerSelect value={name} onChange={(focus) => setUi({ focus })} />
          <span className="text-faint max-md:hidden">above</span>
          <SchedulerSelect label="Second scheduler" value={beside} onChange={(beside) => setUi({ beside })} />
          <GanttZoomButtons window={window} />
          {window.following ? (
            <IconButton label="Show the whole range" onClick={window.fit}>
              <Maximize size={15} aria-hidden="true" />
            </IconButton>
          ) : (
            <IconButton label="Follow the present" onClick={window.follow}>
              <LocateFixed size={15} aria-hidden="true" />
            </IconButton>
          )}
          <a
            href={trace}
            download
            aria-label="Trace for Perfetto"
            title="Trace for Perfetto"
            className="inline-flex size-10 items-center justify-center rounded-control text-muted hover:bg-raised hover:text-ink max-md:hidden md:size-7"
          >
            <Download size={15} aria-hidden="true" />
          </a>
        </>
      }
      bodyClass="flex flex-col"
    >
      <Named style={focus} />
      <GanttView
        second={
          beside === null
            ? null
            : {
                lanes: other.lanes,
                scheduler: beside,
                head: <Named style={styles.find((style) => style.name === beside)} />,
              }
        }
        lanes={data.lanes}
        scheduler={name ?? ""}
        window={window}
        overview={overview.lanes}
        first={overview.load?.start ?? 0}
        last={Math.max(overview.load?.end ?? 0, now)}
        now={now}
        bound={bound}
        makespan={makespan}
        slow={slow}
        drifts={driftTimes}
      />
      <Legend balance={row?.load_balance ?? null} slow={slow} drifts={drifts} />
    </Panel>
  );
}
