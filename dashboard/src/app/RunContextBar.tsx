import { TriangleAlert, X } from "lucide-react";
import { type MouseEvent, type ReactNode, useRef, useState } from "react";
import { SavedViews } from "../components/SavedViews";
import { classNames } from "../components/ui/classNames";
import { SchedulerGlyph } from "../components/ui/SchedulerGlyph";
import { count, moment, shortRunId, significant } from "../lib/format";
import { type SchedulerStyle, shortLabel } from "../lib/schedulerStyle";
import { slowSpansOf } from "../lib/slowdown";
import { useLive } from "../store/liveStore";
import { hasTimeRange } from "../store/routes";
import { useSchedulerStyles } from "../store/schedulerStyles";
import { useDevices, useFocus } from "../store/selectors";
import { navigate, setUi, useUi } from "../store/uiStore";
import { DEFAULTS } from "../store/urlState";
import { RangePicker } from "./RangePicker";

function Fact({ label, wide, children }: { label: string; wide?: boolean; children: ReactNode }) {
  return (
    <span
      className={classNames(
        "whitespace-nowrap",
        wide && "max-md:hidden",
        "xl:border-hair xl:border-r xl:pr-3 xl:last-of-type:border-0",
      )}
    >
      <span className="text-faint">{label} </span>
      {children}
    </span>
  );
}

function platformText(devices: readonly { kind: string }[]): string {
  const counts = new Map<string, number>();
  for (const { kind } of devices) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, n]) => `${n} ${kind.toUpperCase()}${n > 1 ? "s" : ""}`).join(" + ");
}

function Facts() {
  const status = useLive((s) => s.status);
  const runId = useLive((s) => s.runId);
  if (!status) return <span className="text-faint">waiting for the server</span>;
  return (
    <>
      <Fact label="run">
        <span className="font-medium font-mono" title={runId ?? status.run_id ?? undefined}>
          {shortRunId(runId ?? status.run_id)}
        </span>
      </Fact>
      <Fact label="scenario">
        <span className="font-medium">{status.scenario}</span>
        <span className="text-muted"> · load {significant(status.load)}</span>
      </Fact>
      <Fact label="seed" wide>
        <span className="font-medium">{status.seed}</span>
      </Fact>
      <Fact label="platform" wide>
        <span className="font-medium">{status.platform.name}</span>
        <span className="text-muted"> {platformText(status.platform.devices)}</span>
      </Fact>
      {status.episode ? (
        <Fact label="episode">
          <span title="Between episodes all queues are emptied, and no task arrives meanwhile: devices look idle">
            <span className="font-medium">{status.episode.number}</span>
            <span className="text-muted"> · drained after every {count(status.episode.length)} tasks</span>
          </span>
        </Fact>
      ) : null}
      <Slow />
    </>
  );
}

/** What the page shows, in one line for newcomers. */
function Identity({ children }: { children: ReactNode }) {
  const schedulers = useSchedulerStyles().length;
  const source = useLive((s) => s.status?.source);
  if (!source || !schedulers) return null;
  return (
    <p className="mr-1 md:text-14" data-testid="identity">
      <span className="font-semibold">
        <span className="min-[1400px]:hidden">Hybrid Scheduler: </span>CPU, GPU or both?
      </span>{" "}
      {schedulers} {schedulers === 1 ? "scheduler places" : "schedulers place"} the same tasks.{" "}
      <span className="text-muted">{source === "measured" ? "Measured on real devices." : "Simulated."}</span>{" "}
      {children}
    </p>
  );
}

/** Says that a device is slower now. */
function Slow() {
  const slowdown = useLive((s) => s.status?.slowdown ?? null);
  const devices = useDevices();
  const now = useLive((s) => Math.floor(s.virtualTime));
  const slow = slowSpansOf(slowdown, devices, now, now + 1e-9);
  if (!slow?.spans.length) return null;
  return (
    <span
      className="inline-flex h-6 items-center gap-1.5 rounded-[6px] border border-warn/50 px-2 text-warn"
      title="Tasks that arrive now take longer there, under every scheduler"
      data-testid="slow-now"
    >
      <TriangleAlert size={13} aria-hidden="true" />
      {slow.who} {slow.label}
    </span>
  );
}

