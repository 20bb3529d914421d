import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { TrendChart } from "../../charts/TrendChart";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Panel } from "../../components/widget/Panel";
import type { BodyState } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { useMediaQuery } from "../../hooks/useMediaQuery";
import { compact, count, date } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import { ticks } from "../../lib/statistics";
import type { Cell, TableData } from "../../lib/tableData";
import { runPages } from "../../store/runPages";
import { useStylesOf } from "../../store/schedulerStyles";
import { useUi } from "../../store/uiStore";
import { positionOf, totalOf } from "./cumulativeMeans";
import { useNotes, useRunDetails, useRunId, useTrends } from "./historyQueries";
import { ratiosAlong, ratiosByRun, type TrendDot } from "./oracleRatios";
import { usePlayback } from "./playbackStore";

/** Most runs in the chart; each needs a request. */
const RUNS = 24;
type Scope = "run" | "runs";

function tableOf(lines: ReadonlyMap<string, TrendDot[]>, scope: Scope, ids: readonly string[]): TableData {
  const rows: Cell[][] = [];
  for (const [name, dots] of lines)
    for (const { x, y, half } of dots) rows.push([scope === "run" ? x : (ids[x] ?? null), name, y, half]);
  return {
    name: `trend-${scope}`,
    columns: [
      scope === "run"
        ? { key: "up_to_task", label: "up to task", numeric: true, show: (v) => count(v as number) }
        : { key: "run_id", label: "run" },
      { key: "scheduler", label: "scheduler" },
      { key: "ratio_to_oracle", label: "latency ÷ oracle", numeric: true },
      { key: "ci95_half_width", label: "± 95 %", numeric: true },
    ],
    rows,
  };
}

function useAlong() {
  const runId = useRunId();
  const trends = useTrends();
  const { notes } = useNotes();
  const buckets = trends.data?.buckets;
  const lines = useMemo(() => ratiosAlong(buckets ?? []), [buckets]);
  const marks = useMemo(
    () =>
      notes
        .filter((note) => note.kind === "drift" && buckets?.length)
        .map((note) => ({
          x: positionOf(buckets ?? [], note.at_task ?? 0),
          label: `${note.scheduler ?? ""}: ${note.message}`,
        })),
    [notes, buckets],
  );
  const state: BodyState = !runId
    ? { kind: "empty" }
    : trends.data && lines.size === 0
      ? {
          kind: "empty",
          title: "No ratio to show",
          hint: "The oracle is not part of this run, or no task has finished.",
        }
      : queryState(trends, "Could not load the trend", "lines");
  return { lines, marks, state, total: totalOf(buckets ?? []) };
}

function useByRun(on: boolean) {
  const pages = useInfiniteQuery({ ...runPages, enabled: on });
  const runs = useMemo(() => (pages.data?.pages[0]?.runs ?? []).slice(0, RUNS).reverse(), [pages.data]);
  const { details, pending, error, retry } = useRunDetails(on ? runs : []);
  const usable = details.filter((run) => run.comparison.some((row) => row.name === REFERENCE && row.mean_latency));
  const lines = ratiosByRun(usable);
  const state: BodyState =
    pages.data && !pending && usable.length < 2
      ? { kind: "waiting", have: usable.length, need: 2, what: "runs with an oracle" }
      : error && usable.length < 2
        ? { kind: "error", title: "Could not load the runs", error, retry }
        : pages.data && pending
          ? { kind: "loading", shape: "lines" }
          : queryState(pages, "Could not load the runs", "lines");
  return { runs: usable, lines, state };
}

/** Trend of the latency ratio to the oracle: along the current run, or one point per run. */
export function LongTermTrend() {
  const [scope, setScope] = useState<Scope>("run");
  const along = useAlong();
  const byRun = useByRun(scope === "runs");
  const cursor = usePlayback((s) => s.at);
  const visible = useUi((s) => s.visible);
  const narrow = useMediaQuery("(max-width: 767px)");
  const { lines, state } = scope === "run" ? along : byRun;
  const styles = useStylesOf([...lines.keys()]);
  const series = [...styles.values()]
    .filter((style) => visible === null || visible.includes(style.name))
    .map((style) => ({ style, points: lines.get(style.name) ?? [] }));
  const every = Math.max(1, Math.ceil(byRun.runs.length / (narrow ? 3 : 6)));
  const xTicks =
    scope === "run"
      ? ticks(0, along.total, narrow ? 3 : 6)
          .filter((at) => at > 0)
          .map((at) => ({ at, text: compact(at) }))
      : byRun.runs.flatMap((run, at) => (at % every === 0 ? [{ at, text: date(run.created_at) }] : []));
  const nameAt = (x: number) => {
    if (scope === "run") return `up to task ${count(x)}`;
    const run = byRun.runs[x];
    return run ? `${run.scenario}, seed ${run.seed}, ${date(run.created_at)}` : "";
  };
  return (
    <Panel
      title="Long-term trend"
      subtitle={scope === "run" ? "mean latency ÷ oracle, per bucket" : "mean latency ÷ oracle, one point per run"}
      state={state}
      table={() =>
        tableOf(
          lines,
          scope,
          byRun.runs.map((run) => run.run_id),
        )
      }
      actions={
        <SegmentedControl
          label="Scope"
          choices={[
            { value: "run", label: "This run" },
            { value: "runs", label: "All runs" },
          ]}
          value={scope}
          onChange={setScope}
          className="md:h-7"
        />
      }
      note={
        scope === "run"
          ? "Each point is the mean of its own tasks only. Amber: a scheduler detected drift. Logarithmic above 5×."
          : `Bands: 95 % CI of the run, paired with its oracle. Newest ${count(byRun.runs.length)} runs; settings may differ between them.`
      }
      bodyClass="flex flex-col"
    >
      <TrendChart
        series={series}
        xTicks={xTicks}
        xTitle={scope === "run" ? "task of the run" : "run"}
        nameOf={nameAt}
        marks={scope === "run" ? along.marks : []}
        cursor={scope === "run" ? cursor : null}
        gap={scope === "run" ? undefined : 1}
        label={`Latency over the oracle's, ${scope === "run" ? "along this run" : "by run"}`}
      />
    </Panel>
  );
}
