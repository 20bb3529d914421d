import { ArrowRight, CircleCheck, Equal } from "lucide-react";
import { useState } from "react";
import type { Verdict, VerdictCause } from "../client/models";
import { count, estimate } from "../lib/format";
import type { SchedulerStyle } from "../lib/schedulerStyle";
import { setUi } from "../store/uiStore";
import { classNames } from "./ui/classNames";
import { SchedulerGlyph } from "./ui/SchedulerGlyph";

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

/** The leader, its distance to the lower bound and to the next one, and how certain that is. */
export function Leader({ verdict, style, level = 1 }: { verdict: Verdict; style: SchedulerStyle; level?: 1 | 2 }) {
  const Heading = level === 1 ? "h1" : "h2";
  const [name, rest] = splitTitle(verdict.title);
  const bound = estimate(verdict.floor, null, "time");
  return (
    <div className="min-w-0">
      <p className="text-muted">
        Leader by mean latency, waiting included <span className="text-faint">· {count(verdict.tasks)} tasks</span>
      </p>
      <Heading className="mt-0.5 flex items-center gap-3 font-semibold text-28" title={verdict.sentence}>
        <SchedulerGlyph style={style} size={20} />
        <span className="min-w-0">
          <span className="glow-text" style={{ color: style.color }}>
            {name}
          </span>
          {rest}
        </span>
      </Heading>
      <p className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-2 text-14">
        <span
          className="font-medium"
          data-testid="gap"
          title={
            verdict.floor === null
              ? undefined
              : `No scheduler can have a mean latency below ${bound} for these tasks`
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

const LINK =
  "rounded-[4px] text-accent underline decoration-accent/50 underline-offset-2 hover:decoration-accent max-md:py-2";

interface CauseProps {
  cause: VerdictCause;
  style: SchedulerStyle | undefined;
  /** Shows a cause in the Gantt chart. */
  onShow: (cause: VerdictCause) => void;
}

function CauseLine({ cause, style, onShow }: CauseProps) {
  const { task } = cause.reason;
  return (
    <li className="flex flex-wrap items-baseline gap-x-3 gap-y-1" data-testid="cause" data-code={cause.reason.code}>
      <span className="inline-flex items-baseline gap-2 text-14">
        {style ? <SchedulerGlyph style={style} className="self-center" /> : null}
        <span>{cause.sentence}</span>
      </span>
      <button type="button" className={LINK} onClick={() => onShow(cause)}>
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

interface WhyProps extends Pick<CauseProps, "onShow"> {
  verdict: Verdict;
  styles: readonly SchedulerStyle[];
}

/** Causes of the losses, the largest first. */
export function Why({ verdict, styles, onShow }: WhyProps) {
  const [all, setAll] = useState(false);
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
              onShow={onShow}
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
