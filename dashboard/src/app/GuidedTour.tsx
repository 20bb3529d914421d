import { X } from "lucide-react";
import { useEffect } from "react";
import { Button, IconButton } from "../components/ui/Button";
import { useUi } from "../store/uiStore";
import { endTour, useTour } from "./tourStore";

const STEPS: readonly { title: string; text: string; target: string }[] = [
  {
    title: "Who leads, and why",
    text: "Every scheduler gets the same tasks on its own cluster. The headline names the leader, its distance to the lower bound that no scheduler can beat, and why the others lose.",
    target: "[data-testid=headline]",
  },
  {
    title: "The race",
    text: "Bars start at the lower bound, on a logarithmic scale. Names at the top of the page are the legend: click one to hide it, double click to isolate it.",
    target: "#race",
  },
  {
    title: "The devices",
    text: "Each minute of the default run has a rush of 6 s at 90 % of capacity: simple schedulers fall behind and catch up in the calm. Then all GPUs are three times slower for 15 s, in amber; triangles show when the learners notice.",
    target: "#gantt",
  },
  {
    title: "Freeze or pause",
    text: "Freeze (Space) stops your own view while updates are buffered. Pause (P) stops the engine, for everyone. Press ? for all keys.",
    target: "header",
  },
];

/** Height of the top bar and a margin, in pixels. */
const BELOW_TOP_BAR = 72;

/** Guided tour in four short cards; once dismissed it does not return. */
export default function GuidedTour() {
  const step = useTour((s) => s.step);
  const view = useUi((s) => s.route.view);
  const current = step === null ? undefined : STEPS[step];
  if (step === null || !current || view !== "compare") return null;
  const last = step === STEPS.length - 1;
  return <Card step={step} last={last} {...current} />;
}

function Card({ step, last, title, text, target }: { step: number; last: boolean } & (typeof STEPS)[number]) {
  // What a step explains is scrolled to the top, away from the card at the bottom.
  useEffect(() => {
    let element: HTMLElement | null = null;
    // The view may still be loading.
    const search = setInterval(() => {
      element = document.querySelector<HTMLElement>(target);
      if (!element) return;
      clearInterval(search);
      window.scrollTo(0, Math.max(0, element.getBoundingClientRect().top + window.scrollY - BELOW_TOP_BAR));
      element.dataset.tour = "on";
    }, 100);
    return () => {
      clearInterval(search);
      if (element) delete element.dataset.tour;
    };
  }, [target]);
  useEffect(() => {
    const close = (event: KeyboardEvent) => {
      if (event.key === "Escape") endTour();
    };
    window.addEventListener("keydown", close);
    return () => window.removeEventListener("keydown", close);
  }, []);
  return (
    <aside
      aria-label="Tour"
      className="popover enter fixed right-4 bottom-4 z-40 w-[min(336px,calc(100vw-32px))] p-4"
    >
      <div className="flex items-center gap-2">
        <h2 className="flex-1 font-semibold text-14">{title}</h2>
        <span className="text-faint">
          {step + 1} of {STEPS.length}
        </span>
        <IconButton label="Dismiss the tour" onClick={endTour}>
          <X size={15} aria-hidden="true" />
        </IconButton>
      </div>
      <p className="mt-1 text-muted">{text}</p>
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
