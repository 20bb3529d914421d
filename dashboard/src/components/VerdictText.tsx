import { ArrowRight, CircleCheck, Equal, EyeOff } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { Verdict, VerdictCause } from "../client/models";
import { count, estimate, times } from "../lib/format";
import { type SchedulerStyle, shortLabel } from "../lib/schedulerStyle";
import { classNames } from "./ui/classNames";
import { SchedulerGlyph } from "./ui/SchedulerGlyph";

interface VerdictProps {
  verdict: Verdict;
  styles: readonly SchedulerStyle[];
}

function Badge({ children, clear, ...rest }: { children: ReactNode; clear?: boolean; title?: string }) {
  return (
    <span
      className={classNames(
        "inline-flex h-6 items-center gap-1.5 whitespace-nowrap rounded-[6px] border px-2 text-12",
        clear ? "border-ok/50 text-ok max-sm:hidden" : "border-control",
      )}
      {...rest}
    >
      {children}
    </span>
  );
}

/** How close the leading group is, and how certain its lead is. */
function Badges({ verdict }: { verdict: Verdict }) {
  const clear = verdict.certainty === "certain";
  return (
    <p className="mt-1 flex flex-wrap items-center gap-2" data-testid="leading-group">
      {verdict.group_text ? (
        <Badge>
          <Equal size={13} aria-hidden="true" />
          {verdict.group_text}
        </Badge>
      ) : null}
      {verdict.certainty_text ? (
        <Badge
          clear={clear}
          title={
            clear
              ? "The 95 % intervals do not overlap, and the difference is at least 1 %"
              : "Significant means that the 95 % intervals do not overlap; a difference below 1 % does not matter"
          }
        >
          {clear ? <CircleCheck size={13} aria-hidden="true" /> : <Equal size={13} aria-hidden="true" />}
          <span data-testid="certainty">{verdict.certainty_text}</span>
        </Badge>
      ) : null}
    </p>
  );
}

