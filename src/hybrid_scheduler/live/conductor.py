"""What commands do, and how runs begin, go on after a restart, and end. Used by the engine's thread alone."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from ..core import InvalidInputError
from ..core.canonical_json import content_hash
from ..workload import Scenario
from .batch_records import IdempotencyKey, Recovered, RunRecord
from .clock import Clock
from .command_queue import SubmittedTask
from .journal import Journal, JournalUnavailable
from .live_config import LiveConfig
from .live_run import LaneEvent, LiveRun
from .measured_run import MeasuredRun, batch_of
from .model_snapshots import ModelSnapshots
from .scheduler_lane import SchedulerLane
from .session import LiveSession
from .stability_notes import stability_notes
from .status import ModelCard
from .training_worker import TrainingWorker

_log = logging.getLogger(__name__)


class Conductor:
    """Every method is idempotent: what is so already stays so, and nobody is told."""

    def __init__(
        self,
        session: LiveSession,
        journal: Journal,
        clock: Clock,
        trainer: TrainingWorker,
        snapshots: ModelSnapshots,
        new_id: Callable[[], str],
    ) -> None:
        self._session, self._journal, self._clock = session, journal, clock
        self._trainer, self._snapshots, self._new_id = trainer, snapshots, new_id
        #: Measured runs that the database has not confirmed yet.
        self._storing: dict[str, Future[None]] = {}
        self._home = session.course

    # ---------------------------------------------------------------- commands

    def start(self) -> None:
        if self._session.mode == "paused":
            self.resume()
        elif self._session.mode == "stopped":
            self.begin(self._session.course, "running")

    def stop(self) -> None:
        if self._session.mode != "stopped":
            self._end()
            self._session.changed("run_stopped", "the run was stopped")

    def pause(self) -> None:
        session = self._session
        if session.mode == "running":
            session.sync()
            session.set_mode("paused")
            session.changed("paused", "paused")

    def resume(self) -> None:
        session = self._session
        if session.mode == "paused" and session.run is not None:
            session.set_mode("running")
            session.time.set(session.run.now)
            session.changed("resumed", "resumed")

    def set_speed(self, speed: float) -> None:
        session = self._session
        if speed == session.time.speed:
            return
        session.sync()
        session.course = replace(session.course, speed=speed)
        session.time.change_speed(speed, session.run.now if session.run else 0.0)
        if session.run is not None:
            words = "as fast as possible" if speed == math.inf else f"{speed:g} virtual seconds per second"
            session.changed("speed", f"speed: {words}")

    def set_scenario(self, scenario: Scenario, utilisation: float | None) -> None:
        session, run = self._session, self._session.run
        course = replace(session.course, scenario=scenario, utilisation=utilisation)
        if run is None or session.record is None or session.mode == "stopped":
            session.course = course
            return
        if (run.source.scenario, run.source.utilisation) == (scenario, course.load):
            return
        session.sync()
        session.course = course
        run.change_scenario(scenario, course.load)
        session.record = replace(session.record, scenario=scenario.name, utilisation=course.load)
        session.notes = stability_notes(run.course, scenario, course.load)
        session.changed("scenario", f"scenario {scenario.name} at {course.load:g} of capacity")

    def retrain(self, name: str) -> None:
        session, lane = self._session, self._session.learned_lane(name)
        learner = lane.learner
        if learner is None or learner.training:
            return
        if learner.times.request_training():
            learner.send()
        else:
            message = "too few outcomes to train from"
            session.tell(LaneEvent("retrain_failed", name, message, session.next_task, lane.version))
            session.flush()

    def submit(self, task: SubmittedTask, key: IdempotencyKey | None, answer: Future[int]) -> None:
        session = self._session
        earlier = session.ledger.promised(key) if key is not None else None
        if earlier is not None:
            earlier.add_done_callback(lambda done: _copy(done, answer))
            return
        if self._journal.unavailable or not session.ledger.has_capacity:
            raise JournalUnavailable("the database cannot take the task now", hint="try again in a few seconds")
        if session.run is None:
            self.begin(session.course, "stopped")
        assert session.run is not None
        session.sync()
        task_id, before = session.next_task, session.checkpoint()
        session.keep(session.run.place(task.arriving(task_id, session.run.now)), before)
        session.ledger.promise(task_id, answer, key)
        session.flush()

    def store_measured(self, measured: MeasuredRun, answer: Future[str]) -> None:
        """Into the history as a run of its own. The run under way goes on; its tasks' ids have a gap.

        One that is on its way already, by its sender's name, is not stored again: both hear of the first.
        """
        session = self._session
        run_id = measured.run_id or self._new_id()
        if (earlier := self._storing.get(run_id)) is not None:
            earlier.add_done_callback(lambda done: _settle(answer, done, run_id))
            return
        session.flush()
        if self._journal.unavailable or not session.ledger.has_capacity:
            raise JournalUnavailable("the database cannot take the run now", hint="try again in a few seconds")
        watched = session.record.run_id if session.record else None
        counters, now = session.ledger.counters, self._clock.unix()
        batch = batch_of(measured, run_id, counters, now=now, watched=watched)
        assert batch.committed is not None
        self._storing[run_id] = batch.committed
        batch.committed.add_done_callback(lambda done: self._storing.pop(run_id, None))
        batch.committed.add_done_callback(lambda done: _settle(answer, done, run_id))
        session.ledger.take(batch)
        session.published = session.status()  # before anybody can hear of it
        session.ledger.deliver()

    def forget(self, deleted: Future[int]) -> None:
        session = self._session
        session.flush()
        if not session.ledger.has_capacity:
            raise JournalUnavailable("the database cannot delete anything now", hint="try again in a few seconds")
        for lane in session.lanes:
            lane.statistics.forget()
        self._journal.forget(deleted)
        if session.run is not None:
            session.changed("forgotten", "all tasks and results were deleted")

    def models(self) -> list[ModelCard]:
        return [card(lane) for lane in self._session.lanes if lane.learner is not None]

    def model_card(self, name: str) -> ModelCard:
        return card(self._session.learned_lane(name))

    # ---------------------------------------------------------------- runs

    def begin(self, course: LiveConfig, mode: str = "running") -> None:
        """A new run. The one before ends only when the new one is ready to begin."""
        session = self._session
        first = session.next_task
        run = LiveRun(course, self._trainer, first_task=first)
        said = stability_notes(course, course.scenario, course.load)
        if session.mode != "stopped":
            self._end()
            session.notify("run_stopped", "another run begins")
            session.flush()
        config, now = course.config(), self._clock.unix()
        record = RunRecord(
            run_id=self._new_id(),
            created_at=now,
            scenario=course.scenario.name,
            utilisation=course.load,
            seed=course.seed,
            platform=course.platform.name,
            schedulers=course.schedulers,
            config=config,
            config_hash=content_hash(config),
            status=mode,
            ended_at=now if mode == "stopped" else None,
        )
        self._take_up(run, record, said)
        run.begin(first)
        message = f"{course.scenario.name} at {course.load:g} of capacity, seed {course.seed}"
        session.changed("run_started", message)

    def recover(self, recovered: Recovered) -> None:
        """Go on with the run that no person stopped, unless the settings have changed since."""
        session, old, state = self._session, recovered.run, recovered.state
        if old is None:
            return
        if state is None:
            reason = "it has no checkpoint"
        elif not session.belongs_to(state):
            reason = "the settings have changed"
        else:
            try:
                self._go_on(old, recovered)
                return
            except Exception as error:
                _log.exception("run %s cannot be resumed", old.run_id)
                reason = f"{type(error).__name__}: {error}"
        session.record, session.mode = old, old.status
        self._end()
        session.notify("run_stopped", f"not resumed: {reason}", level="warning")
        session.ledger.flush(session.record, state or {})
        session.record = None
        self.begin(self._home)

    def _go_on(self, old: RunRecord, recovered: Recovered) -> None:
        state, first = recovered.state or {}, recovered.counters.next_task_id
        course = self._home.resumed(old.config)
        if course is None:
            raise InvalidInputError("course", "one on the same machine", old.platform)
        run = LiveRun(
            replace(course, speed=math.inf if state["speed"] is None else float(state["speed"])),
            self._trainer,
            first_task=first,
            resumed=lambda spec: self._snapshots.scheduler(old.run_id, spec),
        )
        run.restore(state, recovered.recent, first)
        scenario, load = run.source.scenario, run.source.utilisation
        self._take_up(run, old, stability_notes(course, scenario, load))
        self._session.course = replace(run.course, scenario=scenario, utilisation=load)
        self._session.changed("resumed", f"resumed after a restart, at task {first}")

    def _take_up(self, run: LiveRun, record: RunRecord, said: list[str]) -> None:
        if "torch" in sys.modules:
            import torch

            # Small networks learn faster in one thread, much so where cores are shared, and alike everywhere.
            torch.set_num_threads(1)
        self._session.take_up(run, record, said)

    def _end(self) -> None:
        session = self._session
        assert session.record is not None
        session.sync()
        session.set_mode("stopped")
        self._snapshots.drop(session.record.run_id)


def card(lane: SchedulerLane) -> ModelCard:
    """What a scheduler shows of its model, by the names learned schedulers give to it."""
    importance = getattr(lane.scheduler, "feature_importance", None)
    agent = getattr(lane.scheduler, "agent_", None)
    numbers: dict[str, float | int | None] | None = None
    if agent is not None:
        epsilon = getattr(agent, "epsilon", getattr(lane.scheduler, "epsilon", None))
        loss = getattr(agent, "loss", None)
        numbers = {
            "epsilon": float(epsilon or 0.0),
            "updates": int(getattr(agent, "updates", 0)),
            "loss": None if loss is None else float(loss),
        }
    shares = importance() if importance is not None else None
    return ModelCard(lane.name, lane.state, lane.version, shares, numbers)


def _copy(done: Future[int], answer: Future[int]) -> None:
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())


def _settle(answer: Future[str], done: Future[None], value: str) -> None:
    """In the thread that commits."""
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(value)
