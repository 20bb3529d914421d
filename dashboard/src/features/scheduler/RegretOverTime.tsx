import { useMemo } from "react";
import { type BandPoint, ConfidenceBandChart } from "../../charts/ConfidenceBandChart";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { count, time } from "../../lib/format";
import { deviation, mean, tQuantile } from "../../lib/statistics";
import { useStream } from "../../store/liveStore";
import type { RecentTask } from "../../store/recentTasks";
import { useSelectedScheduler } from "./selectedScheduler";

/** Tasks per group: about 40 groups, but at least ten tasks each. */
function groupSize(n: number): number {
  return Math.max(10, Math.ceil(n / 40));
}

function regretPoints(tasks: readonly RecentTask[], scheduler: string): BandPoint[] {
  const known = tasks.flatMap((task) => {
    const regret = task.results.get(scheduler)?.regret;
    return regret == null ? [] : [{ id: task.task_id, regret }];
  });
  const size = groupSize(known.length);
  const points: BandPoint[] = [];
  for (let i = 0; i + size <= known.length; i += size) {
    const group = known.slice(i, i + size);
    const values = group.map((one) => one.regret);
    const half = (tQuantile(size - 1) * deviation(values)) / Math.sqrt(size);
    points.push({ x: group.at(-1)?.id ?? 0, y: mean(values), half });
  }
  return points;
}

/** Regret against the oracle over time, in groups of tasks with intervals. */
export function RegretOverTime() {
  const scheduler = useSelectedScheduler();
  const stream = useStream();
  const { points, markers, size } = useMemo(() => {
    const tasks = stream.tasks.list();
    const drift = stream.notifications
      .toArray()
      .filter((note) => note.kind === "drift" && note.scheduler === scheduler.name && note.at_task !== null)
      .map((note) => ({ x: note.at_task ?? 0, label: `drift at ${note.at_task}` }));
    return { points: regretPoints(tasks, scheduler.name), markers: drift, size: groupSize(tasks.length) };
  }, [stream, scheduler.name]);
  const live = useLiveBody({ shape: "lines", have: points.length * size, need: 2 * size });
  return (
    <Panel
      title="Regret over time"
      subtitle={`latency minus the oracle's, mean of ${size} tasks, band 95 % CI`}
      state={
        scheduler.reference
          ? {
              kind: "empty",
              title: "The oracle has no regret",
              hint: "The regret of the others is measured against it.",
            }
          : live
      }
      tag={useLiveTag()}
      table={() => ({
        name: `regret-${scheduler.name}`,
        columns: [
          { key: "last_task", label: "up to task", numeric: true, show: (v) => count(v as number) },
          { key: "mean_regret_s", label: "mean regret", numeric: true, show: (v) => time(v as number) },
          { key: "ci95_half_width", label: "± 95 %", numeric: true, show: (v) => time(v as number) },
        ],
        rows: points.map((p) => [p.x, p.y, p.half]),
      })}
      bodyClass="flex flex-col"
      note="Below zero: this scheduler's queues were shorter than the oracle's, which is optimal per task but does not plan its queues."
    >
      <ConfidenceBandChart
        series={[{ style: scheduler, points }]}
        markers={markers}
        xTitle="task"
        formatX={count}
        formatY={time}
        label={`Regret of ${scheduler.label} over tasks`}
      />
    </Panel>
  );
}
