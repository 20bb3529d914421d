import { Pause, Play, StepBack, StepForward } from "lucide-react";
import { useCallback, useEffect, useMemo } from "react";
import { PlaybackTimeline, type TimelineMark } from "../../charts/PlaybackTimeline";
import type { ResultRecord } from "../../client/resultRecords";
import { Button, IconButton } from "../../components/ui/Button";
import { SegmentedControl } from "../../components/ui/SegmentedControl";
import { Panel } from "../../components/widget/Panel";
import type { BodyState } from "../../components/widget/panelState";
import { queryState } from "../../components/widget/queryState";
import { count, tick } from "../../lib/format";
import { useFocus } from "../../store/selectors";
import { useShortcutHandler } from "../../store/shortcutHandlers";
import { type Bucket, endsOf, idAt, nearest, partialBucket, positionOf, totalOf } from "./cumulativeMeans";
import { useBucketResults, useNotes, useRunId, useTrends } from "./historyQueries";
import {
  nextEnd,
  RATES,
  setPlayhead,
  setPlaying,
  setRate,
  usePlay,
  usePlayback,
  usePlaybackOf,
} from "./playbackStore";
import { StandingsAt, standingsTable, useStandingsAt } from "./StandingsAt";

const NO_ROWS: readonly ResultRecord[] = [];
const RATE_CHOICES = RATES.map((rate) => ({ value: String(rate), label: `${tick(rate)}×` }));

/** Notifications of the run as marks of the timeline. */
function useMarks(buckets: readonly Bucket[]): TimelineMark[] {
  const { notes } = useNotes();
  return useMemo(() => {
    if (!buckets.length) return [];
    return notes.map((note) => {
      const at = positionOf(buckets, note.at_task ?? 0);
      const who = note.scheduler ? `${note.scheduler}: ` : "";
      const kind = note.kind === "drift" || note.kind === "retrained" ? note.kind : "note";
      return { at, kind, label: `task ${count(at)}, ${who}${note.message}` };
    });
  }, [notes, buckets]);
}

function Legend() {
  return (
    <span className="flex items-center gap-4 text-faint max-lg:hidden">
      <span className="flex items-center gap-1.5">
        <svg width="10" height="10" viewBox="-5 -5 10 10" aria-hidden="true">
          <path d="M0-4.5L4.5 0L0 4.5L-4.5 0z" fill="var(--warn)" />
        </svg>
        drift
      </span>
      <span className="flex items-center gap-1.5">
        <i className="h-2 w-px bg-muted" />
        retrained
      </span>
      <span className="flex items-center gap-1.5">
        <i className="size-1.5 rounded-full bg-muted" />
        note
      </span>
    </span>
  );
}

/** Playback of the run: the comparison after any number of tasks. */
export function RunPlayback() {
  const runId = useRunId();
  usePlaybackOf(runId);
  const trends = useTrends();
  const buckets = useMemo(
    () => (trends.data?.run_id === runId ? (trends.data?.buckets ?? []) : []),
    [trends.data, runId],
  );
  const ends = useMemo(() => endsOf(buckets), [buckets]);
  const total = totalOf(buckets);
  const { at: held, playing, rate } = usePlayback();
  const at = Math.min(held ?? total, total);
  const focus = useFocus();
  const marks = useMarks(buckets);
  const cut = useMemo(() => partialBucket(buckets, at), [buckets, at]);
  const page = useBucketResults(runId, cut);
  const id = idAt(buckets, at);
  usePlay(ends);

  const ranked = useStandingsAt(buckets, at, cut ? (page.data ?? NO_ROWS) : NO_ROWS);
  const step = useCallback(
    (by: 1 | -1) => {
      setPlaying(false);
      const now = usePlayback.getState().at ?? total;
      setPlayhead(Math.min(total, Math.max(1, now + by)));
    },
    [total],
  );
  useShortcutHandler("step", step);
  useEffect(() => () => setPlaying(false), []);
  const toggle = () => {
    if (!playing && at >= total) setPlayhead(nextEnd(ends, 0));
    setPlaying(!playing);
  };

  const state: BodyState = !runId
    ? { kind: "empty" }
    : trends.data && total === 0
      ? { kind: "waiting", have: 0, need: 1, what: "task" }
      : queryState(trends, "Could not load the trend of the run", "lines");
  const values = buckets.map((bucket) => (focus ? (bucket.schedulers[focus.name]?.mean_latency ?? null) : null));
  const where = `task ${count(at)} of ${count(total)}`;
  return (
    <Panel
      title="Playback"
      subtitle={`bars: mean latency of ${focus?.label ?? "the leader"}; 1× plays the run in one minute`}
      state={state}
      actions={<Legend />}
      table={() => standingsTable(ranked, at)}
      note={
        trends.data?.sampled
          ? "The run is long: means are over a sample of each bucket."
          : "Means over all tasks up to the playhead; ± is the 95 % CI of the paired difference to the oracle, by batch means."
      }
      bodyClass="flex flex-col gap-4"
    >
      <div className="flex flex-wrap items-center gap-x-4 gap-y-3">
        <div className="flex items-center gap-2">
          <IconButton
            label="Previous task ([)"
            onClick={() => step(-1)}
            className="border border-control text-ink md:size-8"
          >
            <StepBack size={15} aria-hidden="true" />
          </IconButton>
          <Button
            variant="primary"
            onClick={toggle}
            aria-label={playing ? "Pause playback" : "Play"}
            title={playing ? "Pause playback" : "Play"}
            className="w-10 px-0!"
          >
            {playing ? <Pause size={15} aria-hidden="true" /> : <Play size={15} aria-hidden="true" />}
          </Button>
          <IconButton
            label="Next task (])"
            onClick={() => step(1)}
            className="border border-control text-ink md:size-8"
          >
            <StepForward size={15} aria-hidden="true" />
          </IconButton>
        </div>
        <SegmentedControl
          label="Playback speed"
          choices={RATE_CHOICES}
          value={String(rate)}
          onChange={(value) => setRate(Number(value))}
          className="max-sm:w-full max-sm:*:flex-1"
        />
        <div className="ml-auto whitespace-nowrap text-right xl:order-last xl:w-52">
          <p>
            <span className="font-semibold text-16">{count(at)}</span>
            <span className="text-muted"> of {count(total)} tasks</span>
          </p>
          {held === null ? (
            <p className="text-faint">at the newest task</p>
          ) : (
            <p className="flex items-center justify-end gap-2 text-faint">
              {id === null ? "stopped" : `stopped at task id ${count(id)}`}
              <button
                type="button"
                onClick={() => {
                  setPlaying(false);
                  setPlayhead(null);
                }}
                className="min-h-6 rounded-[4px] text-accent underline underline-offset-4"
              >
                Go to the newest
              </button>
            </p>
          )}
        </div>
        <div className="flex min-w-0 max-xl:order-last max-xl:w-full xl:flex-1">
          <PlaybackTimeline
            values={values}
            ends={ends}
            marks={marks}
            at={at}
            label="Playhead, in tasks of the run"
            valueText={where}
            onMove={(to) => {
              setPlaying(false);
              setPlayhead(nearest(ends, to));
            }}
          />
        </div>
      </div>
      <StandingsAt
        ranked={ranked}
        at={at}
        waiting={cut !== null && page.isPending}
        failed={cut ? page.error : null}
      />
    </Panel>
  );
}
