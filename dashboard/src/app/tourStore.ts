/** Progress of the guided tour, which starts once and on request. */
import { create } from "zustand";

const KEY = "hs.tour";

function seen(): boolean {
  try {
    return window.localStorage.getItem(KEY) === "done";
  } catch {
    return true;
  }
}

/** Current step; null when the tour is over. */
export const useTour = create<{ step: number | null }>(() => ({ step: seen() ? null : 0 }));

export function endTour(): void {
  try {
    window.localStorage.setItem(KEY, "done");
  } catch {
    // Without storage the tour starts again at the next visit.
  }
  useTour.setState({ step: null });
}

export const restartTour = (): void => useTour.setState({ step: 0 });
