import { Check, Equal, TriangleAlert } from "lucide-react";
import type { CSSProperties } from "react";
import type { Verdict, VerdictCause, VerdictComparand } from "../../client/models";
import { classNames } from "../../components/ui/classNames";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { Leader, Why } from "../../components/VerdictText";
import { PanelBody } from "../../components/widget/PanelBody";
import { useLiveBody } from "../../components/widget/panelState";
import { count, parts, type Quantity } from "../../lib/format";
import { type SchedulerStyle, shortLabel } from "../../lib/schedulerStyle";
import { useLive } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useFocus, useRow } from "../../store/selectors";
import { setUi } from "../../store/uiStore";

const TONES = {
  better: { icon: Check, className: "text-ok" },
  worse: { icon: TriangleAlert, className: "text-error" },
  close: { icon: Equal, className: "text-muted" },
} as const;

interface CardProps {
  label: string;
  value: number | null;
  kind: Quantity;
  against: VerdictComparand | undefined;
}

function Card({ label, value, kind, against }: CardProps) {
  const { value: text, unit } = parts(value, kind);
  const tone = against ? TONES[against.tone] : null;
  return (
    <div className="min-w-0 xl:border-hair xl:border-l xl:pl-3">
      <dt className="truncate text-muted">{label}</dt>
      <dd className="mt-0.5 whitespace-nowrap">
        <span className="font-semibold text-20">{text}</span>
        {unit ? <span className="text-14 text-muted"> {unit}</span> : null}
      </dd>
      {against && tone && against.text !== "–" ? (
        <dd className={classNames("flex items-center gap-1 whitespace-nowrap", tone.className)}>
          <tone.icon size={12} aria-hidden="true" className="shrink-0" />
          <span className="truncate">{against.text}</span>
        </dd>
      ) : null}
    </div>
  );
}

/** Buttons that choose the scheduler of the cards. */
function FocusButtons({ against }: { against: SchedulerStyle | null }) {
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
      <span className="ml-1 truncate font-medium">{focus ? shortLabel(focus) : null}</span>
      {against ? (
        <span className="inline-flex min-w-0 items-center gap-1 text-muted">
          per task, against <SchedulerGlyph style={against} size={10} />
          <span className="truncate">{shortLabel(against)}</span>
        </span>
      ) : null}
    </div>
  );
}

function Cards({ verdict }: { verdict: Verdict }) {
  const focus = useFocus();
  const row = useRow(focus?.name ?? null);
  const styles = useSchedulerStyles();
  const judged = verdict.rows.find((one) => one.name === focus?.name);
  if (!row) return null;
  return (
    <div className="min-w-0">
      <FocusButtons against={styles.find((one) => one.name === judged?.against) ?? null} />
      <dl className="mt-2 grid grid-cols-2 gap-x-3 gap-y-3 sm:grid-cols-4">
        <Card label="Mean latency" value={row.mean_latency} kind="time" against={judged?.latency} />
        <Card
          label={`p99 of the newest ${count(row.window)}`}
          value={row.p99_latency}
          kind="time"
          against={judged?.p99}
        />
        <Card label="Energy" value={row.mean_energy} kind="energy" against={judged?.energy} />
        <Card label="Cost" value={row.mean_cost} kind="cost" against={judged?.cost} />
      </dl>
    </div>
  );
}

function showInGantt(cause: VerdictCause): void {
  const { window: span, scheduler } = cause.reason;
  setUi({
    focus: scheduler,
    ...(span && span[1] > span[0] ? { range: { kind: "fixed", from: Math.max(0, span[0]), to: span[1] } } : {}),
  });
  document.getElementById("gantt")?.scrollIntoView({ block: "start" });
}

/** Headline: the leader, its distance to the lower bound and to the next one, key figures, and why the others lose. */
export function Headline() {
  const verdict = useLive((s) => s.verdict);
  const styles = useSchedulerStyles();
  const state = useLiveBody({ shape: "lines" });
  const leader = styles.find((one) => one.name === verdict?.leader);
  const style = { "--lead": leader?.color ?? "var(--control)" } as CSSProperties;
  return (
    <section
      aria-label="Headline"
      style={style}
      className="panel panel-glow mb-4 min-h-32 p-4"
      data-testid="headline"
    >
      {state.kind !== "ready" || !verdict || !leader ? (
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
        <div className="grid items-center gap-x-8 gap-y-4 lg:grid-cols-2">
          <Leader verdict={verdict} style={leader} />
          <div className="min-w-0 max-lg:border-hair max-lg:border-t max-lg:pt-4">
            <Cards verdict={verdict} />
          </div>
          <Why verdict={verdict} styles={styles} onShow={showInGantt} />
        </div>
      )}
    </section>
  );
}
