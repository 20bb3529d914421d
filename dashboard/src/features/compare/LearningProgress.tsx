import { ArrowRight, CircleCheck, Diamond, TriangleAlert } from "lucide-react";
import { useMemo } from "react";
import { TrendChart } from "../../charts/TrendChart";
import { Link } from "../../components/Link";
import { Panel } from "../../components/widget/Panel";
import { useLiveBody, useLiveTag } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { percent, tick, time } from "../../lib/format";
import { shortLabel } from "../../lib/schedulerStyle";
import { slowSpansOf } from "../../lib/slowdown";
import { ticks } from "../../lib/statistics";
import { useLive } from "../../store/liveStore";
import { boundsOf, useDevices } from "../../store/selectors";
import { useUi } from "../../store/uiStore";
import { errorsOverTime, type Recovery, recoveryFrom } from "./learningProgress";
import { useDrifts } from "./useGanttData";
import { useLearningCurve } from "./useLearningCurve";

/** The newest slowdown, when it was noticed, and when the error was small again. */
function Steps({ slow, recovery }: { slow: string; recovery: Recovery }) {
  const { noticed, back, limit } = recovery;
  return (
    <p className="flex flex-wrap items-center gap-x-2 gap-y-1" data-testid="recovery">
      <span className="inline-flex items-center gap-1.5 text-warn">
        <TriangleAlert size={13} aria-hidden="true" /> {slow}
      </span>
      <ArrowRight size={12} aria-hidden="true" className="text-faint" />
      <span className="inline-flex items-center gap-1.5">
        <Diamond size={11} fill="currentColor" aria-hidden="true" />
        {noticed === null ? (
          "not noticed yet"
        ) : (
          <>
            noticed after <strong className="font-semibold">{time(noticed)}</strong>
          </>
        )}
      </span>
      {back === null ? null : (
        <>
          <ArrowRight size={12} aria-hidden="true" className="text-faint" />
          <span className="inline-flex items-center gap-1.5">
            <CircleCheck size={13} aria-hidden="true" className="text-ok" />
            error back under {percent(limit, 1)} after <strong className="font-semibold">{time(back)}</strong>
          </span>
        </>
      )}
    </p>
  );
}

/** What learning did: the error of predicted durations over time, and how soon a slowdown was noticed. */
export function LearningProgress() {
  const runId = useLive((s) => s.runId);
  const now = useLive((s) => Math.floor(s.virtualTime));
  const slowdown = useLive((s) => s.status?.slowdown ?? null);
  const range = useUi((s) => s.range);
  const { learner: style, curve } = useLearningCurve();
  const devices = useDevices();
  const drifts = useDrifts(style?.name ?? null);
  const live = useLiveBody({ shape: "lines" });
  const tag = useLiveTag();
  const { from, to } = boundsOf(range, now);
  const errors = useMemo(() => (curve.data ? errorsOverTime(curve.data) : []), [curve.data]);
  const points = useMemo(() => errors.filter(({ x }) => x >= from && x <= to + 1), [errors, from, to]);
  const slow = slowSpansOf(slowdown, devices, from, to);
  const span = slow?.spans.at(-1);
  const times = drifts.map(({ at }) => at);
  const last = points.at(-1);
  if (!style) return null;
  return (
    <Panel
      title="What learning did"
      subtitle={<span className="max-md:hidden">error of predicted durations</span>}
      state={live.kind === "ready" ? queryState(curve, "Could not load the learning curve", "lines") : live}
      tag={tag}
      table={() => ({
        name: `learning-${style.name}`,
        columns: [
          { key: "time_s", label: "time", numeric: true, show: (v) => `${(v as number).toFixed(1)} s` },
          { key: "error", label: "error", numeric: true, show: (v) => percent(v as number) },
        ],
        rows: points.map(({ x, y }) => [x, y]),
      })}
      bodyClass="flex flex-col"
    >
      {slow && span ? (
        <Steps slow={`${slow.who} ${slow.label}`} recovery={recoveryFrom(span[0], span[1], errors, times)} />
      ) : (
        <p className="text-muted">Began without a model; each point is a new version.</p>
      )}
      <TrendChart
        compact
        series={[{ style, points }]}
        unit="share"
        bands={slow?.spans ?? []}
        marks={times.filter((at) => at >= from && at <= to).map((x) => ({ x, label: `noticed at ${tick(x)} s` }))}
        xTicks={ticks(points[0]?.x ?? 0, last?.x ?? 1, 4).map((at) => ({ at, text: `${at} s` }))}
        nameOf={(x) => `version of ${x.toFixed(1)} s`}
        label={`Error of ${style.label} over time`}
      />
      <p className="flex items-center gap-2">
        <Link
          to={{ view: "learning", id: runId ?? "", name: style.name }}
          className="text-accent underline underline-offset-2"
        >
          {shortLabel(style)}
        </Link>
        <strong className="font-semibold">{percent(last?.y)}</strong>
        <span className="text-faint">now, {percent(errors[0]?.y)} at first</span>
      </p>
    </Panel>
  );
}
