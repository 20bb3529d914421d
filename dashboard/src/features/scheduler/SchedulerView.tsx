import { Link } from "../../components/Link";
import { cx } from "../../components/ui/classNames";
import { Glyph } from "../../components/ui/SchedulerGlyph";
import { PanelBody } from "../../components/widget/PanelBody";
import { type BodyState, useLiveBody } from "../../components/widget/panelState";
import { WidgetGrid } from "../../components/widget/WidgetGrid";
import { useFocus, useLooks } from "../../store/selectors";
import { useUi } from "../../store/uiStore";
import { SchedulerHead } from "./SchedulerSummary";
import { SubjectContext } from "./selectedScheduler";
import { SCHEDULER_WIDGETS } from "./widgets";

/** Everything about one scheduler: the tabs choose whose page it is. */
export default function SchedulerView() {
  const route = useUi((s) => s.route);
  const looks = useLooks();
  const focus = useFocus();
  const wanted = route.view === "scheduler" ? route.name : null;
  const look = wanted === null ? focus : (looks.find((one) => one.name === wanted) ?? null);
  const unknown = wanted !== null && looks.length > 0 && !look;
  const stream = useLiveBody({ shape: "lines" });
  const state: BodyState = unknown
    ? { kind: "empty", title: `No scheduler called ${wanted} in this run`, hint: "Choose one of those above." }
    : stream.kind === "empty"
      ? { kind: "empty", start: true }
      : stream.kind === "ready"
        ? { kind: "loading", shape: "lines" }
        : stream;
  return (
    <>
      <nav aria-label="Schedulers" className="mb-4 flex flex-wrap gap-1">
        {looks.map((one) => (
          <Link
            key={one.name}
            to={{ view: "scheduler", name: one.name }}
            change={{ focus: one.name }}
            aria-current={one.name === look?.name ? "page" : undefined}
            className={cx(
              "inline-flex h-10 items-center gap-2 rounded-control border px-3 text-12 hover:bg-raised md:h-8",
              one.name === look?.name ? "border-accent bg-raised text-ink" : "border-hair text-muted",
            )}
          >
            <Glyph look={one} />
            {one.label}
          </Link>
        ))}
      </nav>
      {look ? (
        <SubjectContext value={look}>
          <SchedulerHead />
          <WidgetGrid view="scheduler" widgets={SCHEDULER_WIDGETS} />
        </SubjectContext>
      ) : (
        <section className="panel min-h-64 p-4">
          <h1 className="sr-only">Scheduler {wanted}</h1>
          <PanelBody state={state}>{null}</PanelBody>
        </section>
      )}
    </>
  );
}
