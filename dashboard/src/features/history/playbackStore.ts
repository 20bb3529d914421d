/** Where the playhead stands. Playback moves it; the trend and the timeline show it. */
import { useEffect } from "react";
import { create } from "zustand";

export const RATES = [0.5, 1, 2, 4, 8, 16] as const;
/** At 1× a run passes in a minute, however long it took. */
const RUN_SECONDS = 60;

interface Playback {
  runId: string | null;
  /** Tasks so far; null follows the newest. */
  at: number | null;
  playing: boolean;
  rate: number;
}

export const usePlayback = create<Playback>(() => ({ runId: null, at: null, playing: false, rate: 1 }));

export const setPlayhead = (at: number | null): void => usePlayback.setState({ at });
export const setPlaying = (playing: boolean): void => usePlayback.setState({ playing });
export const setRate = (rate: number): void => usePlayback.setState({ rate });

/** Another run: the old position means nothing there. */
export function usePlaybackOf(runId: string | null): void {
  useEffect(() => {
    if (usePlayback.getState().runId !== runId) usePlayback.setState({ runId, at: null, playing: false });
    // Nobody sees it play on from another page.
    return () => setPlaying(false);
  }, [runId]);
}

/** The end after this one, or the last. */
export const nextEnd = (ends: readonly number[], at: number): number =>
  ends.find((end) => end > at) ?? ends.at(-1) ?? at;

/** Goes from bucket to bucket while playing, and stops at the end. */
export function usePlay(ends: readonly number[]): void {
  const playing = usePlayback((s) => s.playing);
  const rate = usePlayback((s) => s.rate);
  useEffect(() => {
    if (!playing || ends.length === 0) return;
    const each = Math.max(40, (RUN_SECONDS * 1000) / (ends.length * rate));
    const timer = setInterval(() => {
      const { at } = usePlayback.getState();
      const next = nextEnd(ends, at ?? 0);
      if (next >= (ends.at(-1) ?? 0)) usePlayback.setState({ at: ends.at(-1) ?? null, playing: false });
      else setPlayhead(next);
    }, each);
    return () => clearInterval(timer);
  }, [playing, rate, ends]);
}
