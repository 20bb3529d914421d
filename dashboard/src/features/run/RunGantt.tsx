import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Maximize } from "lucide-react";
import { useMemo } from "react";
import { api } from "../../client/api";
import type { RunDetail } from "../../client/models";
import { GanttView, GanttZoomButtons } from "../../components/GanttView";
import { storedLanes, useStoredWindow } from "../../components/storedGantt";
import { IconButton } from "../../components/ui/Button";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { Select } from "../../components/ui/Select";
import { Panel } from "../../components/widget/Panel";
import type { BodyState, Tag } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { count, moment, significant } from "../../lib/format";
import { slowdownOf, slowSpansOf } from "../../lib/slowdown";
import type { Cell } from "../../lib/tableData";
import { useStylesOf } from "../../store/schedulerStyles";
import { setUi, useUi } from "../../store/uiStore";

/** Most tasks in the chart, the newest ones. */
const LIMIT = 50_000;

/** Gantt chart of one scheduler in a stored run. */
export function RunGantt({ run }: { run: RunDetail }) {
  const focus = useUi((s) => s.focus);
  const name = run.schedulers.find((one) => one === focus) ?? run.verdict?.leader ?? run.schedulers[0] ?? null;
  const styles = useStylesOf(run.schedulers);
  const query = useQuery({
    queryKey: ["run-gantt", run.run_id, name],
    queryFn: ({ signal }) => api.gantt(run.run_id, { scheduler: name as string, limit: LIMIT }, { signal }),
    enabled: name !== null,
    staleTime: run.status === "stopped" ? Number.POSITIVE_INFINITY : 10_000,
    placeholderData: keepPreviousData,
  });
  const data = query.data;
  const { lanes, first, last } = useMemo(() => storedLanes(data, run.config), [data, run.config]);
  const range = useUi((s) => s.range);
  const window = useStoredWindow(first, last, range.kind === "fixed" ? range : null);
  const slow = useMemo(() => {
    const devices = lanes.map((lane) => ({ name: lane.device, kind: lane.kind }));
    return slowSpansOf(slowdownOf(run.config), devices, window.from, window.to);
  }, [lanes, run.config, window.from, window.to]);
  const row = run.comparison.find((one) => one.name === name);
  const makespan = row?.makespan != null ? { at: last, value: row.makespan } : null;
  const tasks = useMemo(() => new Set(data?.task_id).size, [data]);
  const tag: Tag | null = data?.truncated ? { kind: "truncated", visible: tasks, of: run.tasks } : null;
  const state: BodyState =
    name === null || (data && data.task_id.length === 0)
      ? { kind: "empty", title: "No results", hint: "No result of this scheduler is stored." }
      : queryState(query, "Could not load the Gantt chart", "lines");
  return (
    <Panel
      title="Cluster Gantt"
      subtitle={<span className="max-xl:hidden">drag pans, Ctrl and wheel zooms</span>}
      state={state}
      tag={tag}
      table={() => ({
        name: `gantt-${run.run_id}-${name ?? ""}`,
        columns: [
          { key: "task_id", label: "task", numeric: true, show: (v: Cell) => count(v as number) },
          { key: "device", label: "device" },
          { key: "start_s", label: "start", numeric: true, show: (v: Cell) => moment(v as number) },
          { key: "end_s", label: "end", numeric: true, show: (v: Cell) => moment(v as number) },
          { key: "intensity", label: "intensity", numeric: true },
        ],
        rows: (data?.task_id ?? []).map((task, i): Cell[] => [
          task,
          data?.device[i] ?? null,
          data?.start[i] ?? null,
          data?.end[i] ?? null,
          data?.intensity[i] ?? null,
        ]),
      })}
      actions={
        <>
          {name !== null ? (
            <Select
              label="Scheduler"
              value={name}
              onChange={(focus) => setUi({ focus })}
              options={[...styles.values()].map((style) => ({
                value: style.name,
                label: style.label,
                icon: <SchedulerGlyph style={style} />,
              }))}
            />
          ) : null}
          <GanttZoomButtons window={window} />
          <IconButton label="Show the whole range" onClick={window.fit}>
            <Maximize size={15} aria-hidden="true" />
          </IconButton>
        </>
      }
      note={`Fill: compute intensity. Load balance (Jain) ${significant(row?.load_balance)}. A click opens the task.${slow?.spans.length ? ` Amber: ${slow.who} ${slow.label}.` : ""}`}
      bodyClass="flex flex-col"
    >
      <GanttView
        lanes={lanes}
        scheduler={name ?? ""}
        window={window}
        first={first}
        last={last}
        now={last}
        nowLabel={run.status === "stopped" ? "end" : undefined}
        bound={null}
        makespan={makespan}
        slow={slow}
      />
    </Panel>
  );
}
