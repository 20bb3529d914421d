import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ModelVersionTimeline } from "../../charts/ModelVersionTimeline";
import { TrendChart } from "../../charts/TrendChart";
import { api } from "../../client/api";
import type { LearningCurve, RunDetail } from "../../client/models";
import { EmptyPage } from "../../components/EmptyPage";
import { Link } from "../../components/Link";
import { ShareBars } from "../../components/ShareBars";
import { Figure } from "../../components/ui/Figure";
import { SchedulerGlyph, SchedulerName } from "../../components/ui/SchedulerGlyph";
import { ScrollRegion } from "../../components/ui/ScrollRegion";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Table } from "../../components/ui/SortableTable";
import { thinVersions, toMarks } from "../../components/versionMarks";
import { Panel } from "../../components/widget/Panel";
import { PanelBody } from "../../components/widget/PanelBody";
import { queryState } from "../../components/widget/queryState";
import { compact, count, percent, runName, significant, time } from "../../lib/format";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { ticks } from "../../lib/statistics";
import type { TableData } from "../../lib/tableData";
import { useModels } from "../../store/modelQueries";
import { usePollInterval } from "../../store/queryClient";
import { isRunId, isUnknownRun } from "../../store/runQueries";
import { useStylesOf } from "../../store/schedulerStyles";
import { useUi } from "../../store/uiStore";
import { CURVES, type CurveKey, curveOf, curvesOf, driftMarks, summaryOf } from "./learningCurve";

const MOST_VERSIONS = 120;

function Header({ curve, run, style }: { curve: LearningCurve; run: RunDetail; style: SchedulerStyle }) {
  const found = summaryOf(curve);
  const learners = run.comparison.filter((row) => row.model_version !== null).map((row) => row.name);
  const styles = useStylesOf(learners);
  return (
    <section className="panel space-y-4 p-4" aria-label="Summary">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <h1 className="flex items-center gap-3 font-semibold text-20">
          <SchedulerGlyph style={style} size={18} />
          {style.label}: what it learned
        </h1>
        <p className="text-12 text-muted">
          run{" "}
          <Link to={{ view: "run", id: run.run_id }} className="text-accent underline underline-offset-4">
            {runName(run)}
          </Link>
          , {run.scenario}, {count(run.tasks)} tasks
        </p>
        <nav aria-label="Learners of the run" className="flex gap-2 md:ml-auto">
          {[...styles.values()].map((one) => (
            <Link
              key={one.name}
              to={{ view: "learning", id: run.run_id, name: one.name }}
              aria-current={one.name === style.name ? "page" : undefined}
              className="inline-flex h-10 items-center rounded-control border border-control px-3 text-12 hover:bg-raised aria-[current]:border-accent aria-[current]:bg-raised md:h-8"
            >
              <SchedulerName style={one} />
            </Link>
          ))}
        </nav>
      </div>
      <dl className="grid grid-cols-2 gap-3 md:grid-cols-5">
        <Figure label="Model versions" value={count(found.versions)}>{`${count(found.drifts)} after drift`}</Figure>
        <Figure label="Typical error now" value={percent(found.last)}>{`${percent(found.first)} at first`}</Figure>
        <Figure label="Stated uncertainty" value={percent(found.uncertainty)}>
          {percent(found.coverage)} of durations inside the 95 % interval
        </Figure>
        <Figure label="Regret now" value={time(found.regret)}>
          against the oracle, per task
        </Figure>
        <Figure label="Predictions" value={count(found.predictions)}>
          {curve.sampled ? "in a sample" : "all tasks"}
        </Figure>
      </dl>
    </section>
  );
}

