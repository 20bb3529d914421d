/** Store of the playback: run, position, speed. */
import { useEffect } from "react";
import { create } from "zustand";

export const RATES = [0.5, 1, 2, 4, 8, 16] as const;
/** Duration of a whole run at 1×. */
const RUN_SECONDS = 60;

interface Playback {
  runId: string | null;
  /** Position in tasks; null follows the newest. */
  at: number | null;
  playing: boolean;
  rate: number;
}

export const usePlayback = create<Playback>(() => ({ runId: null, at: null, playing: false, rate: 1 }));

export const setPlayhead = (at: number | null): void => usePlayback.setState({ at });
export const setPlaying = (playing: boolean): void => usePlayback.setState({ playing });
export const setRate = (rate: number): void => usePlayback.setState({ rate });

/** Resets the playback for another run, and stops it when the view closes. */
export function usePlaybackOf(runId: string | null): void {
  useEffect(() => {
    if (usePlayback.getState().runId !== runId) usePlayback.setState({ runId, at: null, playing: false });
    // The playback is not visible from another page.
    return () => setPlaying(false);
  }, [runId]);
}

/** Next bucket end after a position, or the last one. */
export const nextEnd = (ends: readonly number[], at: number): number =>
  ends.find((end) => end > at) ?? ends.at(-1) ?? at;

/** Timer that advances the playhead by one bucket while playing. */
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
