import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Maximize } from "lucide-react";
import { useMemo, useState } from "react";
import type { GanttWindow } from "../charts/ganttModel";
import { api } from "../client/api";
import type { GanttDiff as Diff, Gantt, RunDetail } from "../client/models";
import { ApiError } from "../client/request";
import { count, signed } from "../lib/format";
import { ganttChange } from "../lib/ganttChange";
import type { Cell } from "../lib/tableData";
import { useStylesOf } from "../store/schedulerStyles";
import { setUi } from "../store/uiStore";
import { GanttView, GanttZoomButtons } from "./GanttView";
import { storedLanes, useStoredWindow } from "./storedGantt";
import { IconButton } from "./ui/Button";
import { RunLetter } from "./ui/RunBadges";
import { SchedulerGlyph } from "./ui/SchedulerGlyph";
import { Select } from "./ui/Select";
import { Panel } from "./widget/Panel";
import type { BodyState } from "./widget/panelState";
import { queryState } from "./widget/queryState";

/** Most tasks of each schedule, the newest ones. */
const LIMIT = 2000;

/** Schedulers that are compared at first: in one run the slowest and the leader, in two runs the same one. */
export function firstPair(a: RunDetail, b: RunDetail): [string, string] {
  const lead = b.verdict?.leader ?? b.schedulers[0] ?? "";
  if (a.run_id !== b.run_id) {
    const both = a.schedulers.includes(lead) ? lead : b.schedulers.find((name) => a.schedulers.includes(name));
    return [both ?? a.schedulers[0] ?? "", both ?? lead];
  }
  const slowest = a.verdict?.rows.at(-1)?.name;
  return [
    slowest !== undefined && slowest !== lead ? slowest : (a.schedulers.find((n) => n !== lead) ?? lead),
    lead,
  ];
}

interface LaneProps {
  run: RunDetail;
  columns: Gantt;
  letter: "A" | "B";
  scheduler: string;
  /** Scheduler of the other schedule of the same run, which cannot be chosen; null for another run. */
  without: string | null;
  onChange: (name: string) => void;
  window: GanttWindow;
  bounds: { first: number; last: number };
}

function Schedule({ run, columns, letter, scheduler, without, onChange, window, bounds }: LaneProps) {
  const styles = useStylesOf(run.schedulers);
  const { lanes } = useMemo(() => storedLanes(columns, run.config), [columns, run.config]);
  return (
    <section aria-label={`Schedule ${letter}`}>
      <div className="flex items-center gap-2">
        <RunLetter>{letter}</RunLetter>
        <Select
          label={`Scheduler of ${letter}`}
          value={scheduler}
          onChange={onChange}
          options={[...styles.values()]
            .filter((style) => style.name !== without)
            .map((style) => ({
              value: style.name,
              label: style.label,
              icon: <SchedulerGlyph style={style} />,
            }))}
        />
      </div>
      <div className="flex h-60 flex-col">
        <GanttView
          lanes={lanes}
          scheduler={scheduler}
          window={window}
          first={bounds.first}
          last={bounds.last}
          now={bounds.last}
          nowLabel="end"
          bound={null}
          makespan={null}
        />
      </div>
    </section>
  );
}

/** What changes from A to B, in one sentence and with the tasks that change most. */
function Summary({ diff }: { diff: Diff }) {
  const change = useMemo(() => ganttChange(diff), [diff]);
  return (
    <div data-testid="gantt-change">
      <p className="text-14">
        {count(change.moved)} of {count(change.tasks)} tasks run on other devices. In B {count(change.earlier)} end
        earlier and {count(change.later)} later, {signed(change.mean, "time")} on average.
      </p>
      {change.largest.length ? (
        <p className="mt-1 flex flex-wrap gap-x-3 gap-y-1 text-muted">
          Largest changes:
          {change.largest.map((one) => (
            <button
              key={one.task}
              type="button"
              className="rounded-[4px] text-accent underline decoration-accent/50 underline-offset-2 hover:decoration-accent"
              onClick={() => setUi({ task: one.task })}
            >
              task {one.task}, {signed(one.seconds, "time")}
            </button>
          ))}
        </p>
      ) : null}
    </div>
  );
}

