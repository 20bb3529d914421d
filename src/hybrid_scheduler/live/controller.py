"""Controller of the live run: the state of the run, the commands on it, and the events it sends.

Only the engine thread uses it. Commands are idempotent: one that changes nothing sends no event.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core import InvalidInputError
from ..core.canonical_json import content_hash
from ..learning.duration.retraining import TrainingWorker
from ..workload import Scenario
from .batch_builder import BatchBuilder, unavailable
from .clock import ChunkSize, Clock, OutageTimer, TaskRate, VirtualTime
from .command_queue import SharedCommand, SubmittedTask, forward_result
from .journal import Counters, IdempotencyKey, Journal, Recovered, RunLabels, RunRecord
from .live_config import LiveConfig
from .live_run import LaneEvent, LiveChunk, LiveRun
from .measured_run import MeasuredRun, batch_of
from .model_versions import ModelSnapshots
from .scheduler_lane import SchedulerLane, learned_lane
from .status import LiveStatus, ModelCard, read_status
from .stream_messages import UpdateBuilder, lane_notification, notification, version_record

_log = logging.getLogger(__name__)
#: Wall seconds to wait when nothing is due, and between two attempts to hand over the last batch.
_IDLE_S, _CLOSE_POLL_S = 0.05, 0.02
#: Results in a batch before it is handed over early.
_MAX_ROWS = 20_000


class LiveController:
    """The run with its record, its virtual time and its output to the journal.

    Parameters
    ----------
    config
        The run to start with, and to compare the settings of a stored run with.
    journal
        Stores the batches.
    clock
        Wall time.
    trainer
        Trains the models of learned schedulers.
    snapshots
        Keeps weights that a restart could not learn again.
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
        trainer: TrainingWorker,
        snapshots: ModelSnapshots,
        new_id: Callable[[], str],
        defaults: LiveConfig | None = None,
    ) -> None:
        self._journal, self._clock = journal, clock
        self._trainer, self._snapshots, self._new_id = trainer, snapshots, new_id
        self._initial_config, self._initial_hash = config, content_hash(config.as_dict())
        self._defaults_hash = self._initial_hash if defaults is None else content_hash(defaults.as_dict())
        #: Hash of the configuration under which the active run began; checkpoints call it `home`.
        self._begin_hash = self._initial_hash
        #: Configuration of the active run, or of the next one.
        self._config = config
        self._run: LiveRun | None = None
        self._record: RunRecord | None = None
        #: Running, but the journal has no capacity.
        self._held = False
        #: The journal was full when something was to be handed over.
        self._flush_due = False
        self._deletion: SharedCommand[int] | None = None
        self._warnings: list[str] = []
        #: Why the engine itself failed.
        self._error: str | None = None
        self._time = VirtualTime(clock, config.speed)
        self._next_update = 0.0
        self._chunk_size = ChunkSize()
        self._outage = OutageTimer("the database")
        self._updates = UpdateBuilder()
        self._rate = TaskRate()
        self._last_checkpoint: dict[str, Any] = {}
        self.number_from(Counters())

    def number_from(self, counters: Counters, keys: Mapping[IdempotencyKey, int | str] | None = None) -> None:
        """Continue the numbers of tasks, results and events from these counters, before the first command.

        `keys` are those that an earlier engine has stored, with the id of their task or run.
        """
        device_names = tuple(device.name for device in self._config.platform.devices)
        self._batches = BatchBuilder(self._journal, counters, device_names, keys)
        self.publish_status()

    # ---------------------------------------------------------------- commands

    def start(self) -> None:
        """Resume a paused run, or begin a new one if there is none."""
        if self._mode == "paused":
            self.resume()
        elif self._mode == "stopped":
            self.begin(self._config)

    def stop(self) -> None:
        """End the run; it will not be resumed."""
        if self._mode != "stopped":
            self._end()
            self._announce("run_stopped", "the run was stopped")

    def pause(self) -> None:
        """Stop virtual time; queues and models stay."""
        if self._mode == "running":
            self._pass_time()
            self._set_mode("paused")
            self._announce("paused", "paused")

    def resume(self) -> None:
        """Let virtual time go on after a pause."""
        if self._mode == "paused" and self._run is not None:
            self._set_mode("running")
            self._time.set(self._run.now)
            self._announce("resumed", "resumed")

    def set_speed(self, speed: float) -> None:
        """Set the virtual seconds per wall second."""
        if speed == self._time.speed:
            return
        self._pass_time()
        self._config = replace(self._config, speed=speed)
        self._time.change_speed(speed, self._run.now if self._run else 0.0)
        if self._run is not None:
            text = "as fast as possible" if speed == math.inf else f"{speed:g} virtual seconds per second"
            self._announce("speed", f"speed: {text}")

    def set_scenario(self, scenario: Scenario, utilisation: float | None) -> None:
        """Draw the next tasks from another scenario; queues, models and averages stay."""
        run, config = self._run, replace(self._config, scenario=scenario, utilisation=utilisation, trace=None)
        if run is None or self._record is None or self._mode == "stopped":
            self._config = config
            return
        if (run.source.scenario, run.source.utilisation) == (scenario, config.load):
            return
        self._pass_time()
        self._config = config
        run.change_scenario(scenario, config.load)
        text = f"scenario {scenario.name} at {config.load:g} of capacity"
        self._record = replace(
            self._record.with_change(run.ordinal, text), scenario=scenario.name, utilisation=config.load
        )
        self._warnings = replace(config, schedulers=run.config.schedulers).warnings()
        self._announce("scenario", text)

    def retrain(self, name: str) -> None:
        """Train the model of a learned scheduler from its window, unless it is being trained."""
        lane = learned_lane(self.lanes, name)
        if self._run is not None and not self._run.retrain(lane, self._next_task):
            message = "too few outcomes to train from"
            self._send_lane_event(LaneEvent("retrain_failed", name, message, self._next_task, lane.version))
            self._flush()

    def submit(self, task: SubmittedTask, key: IdempotencyKey | None, task_id: Future[int]) -> None:
        """Place a client's task; `task_id` gets its id when the task is durable."""
        earlier = self._batches.find_submission(key) if key is not None else None
        if earlier is not None:
            forward_result(earlier, task_id)
            return
        self._batches.require_capacity("take the task")
        if self._run is None:
            self.begin(self._config, "stopped")
        assert self._run is not None
        assert self._record is not None
        self._pass_time()
        self._record = self._record.with_submission()
        new_id, before = self._next_task, self._checkpoint()
        self._add_chunk(self._run.place(task.arriving(new_id, self._run.now)), before)
        if self._mode == "stopped":
            self._run.finish_queues()
        self._batches.acknowledge(new_id, task_id, key)
        if self._mode != "running":  # no update follows
            self.publish_status()
        self._flush()

    def store_measured(
        self, measured: MeasuredRun, stored_id: Future[str], key: IdempotencyKey | None = None
    ) -> None:
        """Store a measured run as a run of its own; `stored_id` gets its id when it is durable.

        The active run goes on; the ids of its tasks have a gap. A run that is being stored or was stored lately, by
        its id, is not stored again: both futures get the first one's result.
        """
        known = self._batches.find_submission(key) if key is not None else None
        if known is not None:
            forward_result(known, stored_id)
            return
        if (earlier := self._batches.find_measured_run(measured)) is not None:
            forward_result(earlier, stored_id)
            return
        run_id = measured.run_id or self._new_id()
        self._flush()
        self._batches.require_capacity("take the run")
        active = self._record.run_id if self._record else None
        batch = batch_of(measured, run_id, self._batches.counters, now=self._clock.unix(), watched=active)
        if key is not None:  # the database finds the run by its first task
            batch = replace(batch, idempotency=(replace(key, task_id=self._next_task),))
        forward_result(self._batches.take_measured(batch), stored_id, run_id)
        self.publish_status()  # before the batch can be durable, and its event be seen
        self._batches.deliver()

    def delete_tasks(self, deleted: Future[int]) -> None:
        """Delete every task with its results; `deleted` is running once this is sure, and gets their number.

        A deletion that is going on is not begun again.
        """
        if self._deletion is not None:
            self._deletion.callers.append(deleted)
            return
        self._flush()
        self._batches.require_capacity("delete anything")
        self._deletion = SharedCommand(deleted)
        self._journal.delete_tasks(self._deletion.result)
        self._watch_deletion()

    def delete_run(self, run_id: str, deleted: Future[int]) -> None:
        """Delete a run that has ended; `deleted` gets the number of its tasks."""
        active = self._record is not None and self._record.run_id == run_id
        if active and self._mode != "stopped":
            raise InvalidInputError("run_id", "a run that has ended", run_id, hint="stop it first")
        self._flush()
        self._batches.require_capacity("delete anything")
        if active:  # a task that is submitted later begins another run
            self._run = self._record = None
        self._batches.drop_run(run_id)
        self._journal.delete_run(run_id, deleted)

    def describe_run(self, run_id: str, labels: RunLabels, stored: Future[None]) -> None:
        """Replace name, tags and note of a run; `stored` is done when they are durable."""
        self._flush()
        self._batches.require_capacity("take it")
        self._journal.describe(run_id, labels, stored)

    def _watch_deletion(self) -> None:
        """Begin the statistics anew when the journal has accepted a deletion, and report its end."""
        if self._deletion is None:
            return
        if self._deletion.accepted_now():
            for lane in self.lanes:
                lane.reset_statistics()
            if self._run is not None:
                self._run.latency_bound.reset()
                self._update()
        if not self._deletion.ended():
            return
        deletion, self._deletion = self._deletion, None
        if deletion.accepted and self._run is not None:
            self._announce("forgotten", "all tasks and results were deleted")
        deletion.report()

    def models(self) -> list[ModelCard]:
        """Return the model cards of the learned schedulers."""
        return [lane.model_card() for lane in self.lanes if lane.learner is not None]

    def model_card(self, name: str) -> ModelCard:
        """Return the model card of one learned scheduler."""
        return learned_lane(self.lanes, name).model_card()

    def explanations(self, task_id: int) -> dict[str, dict[str, Any]]:
        """Return the values by which each learned scheduler placed one of the newest tasks."""
        found = {lane.name: lane.explanation(task_id) for lane in self.lanes}
        return {name: values for name, values in found.items() if values is not None}

    # ---------------------------------------------------------------- beginning, resuming and ending runs

    def begin(self, config: LiveConfig, mode: str = "running") -> None:
        """Begin a new run. The one before ends only when the new one is ready."""
        first = self._next_task
        run = LiveRun(config, self._trainer, first_task=first)
        warnings = config.warnings()
        # Everything of the run before is handed over under its own record, its end included.
        if self._mode != "stopped" or self._flush_due:
            self._flush()
            if not self._batches.has_capacity:
                raise unavailable("begin another run")
        if self._mode != "stopped":
            self._end()
            self._notify("run_stopped", "another run begins")
            self._flush()
        self._activate(run, config.new_record(self._new_id(), self._clock.unix(), mode), warnings)
        self._begin_hash = self._initial_hash
        run.begin(first)
        message = f"{config.scenario.name} at {config.load:g} of capacity, seed {config.seed}"
        self._announce("run_started", message)

    def recover(self, recovered: Recovered) -> None:
        """Resume the stored run that was not stopped, unless the settings have changed since."""
        old, checkpoint = recovered.run, recovered.state
        if old is None:
            return
        if checkpoint is None:
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
        self._record = old
        self._end()
        self._notify("run_stopped", f"not resumed: {reason}", level="warning")
        self._batches.flush(self._record, checkpoint or {})
        self._record = None
        self.begin(self._initial_config)

    def _settings_match(self, checkpoint: dict[str, Any]) -> bool:
        """Return whether the run began with these settings, or with options that are left out now."""
        if checkpoint.get("home") == self._initial_hash:
            return True
        without_options = self._initial_hash == self._defaults_hash
        return without_options and checkpoint.get("defaults") == self._defaults_hash

    def _resume_stored(self, old: RunRecord, recovered: Recovered) -> None:
        file = (recovered.state or {}).get("trace_file")
        config = self._initial_config.resumed(old.config, None if file is None else Path(file))
        if config is None:
            raise InvalidInputError("config", "one that this program can repeat", old.config_hash[:12])
        run = LiveRun.resume(
            config, self._trainer, recovered, snapshots=lambda spec: self._snapshots.schedulers(old.run_id, spec)
        )
        scenario, load = run.source.scenario, run.source.utilisation
        now = replace(run.config, scenario=scenario, utilisation=load, trace=run.trace)
        self._activate(run, old, now.warnings())
        self._config, self._begin_hash = now, str((recovered.state or {})["home"])
        self._announce("resumed", f"resumed after a restart, at task {recovered.counters.next_task_id}")

    def _activate(self, run: LiveRun, record: RunRecord, warnings: list[str]) -> None:
        self._run, self._record, self._config = run, record, run.config
        self._warnings, self._error, self._held = warnings, None, False
        self._batches.device_names = tuple(device.name for device in run.config.platform.devices)
        self._time = VirtualTime(self._clock, run.config.speed, run.now)
        self._updates = UpdateBuilder()
        self._rate.clear()

    def _end(self) -> None:
        assert self._record is not None
        self._pass_time()
        if self._run is not None:
            self._run.finish_queues()
        self._set_mode("stopped")
        self._snapshots.drop(self._record.run_id)

    def _set_mode(self, mode: str) -> None:
        assert self._record is not None
        ended_at = self._clock.unix() if mode == "stopped" else None
        self._record = replace(self._record, status=mode, ended_at=ended_at)

    # ---------------------------------------------------------------- going on

    def step(self) -> float:
        """Do what is due now; returns the wall seconds until something is due again."""
        self._batches.deliver()
        self._watch_journal()
        self._watch_deletion()
        if self._run is None or self._record is None:
            return _IDLE_S
        self._run.collect_training(self._next_task)
        if self._send_lane_events() and self._mode != "running":  # no update follows that would say so
            self.publish_status()
            self._flush_due = True
        if self._flush_due:
            self._flush()
        idle = self._advance(self._run) if self._mode == "running" else _IDLE_S
        if self._batches.rows >= _MAX_ROWS:
            self._flush()
        if self._mode != "stopped":
            self._snapshots.save_if_due(self._record.run_id, self.lanes)
        return idle

    def finish(self, timeout: float) -> None:
        """Hand over what is left before the engine closes, within `timeout` seconds; the run can be resumed."""
        until = time.monotonic() + timeout
        self._flush()
        # The journal has a thread of its own, so this is wall time, not the clock of the run.
        while self._flush_due or not self._batches.deliver():
            if self._journal.unavailable or time.monotonic() >= until:
                _log.error("the journal is full: the last changes of the run are not stored")
                break
            time.sleep(_CLOSE_POLL_S)
            if self._flush_due:
                self._flush()
        if self._record is not None and self._mode != "stopped":
            self._snapshots.save(self._record.run_id, self.lanes)

    def fail(self, reason: str) -> None:
        """Stop the run after an error of the engine itself, perhaps in the middle of a chunk.

        The tasks that were complete before the error are handed over.
        """
        self._error = reason
        if self._mode != "stopped" and self._record is not None:
            self._set_mode("stopped")
            self._notify("engine_failed", reason)
            self._flush()
        self.publish_status()

    def _advance(self, run: LiveRun) -> float:
        if self._held != (not self._batches.has_capacity):
            self._held = not self._held
            self.publish_status()
            self._time.set(run.now)
        if self._held:
            if self._clock.now() >= self._next_update:
                self.publish_status()  # the event itself waits until the journal has capacity
            return _IDLE_S
        idle = self._decide_due_tasks(run)
        if self._clock.now() >= self._next_update:
            self._update()
        return min(idle, max(0.0, self._next_update - self._clock.now()))

    def _decide_due_tasks(self, run: LiveRun) -> float:
        """Decide for the tasks that are due, for at most one chunk of them."""
        began, due, before = self._clock.thread_cpu_time(), self._time.due, self._checkpoint()
        chunk = run.advance(self._next_task, self._chunk_size.tasks, due)
        if chunk is not None:
            self._add_chunk(chunk, before)
            self._chunk_size.adapt(len(chunk), self._clock.thread_cpu_time() - began)
        if run.source.ended:
            self._end()
            self._announce("run_stopped", f"the trace has ended after {run.ordinal:,} tasks")
            return _IDLE_S
        self._pass_time()
        if run.source.next_arrival <= due:
            self._time.slip(run.now)
            return 0.0
        return _IDLE_S  # not until the next arrival: tasks that come close together are cheaper together

    def _pass_time(self) -> None:
        """Let virtual time reach the present; it passes also when nothing arrives."""
        if self._run is not None and self._mode == "running" and not self._held:
            self._run.pass_time(self._time.due)

    def _add_chunk(self, chunk: LiveChunk, before: dict[str, Any]) -> None:
        """Add a chunk to the next batch; `before` is the checkpoint from before it was decided."""
        run = self._run
        assert run is not None
        assert self._record is not None
        if not self._batches.fits(chunk):
            self._batches.flush(self._record, before)
        self._batches.add(chunk, run.ordinal - len(chunk))
        self._updates.add(chunk)
        self._send_lane_events()
        if run.episode_over:
            self._end_episode(run)

    def _end_episode(self, run: LiveRun) -> None:
        episode = run.episode
        assert episode is not None
        run.end_episode(self._next_task)
        self._time.set(run.now)
        message = f"episode {episode.number} ended after {episode.tasks:,} tasks: all clusters start empty"
        self._notify("episode", message)
        self._send_lane_events()
        self._flush()

    def _watch_journal(self) -> None:
        seconds = self._outage.ended(self._clock.now(), unavailable=self._journal.unavailable)
        if seconds is not None and self._record is not None:
            message = f"the database was unavailable for {seconds:.1f} s; nothing was lost"
            self._notify("storage", message, level="warning")
            self._flush()

    # ---------------------------------------------------------------- events, updates and batches

    def _event(self, type: str, body: dict[str, Any]) -> None:
        assert self._record is not None
        t = self._run.now if self._run else 0.0
        self._batches.add_event(type, self._record.run_id, t, self._clock.unix(), body)

    def _notify(self, kind: str, message: str, level: str | None = None) -> None:
        self._event("notification", notification(kind, message, level=level))

    def _announce(self, kind: str, message: str) -> None:
        """Send a notification and an update at once."""
        self._send_lane_events()
        self._notify(kind, message)
        self._update()

    def _send_lane_events(self) -> bool:
        """Send what happened to the lanes; returns False if nothing did."""
        if self._run is None or not self._run.lane_events:
            return False
        events, self._run.lane_events = self._run.lane_events, []
        for event in events:
            self._send_lane_event(event)
        return True

    def _send_lane_event(self, event: LaneEvent) -> None:
        assert self._record is not None
        version = version_record(event, self._record.run_id, self._clock.unix())
        if version is not None:
            self._batches.add_version(version)
        if event.kind != "loaded":
            self._event("notification", lane_notification(event))

    def _update(self) -> None:
        """Send one `simulation_update` with a few log lines, and hand over a batch."""
        run = self._run
        assert run is not None
        now = self._clock.now()
        self._next_update = now + self._config.update_every
        self._pass_time()
        self._collect_started()
        if self._mode == "running":
            self._rate.add(now, run.ordinal)
        else:
            self._rate.clear()
        status = self.publish_status()
        self._event("simulation_update", self._updates.update(run, status))
        for line in self._updates.logs(run.config.platform):
            self._event("log", line)
        self._updates.clear()
        self._flush()

    def _collect_started(self) -> None:
        """Add the results of tasks that left a common queue to the next batch and the next update."""
        assert self._run is not None
        started = self._run.take_started()
        self._batches.add_started(started)
        self._updates.add_started(started)

    def _checkpoint(self) -> dict[str, Any]:
        assert self._run is not None
        self._collect_started()  # a checkpoint no longer has them
        trace = self._run.trace
        self._last_checkpoint = {
            **self._run.checkpoint(),
            "home": self._begin_hash,
            "defaults": self._defaults_hash,
            "trace_file": None if trace is None or trace.path is None else str(trace.path),
            "speed": None if self._time.speed == math.inf else self._time.speed,
        }
        return self._last_checkpoint

    def _flush(self) -> None:
        """Hand what waits to the journal; if it is full, `step` tries again."""
        if self._run is not None and self._record is not None:
            # An engine that failed may have stopped in the middle of a chunk.
            state = self._last_checkpoint if self._error is not None else self._checkpoint()
            self._flush_due = not self._batches.flush(self._record, state)

    # ---------------------------------------------------------------- status

    def publish_status(self) -> LiveStatus:
        """Renew `last_status`, which other threads read."""
        self.last_status = read_status(
            self._run,
            self._record,
            self._config,
            self._batches.counters,
            self._journal,
            held=self._held,
            tasks_per_second=self._tasks_per_second,
            notes=(*self._warnings, *([self._error] if self._error else ())),
        )
        return self.last_status

    @property
    def _mode(self) -> str:
        """running, paused or stopped."""
        return self._record.status if self._record else "stopped"

    @property
    def _tasks_per_second(self) -> float:
        if self._run is None or self._mode != "running":
            return 0.0
        return self._rate.rate(self._clock.now(), self._run.ordinal)

    @property
    def _next_task(self) -> int:
        return self._batches.counters.next_task_id

    @property
    def lanes(self) -> list[SchedulerLane]:
        """Schedulers of the run; none without a run."""
        return self._run.lanes if self._run else []
