import { PanelBody } from "../../components/widget/PanelBody";
import { type BodyState, useLiveBody } from "../../components/widget/panelState";
import { WidgetGrid } from "../../components/widget/WidgetGrid";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useFocus } from "../../store/selectors";
import { useUi } from "../../store/uiStore";
import { SchedulerSummary } from "./SchedulerSummary";
import { SelectedSchedulerContext } from "./selectedScheduler";
import { SCHEDULER_WIDGETS } from "./widgets";

/** View of one scheduler, which the legend of the page chooses. */
export default function SchedulerView() {
  const route = useUi((s) => s.route);
  const styles = useSchedulerStyles();
  const focus = useFocus();
  const wanted = route.view === "scheduler" ? route.name : null;
  const style = wanted === null ? focus : (styles.find((one) => one.name === wanted) ?? null);
  const unknown = wanted !== null && styles.length > 0 && !style;
  const stream = useLiveBody({ shape: "lines" });
  const state: BodyState = unknown
    ? { kind: "empty", title: `No scheduler called ${wanted} in this run`, hint: "Choose another scheduler above." }
    : stream.kind === "empty"
      ? { kind: "empty", start: true }
      : stream.kind === "ready"
        ? { kind: "loading", shape: "lines" }
        : stream;
  return style ? (
    <SelectedSchedulerContext value={style}>
      <SchedulerSummary />
      <WidgetGrid view="scheduler" widgets={SCHEDULER_WIDGETS} />
    </SelectedSchedulerContext>
  ) : (
    <section className="panel min-h-64 p-4">
      <h1 className="sr-only">Scheduler {wanted}</h1>
      <PanelBody state={state}>{null}</PanelBody>
    </section>
  );
}