function stateOf(query: { data?: Diff; error: unknown; refetch: () => unknown }): BodyState {
  if (query.error instanceof ApiError && query.error.status === 409)
    return {
      kind: "empty",
      title: "The runs have different tasks",
      hint: "Schedules are compared task by task: the same scenario, load and seed give the same tasks.",
    };
  if (query.data && query.data.ordinal.length === 0)
    return {
      kind: "empty",
      title: "No common task",
      hint: "The newest tasks of the two runs do not overlap.",
    };
  return queryState(query as Parameters<typeof queryState>[0], "Could not compare the schedules", "lines");
}

/** Two schedules of the same tasks on one time axis: two schedulers of a run, or two runs. */
export function GanttDiff({ a, b }: { a: RunDetail; b: RunDetail }) {
  const [[first, second], setPair] = useState(() => firstPair(a, b));
  const one = a.run_id === b.run_id;
  const query = useQuery({
    queryKey: ["gantt-diff", a.run_id, first, b.run_id, second],
    queryFn: ({ signal }) =>
      api.ganttDiff({ a: a.run_id, scheduler: first, b: b.run_id, other: second, limit: LIMIT }, { signal }),
    enabled: !one || first !== second,
    staleTime: 30_000,
    retry: false,
    placeholderData: keepPreviousData,
  });
  const diff = query.data;
  const bounds = useMemo(() => {
    const times = diff ? [...diff.a.end, ...diff.b.end] : [];
    const starts = diff ? [...diff.a.start, ...diff.b.start] : [];
    const least = (list: number[]) => list.reduce((low, one) => Math.min(low, one), Number.POSITIVE_INFINITY);
    const most = (list: number[]) => list.reduce((high, one) => Math.max(high, one), 0);
    return { first: starts.length ? least(starts) : 0, last: most(times) };
  }, [diff]);
  const window = useStoredWindow(bounds.first, bounds.last, diff ? { from: bounds.first, to: bounds.last } : null);
  return (
    <Panel
      title={one ? "Two schedulers, same tasks" : "Schedules of both runs"}
      subtitle="one time axis; drag pans, Ctrl and wheel zooms"
      state={stateOf(query)}
      table={() => ({
        name: "gantt-diff",
        columns: [
          { key: "ordinal", label: "task of the run", numeric: true, show: (v: Cell) => count(v as number) },
          { key: "moved", label: "other devices" },
          { key: "finish_difference_s", label: "ends later in B", numeric: true },
        ],
        rows: (diff?.ordinal ?? []).map((ordinal, i): Cell[] => [
          ordinal,
          diff?.moved[i] ? "yes" : "no",
          diff?.finish_difference[i] ?? null,
        ]),
      })}
      actions={
        <>
          <GanttZoomButtons window={window} />
          <IconButton label="Show the whole range" onClick={window.fit}>
            <Maximize size={15} aria-hidden="true" />
          </IconButton>
        </>
      }
      note="The newest tasks that both schedules have. Fill: compute intensity. A click opens the task."
      className="min-h-48"
      bodyClass="flex flex-col gap-3"
    >
      {diff ? (
        <>
          <Summary diff={diff} />
          <Schedule
            run={a}
            columns={diff.a}
            letter="A"
            scheduler={first}
            without={one ? second : null}
            onChange={(name) => setPair([name, second])}
            window={window}
            bounds={bounds}
          />
          <Schedule
            run={b}
            columns={diff.b}
            letter="B"
            scheduler={second}
            without={one ? first : null}
            onChange={(name) => setPair([first, name])}
            window={window}
            bounds={bounds}
          />
        </>
      ) : null}
    </Panel>
  );
}
