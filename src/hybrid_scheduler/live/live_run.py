"""Live run: the source of its tasks and a lane for every scheduler, advanced in chunks."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import Central, Floats, Outcomes, Scheduler, Workload
from ..engine.comparison import label_of
from ..learning.duration.online_duration_model import LearningEvent, ModelVersion
from ..learning.duration.retraining import InlineTrainingWorker, TrainingWorker
from ..learning.model_files import ModelFileError
from ..metrics.running_statistics import busy_share
from ..metrics.summary import DeviceLoad, Evidence
from ..metrics.verdict import Verdict, judge
from ..physics import isolated_split
from ..schedulers import create
from ..workload import EndlessSource, Scenario, scenario_from_json, scenario_to_json
from .journal import Recent, Recovered, ResultColumns, StartedTasks
from .lane_statistics import LOAD_WINDOW_S, LatencyBound, stored_evidence
from .live_config import LiveConfig, LiveTrace
from .model_versions import with_model
from .scheduler_lane import CentralLane, SchedulerLane
from .status import LiveEpisode, SchedulerStatistics

_log = logging.getLogger(__name__)
#: Number of tasks whose durations set the units of an objective with several goals.
_SAMPLE = 1000
#: The lane that regret is measured against.
_ORACLE = "oracle"
#: Triggers of versions that were not trained in this run.
_LOADED = ("pretrained", "restart")
_CHECKPOINT_FORMAT = 1
#: Tasks of the warm-up run that compiles the live code.
_WARM_UP_TASKS = 64
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

    @property
    def deciders(self) -> tuple[tuple[str, int | None], ...]:
        """Schedulers with their model versions, which are the same for all tasks of a chunk and of a batch."""
        return tuple((name, columns.model_version) for name, columns in self.results.items())


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


@dataclass(frozen=True, slots=True)
class _LoadMark:
    """Busy seconds so far and queued seconds of every lane's devices at one time."""

    at: float
    busy: list[Floats]
    backlog: list[Floats]


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
        #: Virtual time: everything that arrives by now has been decided.
        self.now = 0.0
        #: Number of tasks so far.
        self.ordinal = 0
        self._newest_task = first_task - 1
        #: Events since the controller last emptied the list.
        self.lane_events: list[LaneEvent] = []
        self._episode, self._episode_tasks = 1, 0
        sample = config.sample(_SAMPLE)
        self.lanes = [self._lane(spec, sample, trainer, snapshots, first_task) for spec in config.schedulers]
        self.latency_bound = LatencyBound(config.machine)
        self._physics = config.machine.physics
        self._marks: deque[_LoadMark] = deque([self._mark()])

    @classmethod
    def resume(
        cls,
        config: LiveConfig,
        trainer: TrainingWorker,
        recovered: Recovered,
        snapshots: Callable[[str], Iterable[Scheduler]],
    ) -> LiveRun:
        """Return the run that the journal stored, at its last checkpoint.

        Parameters
        ----------
        config
            The configuration of the stored run; its speed is that of the checkpoint.
        trainer
            Trains the models of learned schedulers.
        recovered
            The checkpoint with the newest tasks.
        snapshots
            Returns the scheduler of that name with each of its stored weights, the best first.
        """
        checkpoint, first = recovered.state or {}, recovered.counters.next_task_id
        speed = math.inf if checkpoint["speed"] is None else float(checkpoint["speed"])
        run = cls(replace(config, speed=speed), trainer, first_task=first, snapshots=snapshots)
        run.restore(checkpoint, recovered.recent, first)
        return run

    def _lane(
        self,
        spec: str,
        sample: Workload,
        trainer: TrainingWorker,
        snapshots: Callable[[str], Iterable[Scheduler]] | None,
        first_task: int,
    ) -> SchedulerLane:
        def lane(scheduler: Scheduler) -> SchedulerLane:
            if isinstance(scheduler, Central):
                return CentralLane(spec, scheduler, self.config, sample, trainer)
            return SchedulerLane(spec, scheduler, self.config, sample, trainer)

        if snapshots is None:
            return lane(create(spec))
        for scheduler in snapshots(spec):
            try:
                return lane(scheduler)
            except Exception as error:  # a plug-in's file can raise anything
                self._refuse_model(spec, error, first_task)
        try:
            return lane(create(spec))
        except ModelFileError as error:  # the file was good when the run began
            self._refuse_model(spec, error, first_task)
            return lane(with_model(spec, None))

    def _refuse_model(self, spec: str, error: Exception, at_task: int) -> None:
        _log.warning("scheduler %s goes on without a stored model: %s", spec, error)
        self.lane_events.append(LaneEvent("model_refused", spec, str(error), at_task))

    @property
    def active_lanes(self) -> list[SchedulerLane]:
        """The lanes that are not switched off."""
        return [lane for lane in self.lanes if lane.failure is None]

    @property
    def _central(self) -> list[CentralLane]:
        """Active lanes whose tasks wait in a common queue."""
        return [lane for lane in self.active_lanes if isinstance(lane, CentralLane)]

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
                self.lane_events.append(LaneEvent(kind, None, message, self._newest_task + 1))
        self.now = max(self.now, now)

    def _catch_up_queues(self) -> None:
        """Let tasks leave the common queues, unless more tasks arrive at this very time."""
        if self.source.next_arrival > self.now:
            for lane in self._central:
                self._guarded(lane, self._newest_task, lane.catch_up, self.now)

    def finish_queues(self) -> None:
        """Place all tasks that wait in common queues, because no more tasks come."""
        for lane in self._central:
            self._guarded(lane, self._newest_task, lane.finish_queue, self.now)

    def take_started(self) -> list[StartedTasks]:
        """Return the results of tasks that have left a common queue since the last call."""
        central = [lane for lane in self.lanes if isinstance(lane, CentralLane)]
        return [group for lane in central for group in lane.take_started()]

    def place(self, task: Workload) -> LiveChunk:
        """Decide for a client's task, which arrives now."""
        chunk = self._decide(task)
        self._catch_up_queues()
        return chunk

    def _decide(self, tasks: Workload) -> LiveChunk:
        rows = self._decide_one_by_one(tasks)
        part = tasks if rows == len(tasks) else tasks.rows(0, rows)
        outcomes: dict[str, Outcomes] = {}
        for lane in self._at_arrival:
            try:
                outcomes[lane.name] = lane.close(rows) if lane.rule is None else lane.run_rule(part)
            except Exception as error:
                self._switch_off(lane, error, int(part.task_id[0]))
        oracle = outcomes[_ORACLE].latency if _ORACLE in outcomes else None
        results = {}
        for lane in self._central:
            try:
                lane.release(part, oracle)
            except Exception as error:
                self._switch_off(lane, error, int(part.task_id[0]))
        for lane in self._at_arrival:
            results[lane.name] = lane.columns(outcomes[lane.name], oracle)
            lane.statistics.add(part, results[lane.name])
        self.ordinal += rows
        self._newest_task = int(part.task_id[-1])
        self._episode_tasks += rows
        self._reach(float(part.arrival_time[-1]))
        for lane in self.active_lanes:
            self.learn(lane, int(part.task_id[-1]) + 1)
        platform, physics = self.config.platform, self._physics
        table, columns = physics.times(part, platform), physics.columns(platform)
        best = isolated_split(table, columns, platform, part.memory_required, part.divisible)
        self.latency_bound.add(part, best[1])
        return LiveChunk(part, results, *best)

    @property
    def _at_arrival(self) -> list[SchedulerLane]:
        """The lanes that decide when a task arrives."""
        return [lane for lane in self.active_lanes if not isinstance(lane, CentralLane)]

    def _decide_one_by_one(self, tasks: Workload) -> int:
        """Let the lanes that are not compiled decide task by task; returns the number of decided tasks.

        The chunk ends before a task for which some lane has a new model, so that one model decides a whole chunk.
        """
        slow = [lane for lane in self._at_arrival if lane.rule is None]
        for lane in slow:
            lane.open(tasks)
        for row, now in enumerate(tasks.arrival_time.tolist() if slow else ()):
            at_task, changed = int(tasks.task_id[row]), False
            for lane in slow:
                if self._guarded(lane, at_task, lane.catch_up, now):
                    changed = True
                    self.learn(lane, at_task)
            if changed and row > 0:
                return row
            for lane in slow:
                self._guarded(lane, at_task, lane.decide, row)
        return len(tasks)

    def _guarded(
        self, lane: SchedulerLane, at_task: int, step: Callable[[Any], bool | None], argument: float
    ) -> bool | None:
        if lane.failure is None:
            try:
                return step(argument)
            except Exception as error:
                self._switch_off(lane, error, at_task)
        return None

    def _switch_off(self, lane: SchedulerLane, error: Exception, at_task: int) -> None:
        """Switch off a lane whose scheduler raised an error; the others go on."""
        _log.error("scheduler %s failed at task %d", lane.name, at_task, exc_info=error)
        lane.failure = f"{type(error).__name__}: {error}"
        message = f"switched off after an error: {lane.failure}"
        self.lane_events.append(LaneEvent("scheduler_failed", lane.name, message, at_task, lane.version))

    # ---------------------------------------------------------------- learning

    def begin(self, first_task: int) -> None:
        """Report the models that the lanes start with."""
        for lane in self.lanes:
            self.learn(lane, first_task)

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

    def learn(self, lane: SchedulerLane, at_task: int) -> None:
        """Report the learning events of a lane, and start the training that its model requests."""
        self._add_learning_events(lane, lane.events(), at_task)
        if lane.learner is not None:
            for number, model, seconds in lane.learner.new_versions():
                kind = "loaded" if model.trigger in _LOADED else "retrained"
                message = f"version {number} from {model.samples} outcomes"
                lane.retrained_at, loss = self.now, lane.take_loss()
                self.lane_events.append(LaneEvent(kind, lane.name, message, at_task, number, model, seconds, loss))
            lane.learner.start_training()

    def _add_learning_events(self, lane: SchedulerLane, events: Iterable[LearningEvent], at_task: int) -> None:
        for event in events:
            if event.kind == "drift":
                lane.drift_at = self.now
            if event.kind != "retrained":  # the event of the new version has its number
                self.lane_events.append(LaneEvent(event.kind, lane.name, event.message, at_task, lane.version))

    def collect_training(self, at_task: int) -> None:
        """Swap in the models that came back; they decide from task `at_task` on."""
        for lane in self.active_lanes:
            if lane.learner is not None and lane.learner.retraining.finished:
                for event in lane.learner.swap_in(at_task):
                    if event.kind != "retrained":
                        self.lane_events.append(
                            LaneEvent(event.kind, lane.name, event.message, at_task, lane.version)
                        )
                self.learn(lane, at_task)

    # ---------------------------------------------------------------- episodes and scenarios

    @property
    def episode(self) -> LiveEpisode | None:
        """Progress of the episode; None if the scenario has none."""
        length = self.source.scenario.episode_length
        return None if length is None else LiveEpisode(self._episode, self._episode_tasks, length)

    @property
    def episode_over(self) -> bool:
        """Whether the episode has all its tasks."""
        episode = self.episode
        return episode is not None and episode.tasks >= episode.length

    def end_episode(self, at_task: int) -> None:
        """Let all clusters start empty together.

        Virtual time moves to where the last of them has finished its work. Dropping the work instead would leave
        results of tasks that never ended.
        """
        self.finish_queues()
        drained = max([self.now, *(float(lane.cluster.free_at_view.max()) for lane in self.active_lanes)])
        self.source.pause_until(drained)
        self._reach(drained)
        for lane in self.active_lanes:
            self._guarded(lane, at_task, lane.catch_up, drained)
            self.learn(lane, at_task)
        self._episode, self._episode_tasks = self._episode + 1, 0

    def change_scenario(self, scenario: Scenario, utilisation: float | None) -> None:
        """Draw other tasks from now on; queues and models stay."""
        self._drawn_source().change(scenario, utilisation, self.now)
        self._episode, self._episode_tasks = 1, 0

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

    # ---------------------------------------------------------------- load of the devices

    def _mark(self) -> _LoadMark:
        clusters = [lane.cluster for lane in self.lanes]
        return _LoadMark(self.now, [c.busy_by(self.now) for c in clusters], [c.backlog(self.now) for c in clusters])

    def utilisations(self) -> dict[str, dict[str, float]]:
        """Return the busy share of every device since the last call, by scheduler."""
        before, after = self._marks[-1], self._mark()
        if after.at > before.at:
            self._marks.append(after)
        while len(self._marks) > 2 and self._marks[1].at <= self.now - LOAD_WINDOW_S:
            self._marks.popleft()
        names = [device.name for device in self.config.platform.devices]
        seconds = after.at - before.at
        return {
            lane.name: dict(zip(names, busy_share(old, new, seconds).tolist(), strict=True))
            for lane, old, new in zip(self.lanes, before.busy, after.busy, strict=True)
            if lane.failure is None
        }

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
        marks = [*self._marks, self._mark()]
        while len(marks) > 2 and marks[1].at <= self.now - LOAD_WINDOW_S:  # as `utilisations` drops them
            del marks[0]
        first, last = marks[0], marks[-1]
        window = (first.at, max(last.at, first.at))
        devices = self.config.platform.devices
        evidence: list[Evidence] = []
        for number, (lane, row) in enumerate(zip(self.lanes, self.statistics(), strict=True)):
            busy = busy_share(first.busy[number], last.busy[number], window[1] - window[0])
            peak = np.max([mark.backlog[number] for mark in marks], axis=0)
            loads = tuple(
                DeviceLoad(device.name, device.kind, float(share), 0.0, float(backlog), float(earlier), float(most))
                for device, share, backlog, earlier, most in zip(
                    devices, busy, last.backlog[number], first.backlog[number], peak, strict=True
                )
            )
            found = lane.statistics.evidence(row, label_of(lane.name), loads, window)
            if lane.drift_at is not None and self.now - lane.drift_at <= _DRIFT_S:
                found = replace(found, drift_at=lane.drift_at, retrained_at=lane.retrained_at)
            evidence.append(found)
        return judge(evidence, self.latency_bound.mean)

    def backlogs(self) -> dict[str, dict[str, float]]:
        """Return the seconds of queued work of every device, by scheduler."""
        names = [device.name for device in self.config.platform.devices]
        return {
            lane.name: dict(zip(names, lane.cluster.backlog(self.now).tolist(), strict=True))
            for lane in self.active_lanes
        }

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

    def restore(self, state: dict[str, Any], recent: Recent | None, next_task: int) -> None:
        """Continue from a checkpoint: rules bit for bit, models by learning from the recent tasks."""
        if state["format"] != _CHECKPOINT_FORMAT:
            raise ValueError(f"the checkpoint has format {state['format']}, not {_CHECKPOINT_FORMAT}")
        if not state.get("trace"):
            scenario = scenario_from_json(state["scenario"])
            self._drawn_source().change(scenario, float(state["utilisation"]), 0.0)
        self.source.restore(state["source"])
        self.now, self.ordinal = float(state["now"]), int(state["ordinal"])
        self._episode, self._episode_tasks = map(int, state["episode"])
        for lane in self.lanes:
            lane.restore(state["lanes"][lane.name], recent, self.now)
            lane.events()  # drops those about tasks that an earlier process decided
            for number, model, _ in lane.learner.new_versions() if lane.learner else ():
                warmed = replace(model, trigger="restart")
                self.lane_events.append(LaneEvent("loaded", lane.name, "", next_task, number, warmed))
            self.learn(lane, next_task)
        self._marks = deque([self._mark()])
        if "floor" in state:
            self.latency_bound.restore(state["floor"])


