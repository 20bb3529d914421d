import { Activity, FlaskConical } from "lucide-react";
import type { Run } from "../../client/models";
import { classNames } from "./classNames";

/** Badge that says whether a run was simulated or measured. */
export function SourceTag({ source }: { source: Run["source"] }) {
  const measured = source === "measured";
  const Icon = measured ? Activity : FlaskConical;
  return (
    <span
      className={classNames(
        "inline-flex h-6 items-center gap-1.5 whitespace-nowrap rounded-[6px] border px-2",
        measured ? "border-ok/50 text-ok" : "border-control/60 text-muted",
      )}
    >
      <Icon size={13} aria-hidden="true" />
      {source}
    </span>
  );
}

const STATUS: Record<Run["status"], { text: string; tone: string }> = {
  running: { text: "live", tone: "text-ok" },
  paused: { text: "paused", tone: "text-accent" },
  stopped: { text: "ended", tone: "text-faint" },
};

export function RunStatus({ status }: { status: Run["status"] }) {
  const { text, tone } = STATUS[status];
  return <span className={tone}>{text}</span>;
}

/** Letter A or B of a run in a comparison of two. */
export function RunLetter({ children, on = true }: { children: string; on?: boolean }) {
  return (
    <span
      aria-hidden="true"
      className={classNames(
        "inline-flex size-5 shrink-0 items-center justify-center rounded-[5px] border font-semibold text-12",
        on ? "border-accent bg-accent text-on-accent" : "border-control text-transparent",
      )}
    >
      {children}
    </span>
  );
}
