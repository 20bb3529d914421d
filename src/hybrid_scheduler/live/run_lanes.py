"""Lanes of a live run together: their queues, errors, models, and the events that users see."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..core import Central, HybridSchedulerError, InvalidInputError, LearningEvent, ModelVersion, Scheduler
from ..learning.duration.retraining import TrainingWorker
from ..learning.model_files import ModelFileError
from ..schedulers import create
from .journal import StartedTasks
from .live_config import LiveConfig
from .model_versions import with_model
from .scheduler_lane import CentralLane, SchedulerLane

_log = logging.getLogger(__name__)
#: Number of tasks whose durations set the units of an objective with several goals.
_SAMPLE = 1000
#: Triggers of versions that were not trained in this run.
_LOADED = ("pretrained", "restart")


@dataclass(frozen=True, slots=True)
class LaneEvent:
    """Something that happened to a lane, or to the machine of all (then `scheduler` is None).

    A new version has a `model`; kind "loaded" gets no notification.
    """

    kind: str
    scheduler: str | None
    message: str
    at_task: int
    version: int | None = None
    model: ModelVersion | None = None
    seconds: float | None = None
    loss: float | None = None


class RunLanes(list[SchedulerLane]):
    """A lane for every scheduler of a run.

    Parameters
    ----------
    config, trainer, first_task, snapshots
        As of `LiveRun`.
    """

    def __init__(
        self,
        config: LiveConfig,
        trainer: TrainingWorker,
        first_task: int,
        snapshots: Callable[[str], Iterable[Scheduler]] | None,
    ) -> None:
        super().__init__()
        #: Virtual time of the run, and its newest task.
        self.now = 0.0
        self.newest_task = first_task - 1
        #: Events since the output last emptied the list.
        self.events: list[LaneEvent] = []
        self._config = config
        self._trainer = trainer
        self._sample = config.sample(_SAMPLE)
        for spec in config.schedulers:
            if snapshots is None:
                self.append(self._new(spec))
            else:
                self.append(self._resumed(spec, snapshots(spec), first_task))

    def _new(self, spec: str) -> SchedulerLane:
        """Return a lane whose scheduler knows nothing yet; its parameters may be of the wrong type."""
        try:
            return self._lane(spec, create(spec))
        except HybridSchedulerError:
            raise
        except Exception as error:  # a scheduler's own code can raise anything
            _log.warning("scheduler %s does not start", spec, exc_info=error)
            reason = f"{spec}, which raises {type(error).__name__}: {error}"
            raise InvalidInputError("schedulers", "schedulers that start on this machine", reason) from error

    def _lane(self, spec: str, scheduler: Scheduler) -> SchedulerLane:
        kind: type[SchedulerLane] = CentralLane if isinstance(scheduler, Central) else SchedulerLane
        return kind(spec, scheduler, self._config, self._sample, self._trainer)

    def _resumed(self, spec: str, stored: Iterable[Scheduler], first_task: int) -> SchedulerLane:
        """Return a lane with the first of the stored models that can be used."""
        for scheduler in stored:
            try:
                return self._lane(spec, scheduler)
            except Exception as error:  # a plug-in's file can raise anything
                self._refuse_model(spec, error, first_task)
        try:
            return self._lane(spec, create(spec))
        except ModelFileError as error:  # the file was good when the run began
            self._refuse_model(spec, error, first_task)
            return self._lane(spec, with_model(spec, None))

    def _refuse_model(self, spec: str, error: Exception, at_task: int) -> None:
        _log.warning("scheduler %s goes on without a stored model: %s", spec, error)
        self.events.append(LaneEvent("model_refused", spec, str(error), at_task))

    @property
    def active(self) -> list[SchedulerLane]:
        """The lanes that are not switched off."""
        return [lane for lane in self if lane.failure is None]

    @property
    def central(self) -> list[CentralLane]:
        """Active lanes whose tasks wait in a common queue."""
        return [lane for lane in self.active if isinstance(lane, CentralLane)]

    @property
    def at_arrival(self) -> list[SchedulerLane]:
        """Active lanes that decide when a task arrives."""
        return [lane for lane in self.active if not isinstance(lane, CentralLane)]

    @contextmanager
    def guarded(self, lane: SchedulerLane, at_task: int) -> Iterator[None]:
        """Switch off a lane whose scheduler raises an error in the block; the others go on."""
        try:
            yield
        except Exception as error:
            _log.error("scheduler %s failed at task %d", lane.name, at_task, exc_info=error)
            lane.failure = f"{type(error).__name__}: {error}"
            message = f"switched off after an error: {lane.failure}"
            self.events.append(LaneEvent("scheduler_failed", lane.name, message, at_task, lane.version))

    # ---------------------------------------------------------------- queues

    def catch_up_queues(self) -> None:
        """Let tasks leave the common queues by now."""
        for lane in self.central:
            with self.guarded(lane, self.newest_task):
                lane.catch_up(self.now)

    def finish_queues(self) -> None:
        """Place all tasks that wait in common queues, because no more tasks come."""
        for lane in self.central:
            with self.guarded(lane, self.newest_task):
                lane.finish_queue(self.now)

    def take_started(self) -> list[StartedTasks]:
        """Return the results of tasks that have left a common queue since the last call."""
        central = [lane for lane in self if isinstance(lane, CentralLane)]
        return [group for lane in central for group in lane.take_started()]

    # ---------------------------------------------------------------- learning

    def learn(self, lane: SchedulerLane, at_task: int) -> None:
        """Report the learning events of a lane, and start the training that its model requests."""
        self._report(lane, lane.events(), at_task)
        if lane.learner is not None:
            for number, model, seconds in lane.learner.new_versions():
                kind = "loaded" if model.trigger in _LOADED else "retrained"
                message = f"version {number} from {model.samples} outcomes"
                lane.retrained_at = self.now
                loss = lane.learning.take_loss()
                first = lane.first_decided(number, at_task)
                self.events.append(LaneEvent(kind, lane.name, message, first, number, model, seconds, loss))
            lane.learner.start_training()

    def learn_all(self, at_task: int) -> None:
        """Do so for all active lanes."""
        for lane in self.active:
            self.learn(lane, at_task)
        self.events.sort(key=lambda event: event.at_task)

    def _report(self, lane: SchedulerLane, events: Iterable[LearningEvent], at_task: int) -> None:
        for event in events:
            if event.kind == "drift":
                lane.drift_at = self.now
            if event.kind != "retrained":  # the event of the new version has its number
                self.events.append(LaneEvent(event.kind, lane.name, event.message, at_task, lane.version))

    def collect_training(self, at_task: int) -> None:
        """Swap in the models that came back; they decide from task `at_task` on."""
        for lane in self.active:
            if lane.learner is not None and lane.learner.retraining.finished:
                self._report(lane, lane.learner.swap_in(at_task), at_task)
                self.learn(lane, at_task)

    def retrain(self, lane: SchedulerLane, at_task: int) -> bool:
        """Train a lane's model from its window, unless it is being trained; return False if that is too short."""
        learner = lane.learner
        if learner is None or learner.retraining.running:
            return True
        if not learner.times.request_training():
            return False
        learner.start_training()
        self.learn(lane, at_task)  # a regression has learned again at once
        return True