def stored_verdict(
    state: dict[str, Any], rows: Sequence[SchedulerStatistics], devices: Sequence[dict[str, Any]]
) -> Verdict:
    """Return the leader of a stored run and why the others are slower; device loads are those of the whole run.

    Parameters
    ----------
    state
        The run's last checkpoint.
    rows
        Its comparison.
    devices
        Name, kind and node of each device, from the run's configuration.
    """
    lanes, now = state["lanes"], state.get("now")
    evidence = [stored_evidence(lanes[row.name], row, label_of(row.name), devices, now) for row in rows]
    tasks, total = state.get("floor", (0, 0.0))[:2]
    return judge(evidence, total / tasks if tasks else None)


class _NoTraining(InlineTrainingWorker):
    """Worker that takes no request: forests train in another process, which compiles nothing for the run."""

    ready = False


def compile_live_code(config: LiveConfig) -> None:
    """Compile all that a run with this configuration calls, or load it from the cache.

    Some functions would otherwise be compiled at the first decision, others at the first outcome or the first
    version of a model; the stream would stand still each time. A short run that is dropped calls them all.
    Schedulers of other packages are left out, because they may count their calls.
    """
    package = __name__.partition(".")[0]
    own = tuple(spec for spec in config.schedulers if type(create(spec)).__module__.partition(".")[0] == package)
    if not own:
        return
    run = LiveRun(replace(config, schedulers=own, retrain_interval=1), _NoTraining())
    run.begin(1)
    while run.ordinal < _WARM_UP_TASKS:
        if run.advance(run.ordinal + 1, _WARM_UP_TASKS - run.ordinal, math.inf) is None:
            break
    run.end_episode(run.ordinal + 1)  # every outcome is learned from
    run.checkpoint()
    run.latency_bound.compile(config.sample(8))
    for lane in run.active_lanes:
        lane.model_card()
        if lane.learner is not None:
            lane.learner.times.request_training()
