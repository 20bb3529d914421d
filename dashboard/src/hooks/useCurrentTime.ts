import { useSyncExternalStore } from "react";

/** Shared clock of the page: one timer, once a second, while components subscribe. */
const listeners = new Set<() => void>();
let now = performance.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = performance.now();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (!listeners.size) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** `performance.now()`, at most a second old. */
export const useCurrentTime = (): number => useSyncExternalStore(subscribe, () => now);