function toggle(styles: readonly SchedulerStyle[], visible: readonly string[] | null, name: string): void {
  const all = styles.map((style) => style.name);
  const current = visible ?? all;
  const next = current.includes(name)
    ? current.filter((item) => item !== name)
    : all.filter((item) => current.includes(item) || item === name);
  // Switching off the last scheduler shows all of them again instead of an empty page.
  setUi({ visible: next.length === 0 || next.length === all.length ? null : next });
}

/** Legend of the page: a click toggles a scheduler, a double click or Shift isolates it. */
function Chips() {
  const styles = useSchedulerStyles();
  const visible = useUi((s) => s.visible);
  const route = useUi((s) => s.route);
  const choosing = route.view === "scheduler";
  const focus = useFocus();
  const chosen = route.view === "scheduler" ? (route.name ?? focus?.name) : null;
  // A double click begins with a click, whose change it replaces.
  const before = useRef(visible);
  const isolate = (name: string, from: readonly string[] | null) =>
    setUi({ visible: from?.length === 1 && from[0] === name ? null : [name] });
  return (
    <div
      role="group"
      aria-label={choosing ? "Choose a scheduler" : "Visible schedulers"}
      className="thin-scroll flex gap-2 [--panel:var(--bg)] md:bg-none! max-md:overflow-x-auto max-md:pb-1 md:flex-wrap"
    >
      {styles.map((style) => {
        const on = choosing ? chosen === style.name : visible === null || visible.includes(style.name);
        const click = (event: MouseEvent) => {
          if (choosing) {
            navigate({ view: "scheduler", name: style.name });
            setUi({ focus: style.name });
          } else if (event.shiftKey) isolate(style.name, visible);
          else if (event.detail < 2) {
            before.current = visible;
            toggle(styles, visible, style.name);
          }
        };
        return (
          <button
            key={style.name}
            type="button"
            aria-pressed={on}
            onClick={click}
            onDoubleClick={choosing ? undefined : () => isolate(style.name, before.current)}
            title={
              choosing ? style.label : `${style.label}: click to ${on ? "hide" : "show"}, double click to isolate`
            }
            className={classNames(
              "inline-flex h-10 shrink-0 items-center gap-2 rounded-[6px] border px-2 text-12 transition-colors hover:bg-raised md:h-6",
              on ? "border-control/60 text-ink" : "border-control/60 border-dashed text-faint line-through",
              choosing && (on ? "border-accent bg-raised font-medium" : "border-solid no-underline"),
            )}
          >
            <SchedulerGlyph style={on || choosing ? style : { ...style, color: "var(--faint)" }} />
            <span className="truncate">{shortLabel(style)}</span>
          </button>
        );
      })}
    </div>
  );
}

/** Facts of the run, and the legend of the page. */
export default function RunContextBar() {
  const range = useUi((s) => s.range);
  const ranged = useUi((s) => hasTimeRange(s.route.view));
  const [open, setOpen] = useState(false);
  // On a phone the facts and the legend would push the answers off the first screen.
  const folded = open ? "" : "max-md:hidden";
  return (
    <section
      aria-label="Run and schedulers"
      className="mx-auto flex max-w-[2560px] flex-wrap items-center gap-x-3 gap-y-2 px-4 py-3 text-12 md:px-6"
    >
      <Identity>
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          className="py-1 text-accent underline underline-offset-2 md:hidden"
        >
          {open ? "Less" : "This run"}
        </button>
      </Identity>
      <div className={classNames("flex flex-wrap items-center gap-x-3 gap-y-2 md:contents", folded)}>
        <Facts />
        {ranged && range.kind === "fixed" ? (
          <button
            type="button"
            onClick={() => setUi({ range: DEFAULTS.range })}
            className="inline-flex h-6 items-center gap-1.5 rounded-[6px] border border-accent/50 px-2 text-accent"
          >
            {moment(range.from)} to {moment(range.to)}
            <X size={12} aria-label="Back to the last minute" />
          </button>
        ) : null}
        {ranged ? (
          <div className="xl:hidden md:ml-auto">
            <RangePicker />
          </div>
        ) : null}
        <SavedViews quiet />
        <div className="w-full min-w-0">
          <Chips />
        </div>
      </div>
    </section>
  );
}
