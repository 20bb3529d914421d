/** Keyboard shortcuts of the page. A mounted view can register its own handlers for stepping and exporting. */
import { useEffect } from "react";
import { useLive } from "../store/liveStore";
import { useShortcutHandlers } from "../store/shortcutHandlers";
import { openStudio } from "../store/studioStore";
import { navigate, setUi, toggleTheme, useUi } from "../store/uiStore";
import { toggleFreeze, togglePause } from "./appActions";

/** Default for `[` and `]`: the task before or after the open one. */
function stepTask(by: 1 | -1): void {
  const { task } = useUi.getState();
  const newest = useLive.getState().stream.tasks.at(-1)?.task_id ?? null;
  const next = task === null ? newest : task + by;
  if (next !== null && next > 0) setUi({ task: next });
}

function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Elements that handle the space bar themselves. */
function pressable(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("button,a,summary,[role=switch],[role=slider]") !== null;
}

const SHORTCUTS: Record<string, () => void> = {
  " ": toggleFreeze,
  p: () => void togglePause(),
  n: () => openStudio(),
  t: toggleTheme,
  "1": () => navigate({ view: "compare" }),
  "2": () => navigate({ view: "scheduler", name: null }),
  "3": () => navigate({ view: "history" }),
  "4": () => navigate({ view: "runtime" }),
  "5": () => navigate({ view: "workspace" }),
  "6": () => navigate({ view: "cluster" }),
  "[": () => (useShortcutHandlers.getState().step ?? stepTask)(-1),
  "]": () => (useShortcutHandlers.getState().step ?? stepTask)(1),
  e: () => useShortcutHandlers.getState().exportData?.(),
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
