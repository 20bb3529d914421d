import { X } from "lucide-react";
import { Button, IconButton } from "../components/ui/Button";
import { useUi } from "../store/uiStore";
import { endTour, useTour } from "./tourStore";

const STEPS: readonly { title: string; text: string }[] = [
  {
    title: "The comparison",
    text: "Every scheduler gets the same tasks on its own cluster. The headline names the leader and its gap to the oracle, which knows the true times.",
  },
  {
    title: "The legend",
    text: "The names at the top are the legend of the whole page. Click one to hide it, double click to isolate it.",
  },
  {
    title: "Freeze or pause",
    text: "Freeze (Space) stops your own view while updates are buffered. Pause (P) stops the engine, for everyone.",
  },
  {
    title: "Task details",
    text: "Click a block of the Gantt chart or a row of the ledger to see every scheduler's decision and its cost. Press ? for all keys.",
  },
];

/** Guided tour in four short cards; once dismissed it does not return. */
export default function GuidedTour() {
  const step = useTour((s) => s.step);
  const view = useUi((s) => s.route.view);
  const current = step === null ? undefined : STEPS[step];
  if (step === null || !current || view !== "compare") return null;
  const last = step === STEPS.length - 1;
  return (
    <aside
      aria-label="Tour"
      className="popover enter fixed right-4 bottom-4 z-40 w-[min(336px,calc(100vw-32px))] p-4"
    >
      <div className="flex items-center gap-2">
        <h2 className="flex-1 font-semibold text-14">{current.title}</h2>
        <span className="text-faint">
          {step + 1} of {STEPS.length}
        </span>
        <IconButton label="Dismiss the tour" onClick={endTour}>
          <X size={15} aria-hidden="true" />
        </IconButton>
      </div>
      <p className="mt-1 text-muted">{current.text}</p>
      <div className="mt-3 flex justify-end gap-2">
        {step > 0 ? (
          <Button variant="quiet" onClick={() => useTour.setState({ step: step - 1 })}>
            Back
          </Button>
        ) : null}
        <Button variant="primary" onClick={() => (last ? endTour() : useTour.setState({ step: step + 1 }))}>
          {last ? "Done" : "Next"}
        </Button>
      </div>
    </aside>
  );
}
