import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { logScale, logTicks } from "../../charts/canvasAxes";
import { type ScatterAxis, ScatterChart } from "../../charts/ScatterChart";
import { api } from "../../client/api";
import { Panel } from "../../components/widget/Panel";
import type { BodyState } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { count, parts, percent, significant, time } from "../../lib/format";
import { mean } from "../../lib/statistics";
import { useLive } from "../../store/liveStore";
import { usePollInterval } from "../../store/queryClient";
import { setUi } from "../../store/uiStore";
import { useSelectedScheduler } from "./selectedScheduler";

const POINTS = 400;

interface Pair {
  id: number;
  predicted: number;
  actual: number;
}

/** Time without trailing zeros: "10 ms". */
const short = (seconds: number) => {
  const { value, unit } = parts(seconds, "time");
  return `${value.replace(/\.0+$/, "")} ${unit}`;
};

/** R² of the logarithms, the scale on which durations are learned. */
function logR2(pairs: readonly Pair[]): number | null {
  if (pairs.length < 10) return null;
  const logs = pairs.map((p) => Math.log(p.actual));
  const middle = mean(logs);
  let [left, all] = [0, 0];
  for (const [i, pair] of pairs.entries()) {
    left += (Math.log(pair.predicted) - (logs[i] as number)) ** 2;
    all += ((logs[i] as number) - middle) ** 2;
  }
  return all > 0 ? 1 - left / all : null;
}

/** Scatter chart of predicted against actual execution times. */
export function PredictedVsActual() {
  const scheduler = useSelectedScheduler();
  const runId = useLive((s) => s.status?.run_id ?? null);
  const learns = useLive((s) =>
    s.comparison.some((row) => row.name === scheduler.name && row.model_version !== null),
  );
  const newest = useLive((s) => s.tasksProcessed);
  const poll = usePollInterval(5_000);
  const query = useQuery({
    queryKey: ["predicted", runId, scheduler.name],
    queryFn: ({ signal }) =>
      api.results(
        {
          run_id: runId,
          scheduler: scheduler.name,
          after_task: Math.max(0, (useLive.getState().stream.tasks.at(-1)?.task_id ?? newest) - POINTS),
          limit: POINTS,
        },
        { signal },
      ),
    enabled: learns && runId !== null,
    refetchInterval: poll,
  });
  const pairs = useMemo<Pair[]>(
    () =>
      (query.data ?? []).flatMap((r) =>
        r.predicted_time && r.time ? [{ id: r.task_id, predicted: r.predicted_time, actual: r.time }] : [],
      ),
    [query.data],
  );
  const [x, y] = useMemo<[ScatterAxis, ScatterAxis]>(() => {
    const values = pairs.flatMap((p) => [p.predicted, p.actual]);
    const low = Math.min(...values, 1e-3) * 0.9;
    const high = Math.max(...values, 1e-2) * 1.1;
    const ticks = logTicks(low, high).filter((v) => /^1/.test(v.toExponential()));
    const axis = (title: string): ScatterAxis => ({
      title,
      ticks,
      format: short,
      scale: (from, to) => logScale(low, high, from, to),
    });
    return [axis("actual time (log)"), axis("predicted")];
  }, [pairs]);
  const points = useMemo(
    () => pairs.map((p) => ({ id: p.id, x: p.actual, y: p.predicted, color: scheduler.color })),
    [pairs, scheduler.color],
  );
  const r2 = logR2(pairs);
  const error = pairs.length ? mean(pairs.map((p) => Math.abs(p.predicted - p.actual) / p.actual)) : null;
  const state: BodyState = !learns
    ? { kind: "empty", title: "No predictions", hint: "Only schedulers with a model predict durations." }
    : pairs.length === 0 && query.data
      ? { kind: "waiting", have: 0, need: 10, what: "predictions" }
      : queryState(query, "Could not load the predictions");
  return (
    <Panel
      title="Predicted vs actual"
      subtitle={`execution time, newest ${count(pairs.length)} tasks`}
      state={state}
      table={() => ({
        name: `predicted-${scheduler.name}`,
        columns: [
          { key: "task_id", label: "task", numeric: true, show: (v) => count(v as number) },
          { key: "predicted_s", label: "predicted", numeric: true, show: (v) => time(v as number) },
          { key: "actual_s", label: "actual", numeric: true, show: (v) => time(v as number) },
        ],
        rows: pairs.map((p) => [p.id, p.predicted, p.actual]),
      })}
      bodyClass="flex flex-col"
      note={`R² of the logarithms ${significant(r2)}, mean error ${percent(error)}. Click a point for the task.`}
    >
      <ScatterChart
        points={points}
        x={x}
        y={y}
        left={52}
        label={`Predicted against actual time of ${scheduler.label}`}
        onSelect={(id) => setUi({ task: id, focus: scheduler.name })}
      />
    </Panel>
  );
}
