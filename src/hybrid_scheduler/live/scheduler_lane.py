"""Lanes of a live run: one scheduler each, with its model, on its own virtual cluster, fed chunk by chunk.

A scheduler that decides at arrival has the results of a chunk at once. Under a central one tasks wait in a common
queue, and a result comes when its task starts.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from ..cluster.event_loop import RELEASE, EventLoop
from ..compiled import FastRule
from ..core import (
    Central,
    Decision,
    Explanation,
    Floats,
    Ints,
    InvalidInputError,
    Learner,
    LearningEvent,
    Online,
    Outcomes,
    Prediction,
    Scheduler,
    Workload,
)
from ..core.outcome import FAILED, OUTCOME_FIELDS
from ..learning.duration.retraining import LearnsDurations, TrainingWorker
from ..metrics.summary import shares_of
from ..physics import EnergyAndCost
from ..workload.argument_checks import parse_spec
from ..workload.random_columns import joined_tasks
from .journal import OUTCOME_COLUMNS, ResultColumns, SchedulerResults, joined_outcomes
from .lane_statistics import LaneStatistics
from .live_config import LiveConfig
from .model_versions import LaneModel
from .status import ModelCard, SchedulerState

#: Longer states of a rule are written as bytes.
_MAX_LIST = 64
#: Newest decisions whose explanation is kept.
MAX_EXPLAINED = 1000
#: Above capacity queues grow without end; outcomes that late are of no use to a model.
_MAX_PENDING = 100_000
#: Tasks that may wait in a common queue. Above capacity it would grow without end, and every checkpoint has it.
MAX_WAITING = 5_000


class SchedulerLane:
    """One scheduler with its cluster, its statistics and its model.

    Outcomes reach a scheduler at their virtual finish, never earlier, also across chunks.

    Parameters
    ----------
    name
        The scheduler's specification.
    scheduler
        The scheduler, not yet started.
    config
        The configuration of the run.
    sample
        Tasks whose durations set the units of an objective with several goals.
    trainer
        Where the model of a learned scheduler is trained.
    """

    def __init__(
        self, name: str, scheduler: Scheduler, config: LiveConfig, sample: Workload, trainer: TrainingWorker
    ) -> None:
        self.name = name
        self.scheduler = scheduler
        self.learning = scheduler if isinstance(scheduler, Learner) else Learner()
        self.cluster = config.machine.cluster()
        times = self.cluster.start_scheduler(scheduler, sample, seed=config.seed, objective=config.objective)
        self.rule = scheduler if isinstance(scheduler, FastRule) and not scheduler.learns else None
        self.learner: LaneModel | None = None
        if isinstance(scheduler, LearnsDurations):
            self.learner = LaneModel(scheduler, trainer)
            if "retrain_interval=" not in name.replace(" ", ""):  # a given parameter takes precedence
                scheduler.duration_model_.refresh = config.retrain_interval
        self.statistics = LaneStatistics(config.platform.cpu_of, config.platform.column("bandwidth"))
        #: Virtual time of the last drift that was found, and of the newest model.
        self.drift_at: float | None = None
        self.retrained_at: float | None = None
        #: The error after which the lane was switched off.
        self.failure: str | None = None
        self._explanations: dict[int, Explanation] = {}
        self._newest_policy: str | None = None
        #: Seconds with confidence, and model version, of each task of the newest chunk.
        self._predictions: Floats = np.empty((2, 0))
        self._versions: Ints = np.empty(0, np.int64)
        assert isinstance(scheduler, Online | Central)
        self._loop = EventLoop(self.cluster, scheduler, times, placed=self._note_placed, max_pending=_MAX_PENDING)

    @property
    def version(self) -> int | None:
        """The number of the model that decides now; None without a model."""
        return self.learner.version if self.learner else None

    @property
    def waiting(self) -> int:
        """The number of tasks that have no result yet."""
        return 0

    def reset_statistics(self) -> None:
        """Begin the statistics anew, because all stored tasks are deleted."""
        self.statistics.reset()

    @property
    def state(self) -> SchedulerState:
        """ready, warming, learned, fallback, or off after it failed."""
        return "off" if self.failure is not None else cast(SchedulerState, self.learning.state)

    def events(self) -> list[LearningEvent]:
        """Return the scheduler's learning events since the last call."""
        return self.learning.take_events()

    def model_card(self) -> ModelCard:
        """Return the description of the scheduler's model."""
        learner = self.learning
        shares = learner.feature_importance()
        numbers = learner.network_numbers()
        model = (self.name, self.state, self.version, shares, numbers, learner.accuracy())
        return ModelCard(*model, self._newest_policy, shares_of(self.statistics.decisions))

    # ---------------------------------------------------------------- running

    def decide(self, chunk: Workload) -> Outcomes:
        """Decide for tasks at their arrival, and return their outcomes."""
        if self.rule is not None:
            return self.cluster.run_more(chunk, self.rule)
        self._loop.release(chunk)
        self._predictions = np.full((2, len(chunk)), np.nan)
        self._versions = np.zeros(len(chunk), np.int64)
        self._loop.advance(float(chunk.arrival_time[-1]), RELEASE)
        self._loop.close()
        return self._loop.outcomes

    def catch_up(self, now: float) -> None:
        """Report the outcomes that have finished by now."""
        self._loop.advance(now)

    def first_decided(self, version: int, following: int) -> int:
        """Return the first task of the newest chunk that a version of the model decided, else the following one."""
        row = int(np.searchsorted(self._versions, version))
        return int(self._loop.tasks.task_id[row]) if row < len(self._versions) else following

    def _note_placed(self, row: int, decision: Decision) -> None:
        """Keep prediction and explanation of a task that was just placed."""
        explanation = self.scheduler.explanation()
        if explanation is not None:
            self._keep_explanation(int(self._loop.tasks.task_id[row]), explanation)
        self._predictions[:, row] = self._predicted(row)
        self._versions[row] = self.version or 0

    def _predicted(self, row: int) -> tuple[float, float]:
        """Return predicted seconds and confidence of a task that was just placed; NaN without a prediction."""
        prediction = self.scheduler.prediction()
        outcomes = self._loop.outcomes
        if prediction is None:
            return math.nan, math.nan
        placed = Decision(int(outcomes.device[row]), float(outcomes.fraction[row]))
        return prediction.of(placed, self.cluster.platform)

    def _keep_explanation(self, task_id: int, found: Explanation) -> None:
        if self.learner is not None:
            self.statistics.decisions[found.policy] += 1
            self._newest_policy = found.policy
        self._explanations[task_id] = found
        if len(self._explanations) > MAX_EXPLAINED:
            del self._explanations[next(iter(self._explanations))]

    def explanation(self, task_id: int) -> dict[str, Any] | None:
        """Return the values by which a decision was made; None if it is not among the newest, or not learned."""
        found = self._explanations.get(task_id)
        return None if found is None else found.as_dict(self.cluster.platform)

    def columns(self, outcomes: Outcomes, oracle: Floats | None) -> ResultColumns:
        """Return the outcomes as they are stored; `oracle` is the oracle's latency for the same tasks."""
        unknown = np.full((2, len(outcomes)), np.nan)
        predictions = unknown if self.rule else self._predictions
        return self._result_columns(outcomes, unknown[0] if oracle is None else oracle, predictions, self._versions)

    def _result_columns(
        self, outcomes: Outcomes, oracle: Floats, predictions: Floats, versions: Ints
    ) -> ResultColumns:
        charges = EnergyAndCost(outcomes, self.cluster.platform, self.cluster.tariff)
        columns: dict[str, Any] = {name: getattr(outcomes, name) for name in OUTCOME_COLUMNS}
        return ResultColumns(
            **columns,
            energy=charges.energy,
            cost=charges.cost,
            regret=outcomes.latency - oracle,
            predicted_time=predictions[0],
            confidence=predictions[1],
            model_version=versions if self.learner else None,
        )

    # ---------------------------------------------------------------- checkpoints

    def checkpoint(self) -> dict[str, Any]:
        """Return the state of the lane, ready for JSON."""
        return {
            **self._loop.state(),
            "rule": None if self.rule is None else _written(self.rule.state),
            "statistics": self.statistics.state(),
            "version": self.version,
            "failure": self.failure,
        }

    def restore(self, state: dict[str, Any], recent: Mapping[str, SchedulerResults], now: float) -> None:
        """Continue from a checkpoint; the model learns from the recent tasks."""
        if self.rule is not None and state["rule"] is not None:
            rule = _read(state["rule"])
            self.rule.state[: len(rule)] = rule  # states of earlier versions end before the blocks of the prices
        self.statistics.restore(state["statistics"])
        self.failure = state["failure"]
        if self.name in recent:
            self.statistics.fill_window(recent[self.name].columns.latency)
            self._learn_recent(recent[self.name], now)
        self._loop.restore(state)
        if self.learner is not None:
            self.learner.resume_from(state["version"] or 0)

    def _learn_recent(self, recent: SchedulerResults, now: float) -> None:
        """Let the model learn from stored tasks in the order of finish; unfinished ones are reported later."""
        tasks = recent.tasks
        results = recent.columns
        table = self.cluster.physics.times(tasks, self.cluster.platform)
        outcomes = Outcomes(tasks, *(getattr(results, name) for name in OUTCOME_FIELDS))
        for row in np.argsort(results.finish, kind="stable").tolist():
            if results.status[row] == FAILED:
                continue
            task = tasks[row]
            outcome = outcomes[row]
            if self.scheduler.wants_labels:
                outcome = replace(outcome, labels=self.cluster.labels(task.task_id, table[row]))
            if outcome.finish <= now:
                self.learning.learn_from(task, outcome)
            else:
                self._loop.expect(outcome, task)


