"""Live run: the source of its tasks and a lane for every scheduler, advanced in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..core import Floats, Outcomes, Scheduler, Workload
from ..learning.duration.retraining import TrainingWorker
from ..physics import isolated_split
from ..workload import EndlessSource, Scenario, scenario_from_json, scenario_to_json
from .journal import Recent, ResultColumns
from .lane_statistics import LatencyBound
from .live_config import LiveConfig, LiveTrace
from .load_history import LoadHistory
from .run_lanes import LaneEvent, RunLanes
from .status import LiveEpisode, SchedulerStatistics

#: The lane that regret is measured against.
_ORACLE = "oracle"
_CHECKPOINT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """Consecutive tasks, and the results of every lane that decides at arrival and is not switched off."""

    tasks: Workload
    results: dict[str, ResultColumns]
    optimal_fraction: Floats
    optimal_time: Floats

    def __len__(self) -> int:
        return len(self.tasks)


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
        self.lanes = RunLanes(config, trainer, first_task, snapshots)
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

    def restore(self, state: dict[str, Any], recent: Recent | None, next_task: int) -> None:
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
