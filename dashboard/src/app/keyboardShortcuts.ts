/** Keys of the page. A view can take over stepping and exporting while it is shown. */
import { useEffect } from "react";
import { buffers } from "../store/liveStore";
import { navigate, setUi, toggleTheme, useUi } from "../store/uiStore";
import { toggleFreeze, togglePause } from "./appActions";

type Step = (by: 1 | -1) => void;
let step: Step | null = null;
let exporter: (() => void) | null = null;

/** `[` and `]` belong to this view until it goes. */
export function useStep(handler: Step): void {
  useEffect(() => {
    step = handler;
    return () => {
      if (step === handler) step = null;
    };
  }, [handler]);
}

/** `E` exports this unless a widget has the focus. */
export function useExport(handler: () => void): void {
  useEffect(() => {
    exporter = handler;
    return () => {
      if (exporter === handler) exporter = null;
    };
  }, [handler]);
}

/** Without a view that steps, `[` and `]` go from task to task. */
function stepTask(by: 1 | -1): void {
  const { task } = useUi.getState();
  const newest = buffers.tasks.at(-1)?.id ?? null;
  const next = task === null ? newest : task + by;
  if (next !== null && next > 0) setUi({ task: next });
}

function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Space on a button presses the button; only elsewhere is it ours. */
function pressable(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("button,a,summary,[role=switch],[role=slider]") !== null;
}

const SHORTCUTS: Record<string, () => void> = {
  " ": toggleFreeze,
  p: () => void togglePause(),
  t: toggleTheme,
  "1": () => navigate({ view: "compare" }),
  "2": () => navigate({ view: "scheduler", name: null }),
  "3": () => navigate({ view: "history" }),
  "[": () => (step ?? stepTask)(-1),
  "]": () => (step ?? stepTask)(1),
  e: () => exporter?.(),
  "/": () => document.querySelector<HTMLInputElement>("main [data-search]")?.focus(),
};

export function useShortcuts(openHelp: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const radio = event.target instanceof HTMLInputElement && event.target.type === "radio";
      if ((typing(event.target) && !radio) || (event.key === " " && (pressable(event.target) || radio))) return;
      const act =
        event.key === "?" ? openHelp : SHORTCUTS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [openHelp]);
}