class _Started(NamedTuple):
    """Tasks that left the common queue: the oracle's latency, seconds with confidence, and version of each."""

    tasks: Workload
    outcomes: Outcomes
    oracle: Floats
    predictions: Floats
    versions: Ints


class CentralLane(SchedulerLane):
    """Lane of a central scheduler. `release` adds tasks to the common queue, and `take_started` returns results.

    The scheduler is asked at the same times as in a simulation: when tasks arrive and when a device becomes free.
    All tasks that arrive at one time are in the queue before it is asked.
    """

    def __init__(
        self, name: str, scheduler: Central, config: LiveConfig, sample: Workload, trainer: TrainingWorker
    ) -> None:
        super().__init__(name, scheduler, config, sample, trainer)
        self._unexplained = Explanation(Prediction(np.empty((0, 2)), np.empty(0)), parse_spec(name)[0])
        #: The oracle's latency for each waiting task, by its id.
        self._oracle: dict[int, float] = {}
        self._started: list[_Started] = []
        #: Tasks before this one are deleted.
        self._first_stored = 0
        #: Tasks that found the queue full, and how many users know of.
        self.rejected = 0
        self._announced = 0

    @property
    def waiting(self) -> int:
        """The number of tasks in the common queue."""
        return len(self._loop.waiting)

    def reset_statistics(self) -> None:
        """Begin the statistics anew; tasks that wait now will have no stored result."""
        super().reset_statistics()
        newest = self._loop.tasks.task_id[self._loop.waiting.rows].max(initial=-1)
        self._first_stored = max(self._first_stored, int(newest) + 1)

    def release(self, chunk: Workload, oracle: Floats | None) -> None:
        """Add tasks to the queue at their arrival; `oracle` is the oracle's latency for them.

        Tasks that find the queue full are rejected: they fail.
        """
        last = float(chunk.arrival_time[-1])
        accepted = max(0, min(len(chunk), MAX_WAITING - self.waiting))
        if accepted < len(chunk):
            self._reject(chunk.rows(accepted, len(chunk)))
            chunk = chunk.rows(0, accepted)
        if accepted == 0:
            self._loop.advance(last)
            return
        if oracle is not None:
            self._oracle.update(zip(chunk.task_id.tolist(), oracle.tolist(), strict=False))
        self._loop.release(chunk)
        self._loop.advance(last, RELEASE)

    def _reject(self, tasks: Workload) -> None:
        unknown = np.full(len(tasks), np.nan)
        nothing = np.zeros(len(tasks))
        status = np.full(len(tasks), FAILED, np.uint8)
        device = np.zeros(len(tasks), np.int32)
        outcomes = Outcomes(tasks, device, nothing, unknown, nothing, unknown, nothing, status)
        versions = np.full(len(tasks), self.version or 0, np.int64)
        self._started.append(_Started(tasks, outcomes, unknown, np.stack([unknown, unknown]), versions))
        self.rejected += len(tasks)

    def events(self) -> list[LearningEvent]:
        """Return what users should see since the last call; rejections whenever their number has doubled."""
        new = super().events()
        if self.rejected >= max(1, 2 * self._announced):
            self._announced = self.rejected
            message = f"{self.rejected:,} tasks were rejected: {MAX_WAITING:,} wait"
            new.append(LearningEvent("queue_full", 0, message, self.version or 0))
        return new

    def finish_queue(self, now: float) -> None:
        """Place all waiting tasks from now on, as if no other task came.

        Raises
        ------
        InvalidInputError
            If the scheduler leaves a task waiting while all devices are idle.
        """
        self.catch_up(now)
        self._loop.drain()

    def _note_placed(self, row: int, decision: Decision) -> None:
        """Keep the result of a task that leaves the queue, with its prediction and explanation."""
        loop = self._loop
        task_id = int(self._loop.tasks.task_id[row])
        explanation = self.scheduler.explanation() or self._unexplained
        queued = loop.asked_at - float(loop.tasks.arrival_time[row])
        self._keep_explanation(task_id, explanation._replace(queued=queued))
        oracle = self._oracle.pop(task_id, math.nan)
        if task_id >= self._first_stored:
            rows = loop.tasks.rows(row, row + 1), loop.outcomes.rows(row, row + 1)
            predictions = np.array([self._predicted(row)]).T
            versions = np.array([self.version or 0], np.int64)
            self._started.append(_Started(*rows, np.array([oracle]), predictions, versions))

    def take_started(self) -> list[SchedulerResults]:
        """Return the tasks that have started since the last call as one group; no group without any."""
        started = sorted(self._started, key=lambda each: int(each.tasks.task_id[0]))
        if not started:
            return []
        self._started.clear()
        tasks = joined_tasks([each.tasks for each in started])
        outcomes = joined_outcomes(tasks, [each.outcomes for each in started])
        oracle = np.concatenate([each.oracle for each in started])
        predictions = np.concatenate([each.predictions for each in started], axis=1)
        versions = np.concatenate([each.versions for each in started])
        columns = self._result_columns(outcomes, oracle, predictions, versions)
        self.statistics.add(tasks, columns)
        return [SchedulerResults(self.name, tasks, columns)]

    # ---------------------------------------------------------------- checkpoints

    def checkpoint(self) -> dict[str, Any]:
        """Return the state of the lane with its queue, ready for JSON."""
        state = super().checkpoint()
        queue = state["queue"]
        for task in queue["tasks"]:
            task.append(self._oracle.get(task[0]))
        queue["state"] = {key: _written(values) for key, values in queue["state"].items()}
        return state

    def restore(self, state: dict[str, Any], recent: Mapping[str, SchedulerResults], now: float) -> None:
        """Continue from a checkpoint; the model learns from the recent tasks."""
        queue = state["queue"]
        self._oracle = {task[0]: task[-1] for task in queue["tasks"] if task[-1] is not None}
        remembered = {key: _read(values) for key, values in queue["state"].items()}
        queue = {**queue, "tasks": [task[:-1] for task in queue["tasks"]], "state": remembered}
        super().restore({**state, "queue": queue}, recent, now)


def learned_lane(lanes: Iterable[SchedulerLane], name: str) -> SchedulerLane:
    """Return the lane of that name; raises `InvalidInputError` if none of the lanes that learn has it."""
    learned = {lane.name: lane for lane in lanes if lane.learner is not None}
    if name not in learned:
        raise InvalidInputError("scheduler", f"one that learns: {', '.join(learned) or 'none in this run'}", name)
    return learned[name]


def _written(state: Floats) -> list[float] | str:
    if len(state) <= _MAX_LIST and np.isfinite(state).all():
        return [float(value) for value in state]
    return base64.b64encode(state.astype("<f8").tobytes()).decode()


def _read(written: list[float] | str) -> Floats:
    if isinstance(written, str):
        return np.frombuffer(base64.b64decode(written), "<f8").astype(np.float64)
    return np.array(written, dtype=np.float64)