function Curves({ curve, style }: { curve: LearningCurve; style: SchedulerStyle }) {
  const [key, setKey] = useState<CurveKey>("error");
  const chosen = CURVES.find((one) => one.value === key) ?? CURVES[0];
  const points = curveOf(curve, chosen.value);
  const marks = driftMarks(curve);
  const history = new Map(curve.history.map((one) => [one.version, one]));
  return (
    <Panel
      title="Learning curve"
      subtitle={chosen.long}
      state={
        points.length
          ? { kind: "ready" }
          : { kind: "empty", title: "No values yet", hint: "The scheduler has not decided with a model." }
      }
      table={() => ({
        name: `learning-${curve.scheduler}`,
        columns: [
          { key: "version", label: "version", numeric: true },
          { key: "first_ordinal", label: "from task", numeric: true, show: (v) => count(v as number) },
          { key: "n", label: "tasks", numeric: true, show: (v) => count(v as number) },
          { key: "error", label: "typical error", numeric: true, show: (v) => percent(v as number) },
          { key: "uncertainty", label: "uncertainty", numeric: true, show: (v) => percent(v as number) },
          { key: "mean_latency", label: "latency", numeric: true, show: (v) => time(v as number) },
          { key: "mean_regret", label: "regret", numeric: true, show: (v) => time(v as number) },
          { key: "loss", label: "loss", numeric: true, show: (v) => significant(v as number | null) },
        ],
        rows: curve.versions.map((v) => [
          v.version,
          v.first_ordinal,
          v.n,
          v.error,
          v.uncertainty,
          v.mean_latency,
          v.mean_regret,
          history.get(v.version ?? -1)?.loss ?? null,
        ]),
      })}
      actions={
        <SegmentedControl
          label="Curve"
          choices={curvesOf(curve)}
          value={key}
          onChange={setKey}
          className="md:h-7"
        />
      }
      note={`Each point is the mean over the tasks that a model version decided; above 120 versions they are joined. Amber: drift was found (${count(marks.length)}).`}
      bodyClass="flex flex-col"
      className="min-h-80"
    >
      <TrendChart
        series={[{ style, points }]}
        unit={chosen.kind}
        marks={marks}
        xTicks={ticks(0, points.at(-1)?.x ?? 1, 6).map((at) => ({ at, text: compact(at) }))}
        xTitle="task of the run"
        nameOf={(x) => `from task ${count(x)}`}
        label={`${chosen.long} of ${style.label} by model version`}
      />
    </Panel>
  );
}

function Versions({ curve, style }: { curve: LearningCurve; style: SchedulerStyle }) {
  const versions = thinVersions(curve.history, MOST_VERSIONS);
  const ordinals = new Map(curve.versions.map((one) => [one.version, one.first_ordinal]));
  const first = curve.history[0]?.at_task ?? 0;
  return (
    <Panel
      title="Versions"
      subtitle="1 − R² of the predictions each version replaced; samples below"
      state={
        versions.length
          ? { kind: "ready" }
          : { kind: "empty", title: "No version is stored", hint: "A learned model stores one at each training." }
      }
      note="Amber: trained after drift was found. Hollow: trained before the run. Arrow keys select a version."
      bodyClass="flex flex-col"
      className="min-h-80"
    >
      <ModelVersionTimeline
        versions={toMarks(versions, (task) => {
          const own = curve.history.find((one) => one.at_task === task);
          return ordinals.get(own?.version ?? -1) ?? Math.max(0, task - first);
        })}
        color={style.color}
        cursor={null}
        label={`Versions of ${style.label}; arrow keys select a version`}
      />
    </Panel>
  );
}

function Kinds({ curve }: { curve: LearningCurve }) {
  const data: TableData = {
    name: `kinds-${curve.scheduler}`,
    columns: [
      { key: "kind", label: "kind" },
      { key: "predictions", label: "predictions", numeric: true, show: (v) => count(v as number) },
      { key: "mean_predicted", label: "predicted", numeric: true, show: (v) => time(v as number) },
      { key: "mean_actual", label: "actual", numeric: true, show: (v) => time(v as number) },
      { key: "error", label: "typical error", numeric: true, show: (v) => percent(v as number) },
      { key: "bias", label: "bias", numeric: true, show: (v) => percent(v as number) },
      { key: "uncertainty", label: "stated", numeric: true, show: (v) => percent(v as number) },
      { key: "coverage", label: "within 95 %", numeric: true, show: (v) => percent(v as number) },
    ],
    rows: curve.kinds.map((k) => [
      k.kind || "generic",
      k.predictions,
      k.mean_predicted,
      k.mean_actual,
      k.error,
      k.bias,
      k.uncertainty,
      k.coverage,
    ]),
  };
  return (
    <Panel
      title="Accuracy by kind of task"
      subtitle="predicted against actual execution time"
      state={
        curve.kinds.some((kind) => kind.predictions > 0)
          ? { kind: "ready" }
          : {
              kind: "empty",
              title: "No predictions",
              hint: "This scheduler has not predicted a duration in this run.",
            }
      }
      table={() => data}
      note="Typical error: half of the predictions are closer. Bias: above 0 % durations are predicted too long. Stated: one standard deviation that the model gives itself."
    >
      <ScrollRegion label="Accuracy by kind">
        <Table data={data} caption="Accuracy by kind of task" />
      </ScrollRegion>
    </Panel>
  );
}