/** A title with the glyph before each label of the leading group. */
function Title({ verdict, styles }: VerdictProps) {
  const labels = verdict.rows.flatMap(({ name, label }) => {
    const style = styles.find((item) => item.name === name);
    return style && verdict.group?.includes(name) ? [{ label, style }] : [];
  });
  const names = labels.map(({ label }) => label.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return verdict.title.split(new RegExp(`(${names.join("|")})`)).map((part, index) => {
    const own = labels.find(({ label }) => label === part);
    return own ? (
      <span key={own.style.name} className="glow-text whitespace-nowrap text-lead">
        <SchedulerGlyph style={own.style} size={18} className="mr-1 inline align-[-2px] sm:mr-2" />
        {part}
      </span>
    ) : (
      <span key={index}>{part}</span>
    );
  });
}

function Figure({ value, word, children }: { value: number; word?: string; children: ReactNode }) {
  return (
    <div className="min-w-0 border-hair not-first:border-l not-first:pl-3">
      <dt className="sr-only">{children}</dt>
      <dd className="whitespace-nowrap font-semibold text-20 sm:text-28">{times(value)}</dd>
      <dd className="text-muted" aria-hidden="true">
        {word ? <strong className="font-semibold text-ink">{word} </strong> : null}
        {children}
      </dd>
    </div>
  );
}

/** The leading group against the slowest scheduler, against the best of the rest, and against the lower bound. */
function Figures({ verdict, styles }: VerdictProps) {
  const style = (name: string | null) => styles.find((item) => item.name === name);
  const contestants = verdict.rows.filter((row) => row.mean_latency !== null && !style(row.name)?.told);
  const slowest = contestants.at(-1);
  const mine = verdict.rows.find((row) => row.name === verdict.leader)?.mean_latency;
  const second = style(verdict.runner_up);
  const last = style(slowest?.name ?? null);
  const far = mine && slowest?.mean_latency ? slowest.mean_latency / mine : null;
  return (
    <dl className="mt-3 grid grid-cols-[repeat(auto-fit,minmax(88px,1fr))] gap-x-3" data-testid="gap">
      {far && last && last !== second && !verdict.group?.includes(last.name) ? (
        <Figure value={far} word="faster">
          than <SchedulerGlyph style={last} size={10} className="inline" /> {shortLabel(last)}
        </Figure>
      ) : null}
      {verdict.lead && second && verdict.certainty !== "close" ? (
        <Figure
          value={verdict.lead >= 1 ? verdict.lead : 1 / verdict.lead}
          word={verdict.lead >= 1 ? "faster" : "slower"}
        >
          than <SchedulerGlyph style={second} size={10} className="inline" /> {shortLabel(second)}
          <span className="max-lg:hidden">{last !== second && !second.told ? ", best of the rest" : ""}</span>
        </Figure>
      ) : null}
      {verdict.over_floor === null ? null : (
        <Figure value={verdict.over_floor}>
          <span
            title={`Lower bound ${estimate(verdict.floor, null, "time")}: no scheduler can have a lower mean latency on these tasks`}
          >
            the lower bound<span className="max-lg:hidden">, which none can beat</span>
          </span>
        </Figure>
      )}
    </dl>
  );
}

/** The leading group, what it knows, and its distance to the others and to the lower bound. */
export function Leader({ verdict, styles, level = 1 }: VerdictProps & { level?: 1 | 2 }) {
  const Heading = level === 1 ? "h1" : "h2";
  const knowledge = verdict.knowledge_text;
  return (
    <div className="min-w-0">
      <p className="text-muted">
        Fastest by mean latency, waiting included{" "}
        <span className="text-faint max-sm:hidden">· whole run, {count(verdict.tasks)} tasks</span>
      </p>
      <Heading className="mt-0.5 font-semibold text-[19px] leading-7 sm:text-28" title={verdict.sentence}>
        <Title verdict={verdict} styles={styles} />
      </Heading>
      <Badges verdict={verdict} />
      {knowledge ? (
        <p className="mt-1.5 sm:text-14">
          <EyeOff size={14} aria-hidden="true" className="mr-2 inline align-[-2px] text-muted" />
          {knowledge.charAt(0).toUpperCase() + knowledge.slice(1)}
        </p>
      ) : null}
      <Figures verdict={verdict} styles={styles} />
    </div>
  );
}

const LINK =
  "rounded-[4px] text-accent underline decoration-accent/50 underline-offset-2 hover:decoration-accent max-md:py-2";

interface CauseProps {
  cause: VerdictCause;
  style: SchedulerStyle | undefined;
  /** Shows a cause in the Gantt chart, beside the leader. */
  onShow: (cause: VerdictCause) => void;
  /** Words of the link that does so. */
  showLabel?: string;
  /** Opens a task that shows it. */
  onTask: (task: number, scheduler: string) => void;
}

function CauseLine({ cause, style, onShow, showLabel = "show side by side", onTask }: CauseProps) {
  const { task, scheduler } = cause.reason;
  return (
    <li className="flex flex-wrap items-baseline gap-x-3 gap-y-1" data-testid="cause" data-code={cause.reason.code}>
      <span className="md:text-14">
        {style ? <SchedulerGlyph style={style} className="mr-2 inline" /> : null}
        {cause.sentence}
      </span>
      <button type="button" className={LINK} onClick={() => onShow(cause)}>
        <ArrowRight size={12} aria-hidden="true" className="mr-1 inline" />
        {showLabel}
      </button>
      {task === null ? null : (
        <button type="button" className={classNames(LINK, "max-md:hidden")} onClick={() => onTask(task, scheduler)}>
          task {task}
        </button>
      )}
      {cause.also ? <span className="text-faint max-md:hidden">{cause.also}</span> : null}
    </li>
  );
}

/** Causes of the losses, the largest first. */
export function Why({ verdict, styles, ...links }: VerdictProps & Omit<CauseProps, "cause" | "style">) {
  const [all, setAll] = useState(false);
  if (!verdict.why.length) return null;
  const more = verdict.why.length - 1;
  return (
    <div className="mt-3 flex gap-3 border-hair border-t pt-3">
      <span className="inline-flex h-6 shrink-0 items-center rounded-[6px] border border-accent/50 px-2 text-accent">
        Why
      </span>
      <ul className="flex min-w-0 flex-1 flex-col gap-1.5">
        {(all ? verdict.why : verdict.why.slice(0, 1)).map((cause) => (
          <CauseLine
            key={cause.reason.code}
            cause={cause}
            style={styles.find((style) => style.name === cause.reason.scheduler)}
            {...links}
          />
        ))}
      </ul>
      {more > 0 ? (
        <button
          type="button"
          aria-expanded={all}
          className={classNames(LINK, "self-start whitespace-nowrap max-md:hidden")}
          onClick={() => setAll(!all)}
        >
          {all ? "fewer" : `${more} more`}
        </button>
      ) : null}
    </div>
  );
}
