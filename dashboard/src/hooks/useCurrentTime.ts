import { useSyncExternalStore } from "react";

/** One clock for all ages on the page, ticking once a second while somebody looks. */
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
