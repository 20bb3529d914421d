import { useState } from "react";
import { ModelVersionTimeline } from "../../charts/ModelVersionTimeline";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { Select } from "../../components/ui/Select";
import { thinVersions, toMarks } from "../../components/versionMarks";
import { Panel } from "../../components/widget/Panel";
import type { BodyState, Tag } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { useMediaQuery } from "../../hooks/useMediaQuery";
import { count, date, significant, time } from "../../lib/format";
import { useModels } from "../../store/modelQueries";
import { useStylesOf } from "../../store/schedulerStyles";
import { positionOf } from "./cumulativeMeans";
import { useRunId, useTrends } from "./historyQueries";
import { usePlayback } from "./playbackStore";

/** Most marks; more would overlap. */
const MOST = 120;
/** More versions than the server stores of one model. */
const STORED = 1000;

/** Timeline of model versions with trigger, samples and fit. */
export function RetrainingTimeline() {
  const runId = useRunId();
  const buckets = useTrends().data?.buckets ?? [];
  const cursor = usePlayback((s) => s.at);
  const models = useModels(10_000, STORED);
  const narrow = useMediaQuery("(max-width: 767px)");
  const [wanted, setWanted] = useState<string | null>(null);
  const learners = (models.data ?? []).filter((model) => model.versions.length > 0);
  const styles = useStylesOf(learners.map((model) => model.scheduler_name));
  const names = [...styles.keys()];
  const name = wanted !== null && styles.has(wanted) ? wanted : (names[0] ?? null);
  const style = name === null ? null : (styles.get(name) ?? null);
  const versions = learners.find((model) => model.scheduler_name === name)?.versions ?? [];
  const thinned = thinVersions(versions, MOST);
  const trained = versions.at(-1)?.version ?? 0;
  const drifts = versions.filter((version) => version.trigger === "drift").length;
  const state: BodyState = !runId
    ? { kind: "empty" }
    : models.data && !learners.length
      ? { kind: "empty", title: "No learning scheduler in this run", hint: "Fixed rules have no model versions." }
      : queryState(models, "Could not load the models", "lines");
  const tag: Tag | null =
    thinned.length < versions.length ? { kind: "truncated", visible: thinned.length, of: versions.length } : null;
  return (
    <Panel
      title="Retraining timeline"
      subtitle="1 − R² of the predictions each version replaced, lower is better; samples below"
      state={state}
      tag={narrow ? null : tag}
      table={() => ({
        name: `versions-${name ?? ""}`,
        columns: [
          { key: "version", label: "version", numeric: true, show: (v) => `v${v}` },
          { key: "at_task", label: "at task id", numeric: true, show: (v) => count(v as number) },
          { key: "samples", label: "samples", numeric: true, show: (v) => count(v as number) },
          { key: "r2", label: "R²", numeric: true, show: (v) => significant(v as number, 5) },
          { key: "trigger", label: "trigger" },
          { key: "seconds", label: "took", numeric: true, show: (v) => time(v as number) },
          { key: "created_at", label: "at", numeric: true, show: (v) => date(v as number) },
        ],
        rows: versions.map((v) => [v.version, v.at_task, v.samples, v.r2, v.trigger, v.seconds, v.created_at]),
      })}
      actions={
        name !== null ? (
          <Select
            label="Learner"
            value={name}
            onChange={setWanted}
            options={names.map((one) => {
              const own = styles.get(one);
              return { value: one, label: own?.label ?? one, icon: own ? <SchedulerGlyph style={own} /> : null };
            })}
          />
        ) : null
      }
      note={
        <span className="flex flex-wrap items-center gap-x-4 gap-y-1">
          <span>
            {trained > versions.length
              ? `${count(versions.length)} of ${count(trained)} versions are stored`
              : `${count(versions.length)} versions`}
            , {count(drifts)} after drift
          </span>
          <span className="flex items-center gap-1.5">
            <i className="size-2 rounded-full" style={{ background: style?.color }} />
            on schedule
          </span>
          <span className="flex items-center gap-1.5">
            <svg width="10" height="10" viewBox="-5 -5 10 10" aria-hidden="true">
              <path d="M0-4.5L4.5 0L0 4.5L-4.5 0z" fill="var(--warn)" />
            </svg>
            after drift
          </span>
          <span>
            No R²: too few predictions to judge. Hollow bar: came trained, on {count(versions[0]?.samples)} samples.
            A model that learns from every outcome has a version at regular intervals.
          </span>
        </span>
      }
      bodyClass="flex flex-col"
    >
      <ModelVersionTimeline
        versions={toMarks(thinned, (task) => positionOf(buckets, task))}
        color={style?.color ?? "var(--accent)"}
        cursor={cursor}
        label={`Versions of ${style?.label ?? "the model"}; arrow keys select a version`}
      />
    </Panel>
  );
}
