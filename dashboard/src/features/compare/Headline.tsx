import type { VerdictRow } from "../../client/models";
import { Button } from "../../components/ui/Button";
import { SchedulerGlyph } from "../../components/ui/SchedulerGlyph";
import { Leader, Why } from "../../components/VerdictText";
import { PanelBody } from "../../components/widget/PanelBody";
import { useLiveBody } from "../../components/widget/panelState";
import { estimate } from "../../lib/format";
import { type SchedulerStyle, shortLabel } from "../../lib/schedulerStyle";
import { useLive } from "../../store/liveStore";
import { useSchedulerStyles } from "../../store/schedulerStyles";
import { useRow } from "../../store/selectors";
import { setUi, useUi } from "../../store/uiStore";
import { showSideBySide } from "./sideBySide";

/** One scheduler that the legend isolates: its mean, and why it is slower. */
function Isolated({
  row,
  style,
  rival,
}: {
  row: VerdictRow;
  style: SchedulerStyle;
  rival: SchedulerStyle | undefined;
}) {
  const half = useRow(row.name)?.latency_ci95;
  const [reason] = row.reasons;
  return (
    <div>
      <p className="text-muted">Only this scheduler is shown, by mean latency, waiting included</p>
      <h1 className="mt-0.5 flex items-center gap-3 font-semibold text-28">
        <SchedulerGlyph style={style} size={20} />
        {row.label}
      </h1>
      <p className="mt-1 font-semibold text-20">{estimate(row.mean_latency, half, "time")}</p>
      <p className="mt-1 text-14">
        {row.latency.text}
        {row.latency.ratio !== null && row.latency.tone !== "close" && rival ? ` than ${shortLabel(rival)}` : ""}
        {reason ? `; it ${reason.text}.` : ""}
      </p>
      <Button className="mt-3" onClick={() => setUi({ visible: null })}>
        Show all schedulers
      </Button>
    </div>
  );
}

/** Headline: the leading group, its distance to the others and to the lower bound, and why the others lose. */
export function Headline() {
  const verdict = useLive((s) => s.verdict);
  const styles = useSchedulerStyles();
  const state = useLiveBody({ shape: "lines" });
  const visible = useUi((s) => s.visible);
  const ready = state.kind === "ready" && verdict?.leader;
  const only = visible?.length === 1 ? verdict?.rows.find((row) => row.name === visible[0]) : undefined;
  const style = styles.find((item) => item.name === only?.name);
  return (
    <section
      aria-label="Headline"
      className="panel panel-glow flex min-h-32 flex-col justify-center p-4"
      data-testid="headline"
    >
      {ready && only && style ? (
        <Isolated row={only} style={style} rival={styles.find((item) => item.name === only.against)} />
      ) : ready ? (
        <>
          <Leader verdict={verdict} styles={styles} />
          <Why
            verdict={verdict}
            styles={styles}
            onShow={(cause) => showSideBySide(verdict.leader, cause)}
            onTask={(task, focus) => setUi({ task, focus })}
          />
        </>
      ) : (
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
      )}
    </section>
  );
}
