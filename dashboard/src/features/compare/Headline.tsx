import { ArrowRight, Check, CircleCheck, Equal, TriangleAlert } from "lucide-react";
import { type CSSProperties, useState } from "react";
import type { Verdict, VerdictCause, VerdictComparand } from "../../client/models";
import { classNames } from "../../components/ui/classNames";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { PanelBody } from "../../components/widget/PanelBody";
import { useLiveBody } from "../../components/widget/panelState";
import { count, estimate, parts, type Quantity } from "../../lib/format";
import type { SchedulerStyle } from "../../lib/schedulerStyle";
import { useLive } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useFocus, useRow } from "../../store/selectors";
import { setUi } from "../../store/uiStore";

const GREEN = new Set<Verdict["certainty"]>(["certain"]);

function Certainty({ verdict }: { verdict: Verdict }) {
  if (!verdict.certainty_text) return null;
  const clear = GREEN.has(verdict.certainty);
  return (
    <span
      data-testid="certainty"
      title={
        clear
          ? "The 95 % intervals do not overlap, and the difference is at least 1 %"
          : "Significant means that the 95 % intervals do not overlap; a difference below 1 % does not matter"
      }
      className={classNames(
        "inline-flex h-6 items-center gap-1.5 whitespace-nowrap rounded-[6px] border px-2 text-12",
        clear ? "border-ok/50 text-ok" : "border-control text-muted",
      )}
    >
      {clear ? <CircleCheck size={13} aria-hidden="true" /> : <Equal size={13} aria-hidden="true" />}
      {verdict.certainty_text}
    </span>
  );
}

function Leader({ verdict, style }: { verdict: Verdict; style: SchedulerStyle }) {
  const [name, rest] = splitTitle(verdict.title);
  const floor = estimate(verdict.floor, null, "time");
  return (
    <div className="min-w-0">
      <p className="text-muted">
        Leader by mean latency, waiting included <span className="text-faint">· {count(verdict.tasks)} tasks</span>
      </p>
      <h1 className="mt-0.5 flex items-center gap-3 font-semibold text-28" title={verdict.sentence}>
        <SchedulerGlyph style={style} size={20} />
        <span className="min-w-0">
          <span className="glow-text" style={{ color: style.color }}>
            {name}
          </span>
          {rest}
        </span>
      </h1>
      <p className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-2 text-14">
        <span
          className="font-medium"
          data-testid="gap"
          title={
            verdict.floor === null
              ? undefined
              : `Floor ${floor}: a lower bound on the mean latency of these tasks, which no scheduler can beat`
          }
        >
          {verdict.distance}
        </span>
        <Certainty verdict={verdict} />
      </p>
    </div>
  );
}

/** The label of the leader, and the verb behind it. */
function splitTitle(title: string): [string, string] {
  const match = /^(.*?)( leads| is ahead)?$/.exec(title);
  return [match?.[1] ?? title, match?.[2] ?? ""];
}

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
      <span className="ml-1 truncate font-medium">{focus?.label}</span>
      {against ? (
        <span className="inline-flex min-w-0 items-center gap-1 text-muted">
          per task, against <SchedulerGlyph style={against} size={10} />
          <span className="truncate">{against.label}</span>
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

const LINK =
  "rounded-[4px] text-accent underline decoration-accent/50 underline-offset-2 hover:decoration-accent max-md:py-2";

function CauseLine({ cause, style }: { cause: VerdictCause; style: SchedulerStyle | undefined }) {
  const { task } = cause.reason;
  return (
    <li className="flex flex-wrap items-baseline gap-x-3 gap-y-1" data-testid="cause" data-code={cause.reason.code}>
      <span className="inline-flex items-baseline gap-2 text-14">
        {style ? <SchedulerGlyph style={style} className="self-center" /> : null}
        <span>{cause.sentence}</span>
      </span>
      <button type="button" className={LINK} onClick={() => showInGantt(cause)}>
        <ArrowRight size={12} aria-hidden="true" className="mr-1 inline" />
        show in Gantt
      </button>
      {task === null ? null : (
        <button type="button" className={LINK} onClick={() => setUi({ task, focus: cause.reason.scheduler })}>
          task {task}
        </button>
      )}
      {cause.also ? <span className="text-faint md:ml-auto">{cause.also}</span> : null}
    </li>
  );
}

/** Causes of the losses, the largest first. */
function Why({ verdict }: { verdict: Verdict }) {
  const [all, setAll] = useState(false);
  const styles = useSchedulerStyles();
  if (!verdict.why.length) return null;
  const shown = all ? verdict.why : verdict.why.slice(0, 2);
  return (
    <div className="col-span-full flex gap-3 border-hair border-t pt-3">
      <span className="inline-flex h-6 shrink-0 items-center rounded-[6px] border border-accent/50 px-2 text-accent">
        Why
      </span>
      <div className="min-w-0 flex-1">
        <ul className="flex flex-col gap-1.5">
          {shown.map((cause) => (
            <CauseLine
              key={cause.reason.code}
              cause={cause}
              style={styles.find((one) => one.name === cause.reason.scheduler)}
            />
          ))}
        </ul>
        {verdict.why.length > 2 ? (
          <button
            type="button"
            aria-expanded={all}
            className={classNames(LINK, "mt-1")}
            onClick={() => setAll(!all)}
          >
            {all ? "fewer" : `${verdict.why.length - 2} more`}
          </button>
        ) : null}
      </div>
    </div>
  );
}

/** Headline: the leader, its distance to the floor and to the next one, key figures, and why the others lose. */
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
          <Why verdict={verdict} />
        </div>
      )}
    </section>
  );
}