/** Importances and the state of the learner, which are in the memory of a live run only. */
function Model({ name, live }: { name: string; live: boolean }) {
  const models = useModels(10_000, 200);
  const model = live ? models.data?.find((one) => one.scheduler_name === name) : undefined;
  const shares = Object.entries(model?.feature_importance ?? {}).sort((a, b) => b[1] - a[1]);
  const agent = model?.agent ?? null;
  return (
    <Panel
      title={agent && !shares.length ? "Learning agent" : "Importance"}
      subtitle={agent && !shares.length ? "current state" : "share of the change in predicted time"}
      state={
        !live
          ? {
              kind: "empty",
              title: "Of the live run only",
              hint: "Importances are computed from the model in memory and are not stored with a run.",
            }
          : shares.length || agent
            ? { kind: "ready" }
            : queryState(models, "Could not load the model")
      }
      note={
        shares.length
          ? "Permutation importance: each property of the newest tasks is shuffled among them. It holds for forests and for the regression by kinds, which has no splits to count."
          : "Importances are not known yet. Durations come from a regression by kinds; the table shows its errors and stated uncertainty."
      }
    >
      <ShareBars shares={shares} />
      {agent ? (
        <dl className="mt-3 grid grid-cols-2 gap-2 text-12 md:grid-cols-3">
          <Figure label="Exploration ε" value={significant(agent.epsilon)}>
            share of random trials
          </Figure>
          <Figure label="Updates" value={count(agent.updates)}>
            steps of the network
          </Figure>
          {agent.loss === null ? null : (
            <Figure label="Loss" value={significant(agent.loss)}>
              of the last step
            </Figure>
          )}
        </dl>
      ) : null}
    </Panel>
  );
}

/** View of a learned scheduler in a run: learning curve, versions, accuracy and importances. */
export default function LearningView() {
  const route = useUi((s) => s.route);
  const [id, name] = route.view === "learning" ? [route.id, route.name] : ["", ""];
  const poll = usePollInterval(10_000);
  const run = useQuery({
    queryKey: ["run", id],
    queryFn: ({ signal }) => api.run(id, { signal }),
    enabled: isRunId(id),
  });
  const live = run.data !== undefined && run.data.status !== "stopped";
  const query = useQuery({
    queryKey: ["learning", id, name],
    queryFn: ({ signal }) => api.learning(id, name, { signal }),
    enabled: isRunId(id),
    refetchInterval: live ? poll : false,
  });
  const style = useStylesOf([name]).get(name);
  if (!isRunId(id) || isUnknownRun(query.error))
    return (
      <EmptyPage title="This run is not in the database" mono={id}>
        It may have been deleted, or the link comes from another server.
      </EmptyPage>
    );
  if (!query.data || !run.data || !style)
    return (
      <section className="panel min-h-64 p-4">
        <h1 className="sr-only">Learning</h1>
        <PanelBody state={queryState(query.data ? run : query, "Could not load the learning curve", "lines")}>
          {null}
        </PanelBody>
      </section>
    );
  if (query.data.versions.every((one) => one.version === null) && query.data.history.length === 0)
    return (
      <EmptyPage title={`${style.label} does not learn`}>
        It is a fixed rule, or it did not take part in this run. Learned schedulers have model versions.
      </EmptyPage>
    );
  return (
    <div className="space-y-4">
      <Header curve={query.data} run={run.data} style={style} />
      <div className="grid gap-4 xl:grid-cols-2">
        <Curves curve={query.data} style={style} />
        <Versions curve={query.data} style={style} />
      </div>
      <div className="grid gap-4 xl:grid-cols-[8fr_4fr]">
        <Kinds curve={query.data} />
        <Model name={name} live={live} />
      </div>
    </div>
  );
}
