import { useMutation } from "@tanstack/react-query";
import { RefreshCw } from "lucide-react";
import type { CSSProperties } from "react";
import { api } from "../../client/api";
import { Link } from "../../components/Link";
import { announce } from "../../components/ui/announce";
import { Button } from "../../components/ui/Button";
import { Figure } from "../../components/ui/Figure";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { PanelBody } from "../../components/widget/PanelBody";
import { useLiveBody } from "../../components/widget/panelState";
import { count, estimate, percent, ratioEstimate, significant } from "../../lib/format";
import { REFERENCE } from "../../lib/schedulerStyle";
import { useLive } from "../../store/liveStore";
import { useModels } from "../../store/modelQueries";
import { useRow } from "../../store/selectors";
import { useSelectedScheduler } from "./selectedScheduler";

export function useModel(name: string) {
  const query = useModels(5_000, 1);
  return { query, model: query.data?.find((model) => model.scheduler_name === name) ?? null };
}

const STATES: Record<string, string> = {
  ready: "fixed rule without a model",
  warming: "warming up: follows a simple rule until it has learned",
  learned: "decides with its own model",
  fallback: "follows a simpler rule while that is better",
  off: "disabled after an error",
};

/** Summary of one scheduler: gap to the oracle, regret, GPU share and model. */
export function SchedulerSummary() {
  const scheduler = useSelectedScheduler();
  const row = useRow(scheduler.name);
  const oracle = useRow(REFERENCE);
  const summary = useLive((s) => s.schedulers.find((one) => one.name === scheduler.name)?.summary ?? "");
  const runId = useLive((s) => s.runId ?? s.status?.run_id ?? null);
  const { model } = useModel(scheduler.name);
  const state = useLiveBody({ shape: "lines" });
  const retrain = useMutation({
    mutationFn: () => api.retrain(scheduler.name),
    onSuccess: () => announce("Retraining requested"),
    onError: (error) => announce(error.message),
  });
  const newest = model?.versions.at(-1) ?? null;
  const ratio = row?.mean_latency != null && oracle?.mean_latency ? row.mean_latency / oracle.mean_latency : null;
  const half = row?.regret_ci95 != null && oracle?.mean_latency ? row.regret_ci95 / oracle.mean_latency : null;
  return (
    <section
      aria-label="Headline"
      style={{ "--lead": scheduler.color } as CSSProperties}
      className="panel panel-glow mb-4 min-h-32 p-4"
    >
      <PanelBody state={state.kind === "ready" && !row ? { kind: "loading" } : state}>
        {row ? (
          <div className="grid items-center gap-x-8 gap-y-4 xl:grid-cols-[minmax(320px,1fr)_2fr]">
            <div className="min-w-0">
              <h1 className="flex items-center gap-3 font-semibold text-28">
                <SchedulerGlyph style={scheduler} size={20} />
                <span className="glow-text min-w-0 truncate" style={{ color: scheduler.color }}>
                  {scheduler.label}
                </span>
              </h1>
              <p className="mt-1 text-12 text-muted">{summary}</p>
              <p className="flex flex-wrap gap-x-3 text-12 text-faint">
                {STATES[row.state] ?? row.state}
                {model && runId ? (
                  <Link
                    to={{ view: "learning", id: runId, name: scheduler.name }}
                    className="text-accent underline underline-offset-4"
                  >
                    Learning curves
                  </Link>
                ) : null}
              </p>
            </div>
            <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-5">
              <Figure
                label="Gap to oracle"
                value={scheduler.reference ? "1.00×" : ratioEstimate(ratio, half)}
              >{`mean latency, n = ${count(row.tasks)}`}</Figure>
              <Figure
                label="Regret per task"
                value={scheduler.reference ? "–" : estimate(row.mean_regret, row.regret_ci95, "time")}
              >
                {half === null ? "needs more tasks for ±" : "95 % CI, paired"}
              </Figure>
              <Figure label="GPU share" value={percent(row.mean_gpu_fraction)}>
                mean over tasks
              </Figure>
              <Figure label="Model" value={row.model_version === null ? "–" : `v${row.model_version}`}>
                {newest ? `${count(newest.samples)} samples, ${newest.trigger}` : "this scheduler does not learn"}
              </Figure>
              <Figure label="Model R²" value={newest ? significant(newest.r2) : "–"}>
                {model ? (
                  <Button
                    variant="quiet"
                    className="-ml-2 md:h-6 md:px-2"
                    icon={<RefreshCw size={13} aria-hidden="true" />}
                    disabled={retrain.isPending}
                    onClick={() => retrain.mutate()}
                  >
                    Retrain now
                  </Button>
                ) : (
                  "no model"
                )}
              </Figure>
            </dl>
          </div>
        ) : null}
      </PanelBody>
    </section>
  );
}
