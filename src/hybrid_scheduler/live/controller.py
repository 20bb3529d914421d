"""Controller of the live run: decides for the tasks that are due, chunk by chunk, and looks after what goes on.

Only the engine thread uses it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from ..learning.duration.retraining import TrainingWorker
from .clock import ChunkSize, Clock, VirtualTime
from .command_queue import SharedCommand
from .journal import Counters, Journal, RunRecord
from .live_config import LiveConfig
from .live_run import LiveChunk, LiveRun
from .load_history import live_verdict
from .model_versions import ModelSnapshots
from .run_lifecycle import RunLifecycle
from .run_output import RunOutput
from .scheduler_lane import SchedulerLane
from .status import DeviceInfo, LiveStatus, PlatformInfo, RunStatus, StorageState

_log = logging.getLogger(__name__)
#: Wall seconds to wait when nothing is due, and between two attempts to hand over the last batch.
_IDLE_S = 0.05
_CLOSE_POLL_S = 0.02
#: Results in a batch before it is handed over early.
_MAX_ROWS = 20_000


class LiveController:
    """The active run with its record and its virtual time, as it goes on. Commands use it.

    Parameters
    ----------
    config
        The run to start with.
    journal
        Stores the batches.
    clock
        Wall time.
    snapshots
        Keeps weights that a restart could not learn again.
    trainer, new_id, defaults
        See `RunLifecycle`.
    """

    def __init__(
        self,
        config: LiveConfig,
        journal: Journal,
        clock: Clock,
        snapshots: ModelSnapshots,
        trainer: TrainingWorker,
        new_id: Callable[[], str],
        defaults: LiveConfig | None = None,
    ) -> None:
        self.journal = journal
        self.clock = clock
        #: Configuration of the active run, or of the next one.
        self.config = config
        self.run: LiveRun | None = None
        self.record: RunRecord | None = None
        self.time = VirtualTime(clock, config.speed)
        #: Running, but the journal has no capacity.
        self.held = False
        self.warnings: list[str] = []
        #: Why the engine itself failed.
        self.error: str | None = None
        #: Hashes of the settings under which the active run began, as checkpoints have them.
        self.hashes: dict[str, str] = {}
        #: A deletion of all tasks that is going on.
        self.deletion: SharedCommand[int] | None = None
        self.snapshots = snapshots
        self.output = RunOutput(self)
        self.runs = RunLifecycle(self, trainer, new_id, defaults)
        self._chunk_size = ChunkSize()

    @property
    def mode(self) -> str:
        """running, paused or stopped."""
        return self.record.status if self.record else "stopped"

    @property
    def storage(self) -> StorageState:
        """ok, or away while the database is unavailable."""
        return "away" if self.journal.unavailable else "ok"

    @property
    def lanes(self) -> list[SchedulerLane]:
        """Schedulers of the run; none without a run."""
        return self.run.lanes if self.run else []

    def set_mode(self, mode: str) -> None:
        """Change the record to running, paused or stopped."""
        assert self.record is not None
        ended_at = self.clock.unix() if mode == "stopped" else None
        self.record = replace(self.record, status=mode, ended_at=ended_at)

    def pass_time(self) -> None:
        """Let virtual time reach the present; it passes also when nothing arrives."""
        if self.run is not None and self.mode == "running" and not self.held:
            self.run.pass_time(self.time.due)

    def status(self, counters: Counters, tasks_per_second: float) -> LiveStatus:
        """Return the status of the active run; without one, of the run that would begin.

        Parameters
        ----------
        counters
            The next numbers.
        tasks_per_second
            The rate over the last updates.
        """
        run = self.run
        record = self.record
        config = self.config
        platform = self.config.platform
        mode = cast(RunStatus, self.mode)
        failures = [f"{lane.name} is off: {lane.failure}" for lane in self.lanes if lane.failure is not None]
        return LiveStatus(
            state="held" if mode == "running" and self.held else mode,
            is_running=mode == "running",
            is_paused=mode == "paused",
            run_id=record.run_id if record else None,
            source="simulated",
            scenario=record.scenario if record else config.scenario.name,
            load=record.utilisation if record else config.load,
            seed=record.seed if record else config.seed,
            speed=None if config.speed == math.inf else config.speed,
            platform=PlatformInfo(platform.name, [DeviceInfo(d.name, d.kind) for d in platform.devices]),
            schedulers=record.schedulers if record else config.schedulers,
            tasks_processed=run.ordinal if run else 0,
            virtual_time=run.now if run else 0.0,
            tasks_per_second=tasks_per_second if mode == "running" else 0.0,
            started_at=record.created_at if record else None,
            last_seq=counters.next_seq - 1,
            next_task_id=counters.next_task_id,
            episode=run.episode if run else None,
            unsaved_batches=self.journal.unsaved,
            storage=self.storage,
            notes=(*self.warnings, *([self.error] if self.error else ()), *failures),
            latency_bound=run.latency_bound.mean if run else None,
            makespan_bound=run.latency_bound.makespan if run else None,
            first_arrival=run.latency_bound.first_arrival if run else None,
            slowdown=config.slowdown,
            comparison=tuple(run.statistics()) if run else (),
            verdict=live_verdict(run) if run else None,
        )

    def end(self) -> None:
        """End the active run; it will not be resumed."""
        assert self.record is not None
        self.pass_time()
        if self.run is not None:
            self.run.lanes.finish_queues()
        self.set_mode("stopped")
        self.snapshots.drop(self.record.run_id)

    def step(self) -> float:
        """Do what is due now; returns the wall seconds until something is due again."""
        output = self.output
        output.batches.deliver()
        output.watch_journal()
        self.watch_deletion()
        if self.run is None or self.record is None:
            return _IDLE_S
        self.run.lanes.collect_training(output.next_task)
        if output.send_lane_events() and self.mode != "running":  # no update follows that would say so
            output.publish_status()
            output.flush_due = True
        if output.flush_due:
            output.flush()
        idle = self._advance(self.run) if self.mode == "running" else _IDLE_S
        if output.batches.rows >= _MAX_ROWS:
            output.flush()
        if self.mode != "stopped":
            self.snapshots.save_if_due(self.record.run_id, self.lanes)
        return idle

    def finish(self, timeout: float) -> None:
        """Hand over what is left before the engine closes, within `timeout` seconds; the run can be resumed."""
        output = self.output
        until = time.monotonic() + timeout
        output.flush()
        # The journal has a thread of its own, so this is wall time, not the clock of the run.
        while output.flush_due or not output.batches.deliver():
            if self.journal.unavailable or time.monotonic() >= until:
                _log.error("the journal is full: the last changes of the run are not stored")
                break
            time.sleep(_CLOSE_POLL_S)
            if output.flush_due:
                output.flush()
        if self.record is not None and self.mode != "stopped":
            self.snapshots.save(self.record.run_id, self.lanes)

    def fail(self, reason: str) -> None:
        """Stop the run after an error of the engine itself, perhaps in the middle of a chunk.

        The tasks that were complete before the error are handed over.
        """
        self.error = reason
        if self.mode != "stopped":
            self.set_mode("stopped")
            self.output.notify("engine_failed", reason)
            self.output.flush()
        self.output.publish_status()

    def _advance(self, run: LiveRun) -> float:
        output = self.output
        if self.held == output.batches.has_capacity:
            self.held = not self.held
            output.publish_status()
            self.time.set(run.now)
        if self.held:
            if self.clock.now() >= output.next_update:
                output.publish_status()  # the event itself waits until the journal has capacity
            return _IDLE_S
        idle = self._decide_due_tasks(run)
        if self.clock.now() >= output.next_update:
            output.update()
        return min(idle, max(0.0, output.next_update - self.clock.now()))

    def _decide_due_tasks(self, run: LiveRun) -> float:
        """Decide for the tasks that are due, for at most one chunk of them."""
        output = self.output
        began = self.clock.thread_cpu_time()
        due = self.time.due
        before = output.checkpoint()
        chunk = run.advance(output.next_task, self._chunk_size.tasks, due)
        if chunk is not None:
            self.add_chunk(run, chunk, before)
            self._chunk_size.adapt(len(chunk), self.clock.thread_cpu_time() - began)
        if run.source.ended:
            self.end()
            output.announce("run_stopped", f"the trace has ended after {run.ordinal:,} tasks")
            return _IDLE_S
        self.pass_time()
        if run.source.next_arrival <= due:
            self.time.slip(run.now)
            return 0.0
        return _IDLE_S  # not until the next arrival: tasks that come close together are cheaper together

    def add_chunk(self, run: LiveRun, chunk: LiveChunk, before: dict[str, Any]) -> None:
        """Add a chunk to the output, and end the episode if it has all its tasks.

        Parameters
        ----------
        run
            The active run.
        chunk
            Tasks that were just decided.
        before
            The checkpoint from before they were decided.
        """
        output = self.output
        episode = run.episode
        output.add_chunk(run, chunk, before)
        if episode is not None and episode.tasks >= episode.length:
            run.end_episode(output.next_task)
            self.time.set(run.now)
            message = f"episode {episode.number} ended after {episode.tasks:,} tasks: all clusters start empty"
            output.notify("episode", message)
            output.send_lane_events()
            output.flush()

    def watch_deletion(self) -> None:
        """Begin the statistics anew when the journal has accepted a deletion, and report its end."""
        deletion = self.deletion
        run = self.run
        if deletion is None:
            return
        if deletion.accepted_now() and run is not None:
            run.reset_statistics()
            self.output.update()
        if not deletion.ended():
            return
        self.deletion = None
        if deletion.accepted and run is not None:
            self.output.announce("forgotten", "all tasks and results were deleted")
        deletion.report()
