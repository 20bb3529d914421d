/** State of the run studio and of actions that can be undone. In the shell, so it holds no more than that. */
import { create } from "zustand";
import type { Run } from "../client/models";

interface Undo {
  text: string;
  /** Takes the action back. */
  undo: () => void;
  /** Sends the action once the time to undo it is over; null if it was sent already. */
  commit: (() => void) | null;
}

interface StudioState {
  /** Whether the studio is open, and the run whose settings it starts from. */
  open: boolean;
  from: Run | null;
  undo: Undo | null;
  /** Runs whose deletion was not sent yet. */
  deleting: readonly string[];
}

export const useStudio = create<StudioState>(() => ({ open: false, from: null, undo: null, deleting: [] }));

export const openStudio = (from: Run | null = null): void => useStudio.setState({ open: true, from });
export const closeStudio = (): void => useStudio.setState({ open: false, from: null });

/** Offers to undo an action; the one before is sent at once. */
export function offerUndo(undo: Undo): void {
  settleUndo();
  useStudio.setState({ undo });
}

/** Ends the time to undo the last action. */
export function settleUndo(): void {
  const { undo } = useStudio.getState();
  useStudio.setState({ undo: null });
  undo?.commit?.();
}

export function takeBack(): void {
  const { undo } = useStudio.getState();
  useStudio.setState({ undo: null });
  undo?.undo();
}

window.addEventListener("pagehide", settleUndo);
