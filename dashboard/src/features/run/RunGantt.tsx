import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Maximize } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { api } from "../../client/api";
import type { RunDetail } from "../../client/models";
import { GanttView, GanttZoomButtons } from "../../components/GanttView";
import { IconButton } from "../../components/ui/Button";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { Select } from "../../components/ui/Select";
import { Panel } from "../../components/widget/Panel";
import type { BodyState, Tag } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { count, significant, time } from "../../lib/format";
import { leaderOf } from "../../lib/runLeader";
import type { Cell } from "../../lib/tableData";
import { lanesFromColumns } from "../../store/ganttLanes";
import { useStylesOf } from "../../store/schedulerStyles";
import { setUi, useUi } from "../../store/uiStore";
import { deviceKinds } from "./deviceKinds";

/** Most tasks in the chart, the newest ones. */
const LIMIT = 50_000;
const SPAN = 30;

function useWindow(first: number, last: number) {
  const [chosen, setChosen] = useState<{ from: number; to: number } | null>(null);
  const from = chosen?.from ?? Math.max(first, last - SPAN);
  const to = chosen?.to ?? last + (last - from) * 0.04;
  const set = useCallback(
    (a: number, b: number) => {
      const width = Math.min(Math.max(b - a, 0.02), Math.max(last - first, 1) * 1.5);
      setChosen({ from: a, to: a + width });
    },
    [first, last],
  );
  return {
    from,
    to,
    brush: set,
    pan: (by: number) => set(from + by, to + by),
    zoom: (factor: number, at?: number) => {
      const middle = at ?? (from + to) / 2;
      set(middle - (middle - from) / factor, middle + (to - middle) / factor);
    },
    fit: () => set(first, last),
  };
}

/** Gantt chart of one scheduler in a stored run. */
export function RunGantt({ run }: { run: RunDetail }) {
  const focus = useUi((s) => s.focus);
  const name = run.schedulers.find((one) => one === focus) ?? leaderOf(run)?.name ?? run.schedulers[0] ?? null;
  const styles = useStylesOf(run.schedulers);
  const query = useQuery({
    queryKey: ["run-gantt", run.run_id, name],
    queryFn: ({ signal }) => api.gantt(run.run_id, { scheduler: name as string, limit: LIMIT }, { signal }),
    enabled: name !== null,
    staleTime: run.status === "stopped" ? Number.POSITIVE_INFINITY : 10_000,
    placeholderData: keepPreviousData,
  });
  const data = query.data;
  const { lanes, first, last } = useMemo(() => {
    const found = data ? lanesFromColumns(data) : new Map();
    const kinds = deviceKinds(run.config);
    let [low, high] = [Number.POSITIVE_INFINITY, 0];
    for (const lane of found.values()) {
      if (!lane.length) continue;
      low = Math.min(low, lane.start(0));
      high = Math.max(high, lane.end(lane.length - 1));
    }
    return {
      lanes: (data?.devices ?? []).map((device) => {
        const lane = found.get(device);
        return { device, kind: kinds.get(device) ?? device.replace(/_\d+$/, ""), sources: lane ? [lane] : [] };
      }),
      first: Number.isFinite(low) ? low : 0,
      last: high,
    };
  }, [data, run.config]);
  const window = useWindow(first, last);
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
          { key: "start_s", label: "start", numeric: true, show: (v: Cell) => time(v as number) },
          { key: "end_s", label: "end", numeric: true, show: (v: Cell) => time(v as number) },
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
      note={`Fill: compute intensity. Load balance (Jain) ${significant(row?.load_balance)}. A click opens the task.`}
      bodyClass="flex flex-col"
    >
      <GanttView
        lanes={lanes}
        scheduler={name ?? ""}
        window={window}
        first={first}
        last={last}
        firstLabel={last < 10 ? time(first) : count(first)}
        lastLabel={last < 10 ? time(last) : `${count(last)} s`}
        now={last}
        nowLabel={run.status === "stopped" ? "end" : undefined}
        bound={null}
        makespan={makespan}
      />
    </Panel>
  );
}
