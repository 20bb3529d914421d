/** States of a widget. A body state replaces the content; a tag appears beside the title while the last data remain. */

import { useCurrentTime } from "../../hooks/useCurrentTime";
import { useLive } from "../../store/liveStore";

export type Shape = "bars" | "lines" | "table" | "matrix";

export type BodyState =
  | { kind: "ready" }
  | { kind: "loading"; shape?: Shape }
  /** `start` shows a start button as well as the command. */
  | { kind: "empty"; title?: string; hint?: string; start?: boolean }
  | { kind: "waiting"; have: number; need: number; what: string; perSecond?: number }
  | { kind: "error"; title: string; error: unknown; retry?: () => void };

export type Tag =
  | { kind: "reconnecting" }
  | { kind: "offline" }
  | { kind: "stale"; seconds: number }
  | { kind: "frozen"; buffered: number }
  | { kind: "paused" }
  | { kind: "held" }
  | { kind: "truncated"; visible: number; of: number };

export const READY: BodyState = { kind: "ready" };
/** Age from which data count as stale; updates come twice a second. */
const STALE_AFTER_S = 5;

/** Tag for the state of the live data; null while they are up to date. */
export function useLiveTag(): Tag | null {
  const phase = useLive((s) => s.connection.phase);
  const frozen = useLive((s) => s.frozen);
  const buffered = useLive((s) => s.buffered);
  const state = useLive((s) => s.state);
  const updatedAt = useLive((s) => s.updatedAt);
  const seconds = (useCurrentTime() - (updatedAt ?? Number.POSITIVE_INFINITY)) / 1000;
  if (phase === "offline") return { kind: "offline" };
  if (phase === "reconnecting") return { kind: "reconnecting" };
  if (frozen) return { kind: "frozen", buffered };
  if (state === "paused") return { kind: "paused" };
  if (state === "held") return { kind: "held" };
  if (state === "running" && seconds > STALE_AFTER_S) return { kind: "stale", seconds };
  return null;
}

interface Needs {
  shape?: Shape;
  /** Number of samples and number needed. */
  have?: number;
  need?: number;
  what?: string;
}

/** State of a widget on stream data: loading, empty, waiting or ready. */
export function useLiveBody({ shape = "bars", have, need = 1, what = "tasks" }: Needs = {}): BodyState {
  const ready = useLive((s) => s.ready);
  const phase = useLive((s) => s.connection.phase);
  const tasks = useLive((s) => s.tasksProcessed);
  const rows = useLive((s) => s.comparison.length);
  const rate = useLive((s) => s.tasksPerSecond);
  if (!ready && rows === 0) {
    if (phase === "reconnecting" || phase === "offline")
      return { kind: "error", title: "No connection yet", error: null };
    return { kind: "loading", shape };
  }
  if (tasks === 0 || rows === 0) return { kind: "empty" };
  const count = have ?? tasks;
  if (count < need) return { kind: "waiting", have: count, need, what, perSecond: rate };
  return READY;
}
