import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type TimeRow, TimeRows } from "../../charts/TimeRows";
import { api } from "../../client/api";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { moment, percent, significant, tick, time } from "../../lib/format";
import { type SchedulerStyle, shortLabel } from "../../lib/schedulerStyle";
import { slowSpansOf } from "../../lib/slowdown";
import { useLive } from "../../store/liveStore";
import { usePollInterval } from "../../store/queryClient";
import { useDevices, useVisibleStyles } from "../../store/selectors";
import { errorsOverTime } from "./learningProgress";
import { arrivalRate, waitingTimes } from "./runTimeline";
import { useDrifts } from "./useGanttData";
import { useLearningCurve } from "./useLearningCurve";

const BUCKETS = 60;
/** Slow schedulers whose queues are shown beside the leader's. */
const SLOWEST = 3;

/** The leader and the slowest schedulers that are told no durations, of those that the legend shows. */
function useContrast(): SchedulerStyle[] {
  const styles = useVisibleStyles();
  const rows = useLive((s) => s.verdict?.rows);
  return useMemo(() => {
    const ranked = (rows ?? []).flatMap(({ name }) => styles.filter((style) => style.name === name && !style.told));
    return [...new Set([...ranked.slice(0, 1), ...ranked.slice(-SLOWEST)])];
  }, [styles, rows]);
}

/** Load, queues and the learner's error over the whole run, with slowdowns and what was noticed of them. */
export function WhatHappened() {
  const runId = useLive((s) => s.runId);
  const now = useLive((s) => Math.floor(s.virtualTime));
  const slowdown = useLive((s) => s.status?.slowdown ?? null);
  const devices = useDevices();
  const contrast = useContrast();
  const { learner, curve } = useLearningCurve();
  const drifts = useDrifts(learner?.name ?? null);
  const poll = usePollInterval(4_000);
  const live = useLiveBody({ shape: "lines" });
  const trends = useQuery({
    queryKey: ["timeline", runId],
    queryFn: ({ signal }) => api.trends(runId, BUCKETS, { signal }),
    enabled: runId !== null,
    refetchInterval: poll,
    placeholderData: keepPreviousData,
  });
  const rows = useMemo<TimeRow[]>(() => {
    const buckets = trends.data?.buckets ?? [];
    const load = contrast[0] ?? learner;
    const line = (style: SchedulerStyle): SchedulerStyle => ({ ...style, label: shortLabel(style) });
    return [
      {
        title: "Load",
        note: "tasks per second",
        series: load
          ? [
              {
                style: { ...load, name: "load", label: "arrivals", color: "var(--accent)", dash: [] },
                points: arrivalRate(buckets),
              },
            ]
          : [],
        show: (value) => significant(value),
        log: false,
      },
      {
        title: "Queues",
        note: "mean waiting time",
        series: contrast.map((style) => ({ style: line(style), points: waitingTimes(buckets, style.name) })),
        show: (value) => time(value),
        log: false,
      },
      {
        title: "Error",
        note: "predicted durations",
        series: learner && curve.data ? [{ style: line(learner), points: errorsOverTime(curve.data) }] : [],
        show: (value) => percent(value),
        log: true,
      },
    ];
  }, [trends.data, contrast, learner, curve.data]);
  const end = Math.max(now, 1);
  const slow = slowSpansOf(slowdown, devices, 0, end);
  return (
    <Panel
      title="What happened"
      subtitle="whole run on one clock, the Gantt's"
      state={live.kind === "ready" ? queryState(trends, "Could not load the timeline", "lines") : live}
      tag={useLiveTag()}
      table={() => ({
        name: "what-happened",
        columns: [
          { key: "quantity", label: "quantity" },
          { key: "scheduler", label: "scheduler" },
          { key: "time_s", label: "time", numeric: true, show: (v) => moment(v as number) },
          { key: "value", label: "value (tasks/s, s, share)", numeric: true },
        ],
        rows: rows.flatMap(({ title, series }) =>
          series.flatMap(({ style, points }) => points.map(({ x, y }) => [title, style.name, x, y])),
        ),
      })}
      note="Diamonds: the learner noticed that durations had changed. Its error is drawn on a log scale. Point at a time to see its values."
      bodyClass="flex flex-col"
    >
      <TimeRows
        rows={rows}
        from={0}
        to={end}
        bands={slow?.spans ?? []}
        bandText={slow ? `${slow.who} ${slow.label}` : ""}
        marks={drifts
          .filter(({ at }) => at <= end)
          .map(({ at }) => ({ x: at, label: `change noticed at ${tick(at, 4)} s` }))}
        label="Load, queues and prediction error over the whole run"
      />
    </Panel>
  );
}
