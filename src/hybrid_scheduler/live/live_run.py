"""Live run: the source of its tasks and a lane for every scheduler, advanced in chunks."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..core import (
    Central,
    Floats,
    HybridSchedulerError,
    InvalidInputError,
    LearningEvent,
    ModelVersion,
    Outcomes,
    Scheduler,
    Workload,
)
from ..engine.comparison import label_of
from ..learning.duration.retraining import TrainingWorker
from ..learning.model_files import ModelFileError
from ..metrics.verdict import Verdict, judge
from ..physics import isolated_split
from ..schedulers import create
from ..workload import EndlessSource, Scenario, scenario_from_json, scenario_to_json
from .journal import ResultColumns, SchedulerResults
from .lane_statistics import LatencyBound, LoadHistory
from .live_config import LiveConfig, LiveTrace
from .model_versions import with_model
from .scheduler_lane import CentralLane, SchedulerLane
from .status import LiveEpisode, SchedulerStatistics

_log = logging.getLogger(__name__)
#: The lane that regret is measured against.
_ORACLE = "oracle"
_CHECKPOINT_FORMAT = 1
#: Number of tasks whose durations set the units of an objective with several goals.
_SAMPLE = 1000
#: Triggers of versions that were not trained in this run.
_LOADED = ("pretrained", "restart")
#: Virtual seconds for which a drift counts as a reason.
_DRIFT_S = 300.0


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """Consecutive tasks, and the results of every lane that decides at arrival and is not switched off."""

    tasks: Workload
    results: dict[str, ResultColumns]
    optimal_fraction: Floats
    optimal_time: Floats

    def __len__(self) -> int:
        return len(self.tasks)


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


class _RunLanes(list[SchedulerLane]):
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

    def take_started(self) -> list[SchedulerResults]:
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


class LiveRun:
    """Tasks and lanes of a run. It advances only when it is called.

    Parameters
    ----------
    config
        The configuration.
    trainer
        Where models of learned schedulers are trained.
    first_task
        The id of the first task.
    snapshots
        Returns the scheduler of that name with each of its stored weights, the best first. None means a new run.
    """

    def __init__(
        self,
        config: LiveConfig,
        trainer: TrainingWorker,
        *,
        first_task: int = 1,
        snapshots: Callable[[str], Iterable[Scheduler]] | None = None,
    ) -> None:
        self.config = config
        self.source = config.source()
        #: Number of tasks so far.
        self.ordinal = 0
        self._episode = 1
        self._episode_tasks = 0
        self.lanes = _RunLanes(config, trainer, first_task, snapshots)
        self.load = LoadHistory(self.lanes, config.platform)
        self.latency_bound = LatencyBound(config.machine)
        self._physics = config.machine.physics

    @property
    def now(self) -> float:
        """Virtual time: everything that arrives by now has been decided."""
        return self.lanes.now

    # ---------------------------------------------------------------- advancing

    def advance(self, first_id: int, most: int, until: float) -> LiveChunk | None:
        """Decide for the next tasks that arrive by `until`.

        Parameters
        ----------
        first_id
            The id of the first of them.
        most
            Largest number of tasks.
        until
            Virtual time.

        Returns
        -------
        LiveChunk or None
            None if no task arrives by then.
        """
        length = self.source.scenario.episode_length
        left = most if length is None else min(most, length - self._episode_tasks)
        tasks = self.source.next_tasks(first_id, left, until)
        if tasks is None:
            return None
        chunk = self._decide(tasks)
        self.source.take(len(chunk))
        self._catch_up_queues()
        return chunk

    def pass_time(self, due: float) -> None:
        """Let virtual time reach `due`, unless a task arrives before."""
        if math.isfinite(due) and self.source.next_arrival > due:
            self._reach(due)
            self._catch_up_queues()

    def _reach(self, now: float) -> None:
        """Move virtual time on, and report where the slowdown begins or ends on the way."""
        slowdown = self.config.slowdown
        if slowdown is not None:
            names = [device.name for device in self.config.platform.devices]
            which = slowdown.device.replace("_", " ").upper()
            whose = f"tasks on {which}" if slowdown.device in names else f"tasks on every {which}"
            for at, slow in slowdown.changes(self.now, now):
                pace = f"take {slowdown.factor:g} times as long" if slow else "are back at full speed"
                message = f"{whose} {pace} from {at:g} s on"
                kind = "slowdown" if slow else "full_speed"
                self.lanes.events.append(LaneEvent(kind, None, message, self.lanes.newest_task + 1))
        self.lanes.now = max(self.now, now)

    def _catch_up_queues(self) -> None:
        """Let tasks leave the common queues, unless more tasks arrive at this very time."""
        if self.source.next_arrival > self.now:
            self.lanes.catch_up_queues()

    def place(self, task: Workload) -> LiveChunk:
        """Decide for a client's task, which arrives now."""
        chunk = self._decide(task)
        self._catch_up_queues()
        return chunk

    def _decide(self, tasks: Workload) -> LiveChunk:
        lanes = self.lanes
        first = int(tasks.task_id[0])
        lanes.newest_task = int(tasks.task_id[-1])
        outcomes: dict[str, Outcomes] = {}
        for lane in lanes.at_arrival:
            with lanes.guarded(lane, first):
                outcomes[lane.name] = lane.decide(tasks)
        oracle = outcomes[_ORACLE].latency if _ORACLE in outcomes else None
        for central in lanes.central:
            with lanes.guarded(central, first):
                central.release(tasks, oracle)
        results = {}
        for lane in lanes.at_arrival:
            results[lane.name] = lane.columns(outcomes[lane.name], oracle)
            lane.statistics.add(tasks, results[lane.name])
        self.ordinal += len(tasks)
        self._episode_tasks += len(tasks)
        self._reach(float(tasks.arrival_time[-1]))
        lanes.learn_all(lanes.newest_task + 1)
        platform = self.config.platform
        table = self._physics.times(tasks, platform)
        columns = self._physics.columns(platform)
        best = isolated_split(table, columns, platform, tasks.memory_required, tasks.divisible)
        self.latency_bound.add(tasks, best[1])
        return LiveChunk(tasks, results, *best)

    # ---------------------------------------------------------------- episodes and scenarios

    @property
    def episode(self) -> LiveEpisode | None:
        """Progress of the episode; None if the scenario has none."""
        length = self.source.scenario.episode_length
        return None if length is None else LiveEpisode(self._episode, self._episode_tasks, length)

    def end_episode(self, at_task: int) -> None:
        """Let all clusters start empty together.

        Virtual time moves to where the last of them has finished its work. Dropping the work instead would leave
        results of tasks that never ended.
        """
        self.lanes.finish_queues()
        drained = max([self.now, *(float(lane.cluster.free_at_view.max()) for lane in self.lanes.active)])
        self.source.pause_until(drained)
        self._reach(drained)
        for lane in self.lanes.active:
            with self.lanes.guarded(lane, at_task):
                lane.catch_up(drained)
            self.lanes.learn(lane, at_task)
        self._episode += 1
        self._episode_tasks = 0

    def change_scenario(self, scenario: Scenario, utilisation: float | None) -> None:
        """Draw other tasks from now on; queues and models stay."""
        self._drawn_source().change(scenario, utilisation, self.now)
        self._episode = 1
        self._episode_tasks = 0

    def _drawn_source(self) -> EndlessSource:
        """Return the source that draws tasks; it takes the place of a trace."""
        if not isinstance(self.source, EndlessSource):
            self.source = replace(self.config, trace=None).source()
        assert isinstance(self.source, EndlessSource)
        return self.source

    @property
    def trace(self) -> LiveTrace | None:
        """The trace that is played; None if tasks are drawn."""
        return None if isinstance(self.source, EndlessSource) else self.config.trace

    # ---------------------------------------------------------------- comparison

    def statistics(self) -> list[SchedulerStatistics]:
        """Return the statistics of all schedulers."""
        latency_bound = self.latency_bound.mean
        return [
            lane.statistics.row(lane.name, lane.state, lane.version, latency_bound, lane.waiting)
            for lane in self.lanes
        ]

    def verdict(self) -> Verdict:
        """Return the leader and why the others are slower; device loads are those of the last virtual minute."""
        window, loads = self.load.last_minute(self.now)
        evidence = []
        for lane, row, load in zip(self.lanes, self.statistics(), loads, strict=True):
            numbers = lane.statistics.evidence(row, label_of(lane.name), load, window)
            if lane.drift_at is not None and self.now - lane.drift_at <= _DRIFT_S:
                numbers = replace(numbers, drift_at=lane.drift_at, retrained_at=lane.retrained_at)
            evidence.append(numbers)
        return judge(evidence, self.latency_bound.mean)

    def reset_statistics(self) -> None:
        """Begin all statistics anew, because all stored tasks are deleted."""
        for lane in self.lanes:
            lane.reset_statistics()
        self.latency_bound.reset()

    # ---------------------------------------------------------------- checkpoints

    def checkpoint(self) -> dict[str, Any]:
        """Return the state of the run, ready for JSON."""
        return {
            "format": _CHECKPOINT_FORMAT,
            "scenario": scenario_to_json(self.source.scenario),
            "utilisation": self.source.utilisation,
            "trace": self.trace is not None,
            "source": self.source.state(),
            "now": self.now,
            "ordinal": self.ordinal,
            "episode": [self._episode, self._episode_tasks],
            "floor": self.latency_bound.state(),
            "lanes": {lane.name: lane.checkpoint() for lane in self.lanes},
        }

    def restore(self, state: dict[str, Any], recent: Mapping[str, SchedulerResults], next_task: int) -> None:
        """Continue from a checkpoint: rules bit for bit, models by learning from the recent tasks."""
        if state["format"] != _CHECKPOINT_FORMAT:
            raise ValueError(f"the checkpoint has format {state['format']}, not {_CHECKPOINT_FORMAT}")
        if not state.get("trace"):
            scenario = scenario_from_json(state["scenario"])
            self._drawn_source().change(scenario, float(state["utilisation"]), 0.0)
        self.source.restore(state["source"])
        self.lanes.now = float(state["now"])
        self.ordinal = int(state["ordinal"])
        self._episode, self._episode_tasks = map(int, state["episode"])
        for lane in self.lanes:
            lane.restore(state["lanes"][lane.name], recent, self.now)
            lane.events()  # drops those about tasks that an earlier process decided
            for number, model, _ in lane.learner.new_versions() if lane.learner else ():
                warmed = replace(model, trigger="restart")
                self.lanes.events.append(LaneEvent("loaded", lane.name, "", next_task, number, warmed))
            self.lanes.learn(lane, next_task)
        self.load.reset(self.now)
        if "floor" in state:
            self.latency_bound.restore(state["floor"])
