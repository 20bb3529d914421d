"""Controller of the live run: begins, resumes and ends runs, decides for the tasks that are due, chunk by chunk.

Only the engine thread uses it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from ..core import InvalidInputError
from ..core.canonical_json import content_hash
from ..learning.duration.retraining import TrainingWorker
from .clock import ChunkSize, Clock, VirtualTime
from .command_queue import forward_result
from .journal import Batch, Counters, Journal, Recovered, RunRecord, storable
from .live_config import LiveConfig
from .live_run import LiveChunk, LiveRun
from .model_versions import ModelSnapshots
from .run_output import RunOutput, unavailable
from .scheduler_lane import SchedulerLane
from .status import DeviceInfo, LiveStatus, PlatformInfo, RunStatus, StorageState

_log = logging.getLogger(__name__)
#: Wall seconds to wait when nothing is due, and between two attempts to hand over the last batch.
_IDLE_S = 0.05
_CLOSE_POLL_S = 0.02
#: Results in a batch before it is handed over early.
_MAX_ROWS = 20_000


@dataclass(slots=True)
class Deletion:
    """A deletion of all tasks, for which several callers may wait."""

    #: The journal's result, and that of the callers, who get it once the engine has taken notice.
    result: Future[int] = field(default_factory=Future)
    callers: Future[int] = field(default_factory=Future)
    #: Whether the journal is sure to complete it, or has completed it.
    accepted: bool = False


class LiveController:
    """The active run with its record and its virtual time, as it goes on. Commands use it.

    Parameters
    ----------
    config
        The run to start with; it is compared with the settings of a stored run.
    journal
        Stores the batches.
    clock
        Wall time.
    snapshots
        Keeps weights that a restart could not learn again.
    trainer
        Trains the models of learned schedulers.
    new_id
        Returns a new run id.
    defaults
        The configuration without the options of the command line; by default `config` itself. If no option was
        given, the stored run is resumed whatever options it began with.
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
        self.deletion: Deletion | None = None
        self.snapshots = snapshots
        self.new_id = new_id
        self._trainer = trainer
        self._initial_config = config
        #: Hashes of the configuration, and of that without options, as checkpoints call them.
        settings = {"home": config, "defaults": defaults or config}
        self._settings = {name: content_hash(each.as_dict()) for name, each in settings.items()}
        self._chunk_size = ChunkSize()
        self.output = RunOutput(self)

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
            verdict=run.verdict() if run else None,
        )

    # ---------------------------------------------------------------- beginning, resuming and ending

    def begin(self, config: LiveConfig, mode: str = "running") -> None:
        """Begin a new run. The one before ends only when the new one is ready."""
        output = self.output
        first = output.next_task
        run = LiveRun(config, self._trainer, first_task=first)
        warnings = config.warnings()
        record = config.new_record(self.new_id(), self.clock.unix(), mode)
        self._check_storable(record, run)
        # Everything of the run before is handed over under its own record, its end included.
        if self.mode != "stopped" or output.flush_due:
            output.flush()
            if not output.has_capacity:
                raise unavailable("begin another run")
        if self.mode != "stopped":
            self.end()
            output.notify("run_stopped", "another run begins")
            output.flush()
        self._activate(run, record, warnings, self._settings["home"])
        run.lanes.learn_all(first)
        message = f"{config.scenario.name} at {config.load:g} of capacity, seed {config.seed}"
        output.announce("run_started", message)

    def recover(self, recovered: Recovered) -> None:
        """Resume the stored run that was not stopped, unless the settings have changed since."""
        old = recovered.run
        checkpoint = recovered.state
        if old is None:
            return
        if recovered.problem is not None:
            reason = recovered.problem
        elif checkpoint is None:
            reason = "it has no checkpoint"
        elif not self._settings_match(checkpoint):
            reason = "the settings have changed"
        else:
            try:
                self._resume_stored(old, recovered)
                return
            except Exception as error:
                _log.exception("run %s cannot be resumed", old.run_id)
                reason = f"{type(error).__name__}: {error}"
                if not isinstance(error, InvalidInputError):
                    checkpoint = None  # no later reader should meet it either
        # Set aside, whatever is wrong with it: its record must not stop this start or a later reader.
        output = self.output
        self.run = None
        self.record = replace(old, config=storable(old.config))
        output.device_names = tuple(map(storable, recovered.device_names))
        self.end()
        output.notify("run_stopped", storable(f"not resumed: {reason}"), level="warning")
        output.flush(storable(checkpoint or {}))
        self.record = None
        self.begin(self._initial_config)

    def _settings_match(self, checkpoint: dict[str, Any]) -> bool:
        """Return whether the run began with these settings, or with options that are left out now."""
        home = self._settings["home"]
        defaults = self._settings["defaults"]
        return checkpoint.get("home") == home or home == defaults == checkpoint.get("defaults")

    def _resume_stored(self, old: RunRecord, recovered: Recovered) -> None:
        checkpoint = recovered.state or {}
        file = checkpoint.get("trace_file")
        config = self._initial_config.resumed(old.config, None if file is None else Path(file))
        if config is None:
            raise InvalidInputError("config", "one that this program can repeat", old.config_hash[:12])
        speed = math.inf if checkpoint["speed"] is None else float(checkpoint["speed"])
        first = recovered.counters.next_task_id
        models = partial(self.snapshots.schedulers, old.run_id)
        run = LiveRun(replace(config, speed=speed), self._trainer, first_task=first, snapshots=models)
        run.restore(checkpoint, recovered.recent, first)
        source = run.source
        now = replace(run.config, scenario=source.scenario, utilisation=source.utilisation, trace=run.trace)
        self._check_storable(old, run)
        self._activate(run, old, now.warnings(), str(checkpoint["home"]))
        self.config = now
        self.output.announce("resumed", f"resumed after a restart, at task {first}")

    def _check_storable(self, record: RunRecord, run: LiveRun) -> None:
        """Raise if the journal could not store this run; the active one goes on."""
        self.journal.check(Batch(record, run.checkpoint(), self.output.counters, run.config.device_names))

    def _activate(self, run: LiveRun, record: RunRecord, warnings: list[str], begin_hash: str) -> None:
        self.run = run
        self.record = record
        self.config = run.config
        self.warnings = warnings
        self.error = None
        self.held = False
        self.time = VirtualTime(self.clock, run.config.speed, run.now)
        self.hashes = {**self._settings, "home": begin_hash}
        self.output.device_names = run.config.device_names
        self.output.reset()

    def end(self) -> None:
        """End the active run; it will not be resumed."""
        assert self.record is not None
        self.pass_time()
        if self.run is not None:
            self.run.lanes.finish_queues()
        self.set_mode("stopped")
        self.snapshots.drop(self.record.run_id)

    # ---------------------------------------------------------------- going on

    def step(self) -> float:
        """Do what is due now; returns the wall seconds until something is due again."""
        output = self.output
        output.deliver()
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
        if output.draft.rows >= _MAX_ROWS:
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
        while output.flush_due or not output.deliver():
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
        if self.held == output.has_capacity:
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
        if deletion is None:
            return
        result = deletion.result
        if deletion.callers.cancelled():
            result.cancel()
        ended = result.done()  # read first: what has ended no longer changes
        accepted = result.running() or (ended and not result.cancelled() and not result.exception())
        if accepted and not deletion.accepted:
            deletion.accepted = True
            deletion.callers.set_running_or_notify_cancel()  # from now on they cannot cancel it
            if self.run is not None:
                self.run.reset_statistics()
                self.output.update()
        if not ended:
            return
        self.deletion = None
        if accepted and self.run is not None:
            self.output.announce("forgotten", "all tasks and results were deleted")
        if deletion.callers.running() or deletion.callers.set_running_or_notify_cancel():
            forward_result(result, deletion.callers)
