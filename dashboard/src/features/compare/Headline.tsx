import type { CSSProperties, ReactNode } from "react";
import { OracleGapChart } from "../../charts/OracleGapChart";
import { classNames } from "../../components/ui/classNames";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { PanelBody } from "../../components/widget/PanelBody";
import { useLiveBody } from "../../components/widget/panelState";
import { count, estimate, parts, percent, ratioEstimate, signed, significant } from "../../lib/format";
import { type Metric, metricOf } from "../../lib/metrics";
import { REFERENCE } from "../../lib/schedulerStyle";
import { type Verdict, verdictOf } from "../../lib/standings";
import { useLive } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useFocus, useRow, useStandings } from "../../store/selectors";
import { setUi, useUi } from "../../store/uiStore";
import { useIntervals } from "./useConfidenceIntervals";

function Leader({ verdict, metric }: { verdict: Verdict; metric: Metric }) {
  const { leader, runnerUp, close } = verdict;
  const gapHalf =
    leader.half !== null && leader.ratio !== null ? (leader.half * leader.ratio) / leader.value : null;
  const lead = runnerUp ? (runnerUp.value - leader.value) / leader.value : null;
  const leadHalf =
    runnerUp && leader.half !== null && runnerUp.half !== null
      ? Math.hypot(leader.half, runnerUp.half) / leader.value
      : null;
  return (
    <div className="min-w-0">
      <p className="text-muted">
        Leader by {metric.long.split(",")[0]} <span className="text-faint">· oracle excluded</span>
      </p>
      <h1 className="mt-0.5 flex items-center gap-3 font-semibold text-28">
        <SchedulerGlyph style={leader.style} size={20} />
        <span className="min-w-0 truncate">
          <span className="glow-text" style={{ color: leader.style.color }}>
            {leader.style.label}
          </span>{" "}
          {close ? "is ahead" : "leads"}
        </span>
      </h1>
      <p className="mt-1 text-14">
        {leader.ratio === null ? null : (
          <span className="font-semibold" data-testid="gap">
            {ratioEstimate(leader.ratio, gapHalf)} oracle
          </span>
        )}
        {runnerUp ? (
          <span className="text-12 text-muted">
            {leader.ratio === null ? "" : " · "}
            {close
              ? `too close to call with ${runnerUp.style.label}`
              : `clear of ${runnerUp.style.label} by ${percent(lead).replace(" %", "")}${leadHalf === null ? "" : ` ± ${significant(leadHalf * 100, 2)}`} %`}
          </span>
        ) : null}
      </p>
    </div>
  );
}

function Card({ label, value, unit, sub }: { label: string; value: string; unit?: string; sub: ReactNode }) {
  return (
    <div className="min-w-0 xl:border-hair xl:border-l xl:pl-3">
      <dt className="truncate text-muted">{label}</dt>
      <dd className="mt-0.5 whitespace-nowrap">
        <span className="font-semibold text-20">{value}</span>
        {unit ? <span className="text-14 text-muted"> {unit}</span> : null}
      </dd>
      <dd className="truncate text-faint">{sub}</dd>
    </div>
  );
}

/** Buttons that choose the scheduler of the cards. */
function FocusButtons() {
  const styles = useSchedulerStyles();
  const focus = useFocus();
  return (
    <div role="group" aria-label="Cards of" className="flex flex-wrap items-center gap-1">
      {styles.map((style) => (
        <button
          key={style.name}
          type="button"
          aria-pressed={style.name === focus?.name}
          aria-label={`Cards of ${style.label}`}
          title={style.label}
          onClick={() => setUi({ focus: style.name })}
          className={classNames(
            "inline-flex size-10 items-center justify-center rounded-[6px] border transition-colors hover:bg-raised md:size-6",
            style.name === focus?.name ? "border-accent bg-raised" : "border-transparent",
          )}
        >
          <SchedulerGlyph style={style} />
        </button>
      ))}
      <span className="ml-1 truncate font-medium">{focus?.label}</span>
    </div>
  );
}

function Cards() {
  const focus = useFocus();
  const row = useRow(focus?.name ?? null);
  const oracle = useRow(REFERENCE);
  const tasks = useLive((s) => s.tasksProcessed);
  const rate = useLive((s) => s.tasksPerSecond);
  if (!row) return null;
  const versus = (mine: number | null, theirs: number | null | undefined, kind: "time" | "energy" | "cost") =>
    mine !== null && theirs != null && focus && !focus.reference
      ? `${signed(mine - theirs, kind)} vs oracle`
      : "per task";
  const mean = parts(row.mean_time, "time");
  const latency = estimate(row.mean_latency, row.latency_ci95, "time");
  const joules = parts(row.mean_energy, "energy");
  const dollars = parts(row.mean_cost, "cost");
  return (
    <div className="min-w-0">
      <FocusButtons />
      <dl className="mt-2 grid grid-cols-2 gap-x-3 gap-y-3 sm:grid-cols-4">
        <Card label="Tasks so far" value={count(tasks)} sub={`${significant(rate)} per s`} />
        <Card
          label="Mean time"
          value={mean.value}
          unit={mean.unit}
          sub={<span title={`latency ${latency}`}>{versus(row.mean_time, oracle?.mean_time, "time")}</span>}
        />
        <Card
          label="Mean energy"
          value={joules.value}
          unit={joules.unit}
          sub={versus(row.mean_energy, oracle?.mean_energy, "energy")}
        />
        <Card
          label="Mean cost"
          value={dollars.value}
          unit={dollars.unit}
          sub={versus(row.mean_cost, oracle?.mean_cost, "cost")}
        />
      </dl>
    </div>
  );
}

/** Headline: the leader, its gap to the oracle, and key figures of the scheduler in focus. */
export function Headline() {
  const metric = metricOf(useUi((s) => s.metric));
  const plain = useStandings(metric.key);
  const { halves } = useIntervals(metric, plain);
  const standings = plain.map((s) => ({ ...s, half: halves.get(s.style.name) ?? null }));
  const verdict = verdictOf(standings);
  const state = useLiveBody({ shape: "lines" });
  const style = { "--lead": verdict?.leader.style.color ?? "var(--control)" } as CSSProperties;
  return (
    <section
      aria-label="Headline"
      style={style}
      className="panel panel-glow mb-4 min-h-32 p-4"
      data-testid="headline"
    >
      {state.kind !== "ready" || !verdict ? (
        <PanelBody
          state={
            state.kind === "ready"
              ? { kind: "loading" }
              : state.kind === "empty"
                ? { ...state, start: true }
                : state
          }
        >
          {null}
        </PanelBody>
      ) : (
        <div className="grid items-center gap-x-8 gap-y-4 md:grid-cols-2 xl:grid-cols-[minmax(368px,1.1fr)_minmax(240px,0.85fr)_minmax(520px,1.5fr)]">
          <Leader verdict={verdict} metric={metric} />
          <OracleGapChart
            standings={standings}
            title={`Gap to the oracle, ${metric.long.split(",")[0]}${halves.size ? ", 95 % CI" : ""}`}
          />
          <div className="min-w-0 max-xl:col-span-full max-xl:border-hair max-xl:border-t max-xl:pt-4">
            <Cards />
          </div>
        </div>
      )}
    </section>
  );
}
