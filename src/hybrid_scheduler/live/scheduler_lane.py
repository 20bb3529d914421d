"""Lanes of a live run: one scheduler each, with its model, on its own virtual cluster, fed chunk by chunk.

A scheduler that decides at arrival has the results of a chunk at once. Under a central one tasks wait in a common
queue, and a result comes when its task starts.
"""

from __future__ import annotations

import base64
import heapq
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..compiled import FastRule
from ..core import (
    Central,
    Decision,
    Explanation,
    Floats,
    InvalidInputError,
    Online,
    Outcome,
    Outcomes,
    Prediction,
    Queue,
    Scheduler,
    Task,
    TimeTable,
    View,
    Workload,
)
from ..core.outcome import FAILED
from ..learning.duration.online_duration_model import LearningEvent
from ..learning.duration.retraining import LearnsDurations, TrainingWorker
from ..physics import EnergyAndCost
from ..workload.argument_checks import parse_spec
from .journal import Recent, ResultColumns, StartedTasks, joined_outcomes, joined_tasks
from .lane_statistics import LaneStatistics
from .live_config import LiveConfig
from .model_versions import LaneModel
from .status import ModelCard

#: Longer states of a rule are written as bytes.
_MAX_LIST = 64
#: Newest decisions whose explanation is kept.
MAX_EXPLAINED = 1000
#: Above capacity queues grow without end; outcomes that late are of no use to a model.
_MAX_PENDING = 100_000


class SchedulerLane:
    """One scheduler with its cluster, its statistics and its model.

    A compiled rule takes a chunk in one call of `run_rule`. Any other scheduler goes task by task: `open` with the
    chunk; for each row `catch_up` with the arrival time and `decide`; then `close`. Outcomes reach a scheduler at
    their virtual finish, never earlier, also across chunks.

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
        self.name, self.scheduler = name, scheduler
        self.cluster = config.machine.cluster()
        self._known_times = self.cluster.start_scheduler(
            scheduler, sample, seed=config.seed, objective=config.objective, endless=True
        )
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
        # Outcomes by virtual finish. Those that an earlier process decided come with their task: the scheduler does
        # not know these tasks, but its duration model can still learn from them.
        # Of tasks and parts that end at the same time, tasks come first.
        self._pending: list[tuple[float, bool, int, Outcome, Task | None]] = []

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
    def state(self) -> str:
        """ready, warming, learned, fallback, or off after it failed."""
        own = getattr(self.scheduler, "state", None)  # a compiled rule's is an array
        return "off" if self.failure is not None else own if isinstance(own, str) else "ready"

    def events(self) -> list[LearningEvent]:
        """Return the scheduler's learning events since the last call."""
        new = getattr(self.scheduler, "events_", None)
        if not new:
            return []
        events = list(new)
        new.clear()
        return events

    def model_card(self) -> ModelCard:
        """Return the description of the scheduler's model, read from the attributes of learned schedulers."""
        importance = getattr(self.scheduler, "feature_importance", None)
        agent = getattr(self.scheduler, "agent_", None)
        numbers: dict[str, float | int | None] | None = None
        if agent is not None:
            epsilon = getattr(agent, "epsilon", getattr(self.scheduler, "epsilon", None))
            loss = getattr(agent, "loss", None)
            numbers = {
                "epsilon": float(epsilon or 0.0),
                "updates": int(getattr(agent, "updates", 0)),
                "loss": None if loss is None else float(loss),
            }
        shares = importance() if importance is not None else None
        accuracy = getattr(self.scheduler, "accuracy", None)
        return ModelCard(
            self.name, self.state, self.version, shares, numbers, accuracy() if accuracy is not None else None
        )

    def take_loss(self) -> float | None:
        """Return the mean loss of the network's updates since the last call; None without any."""
        take = getattr(getattr(self.scheduler, "agent_", None), "take_mean_loss", None)
        return None if take is None else take()

    # ---------------------------------------------------------------- running

    def run_rule(self, chunk: Workload) -> Outcomes:
        """Decide for a whole chunk with a compiled rule."""
        assert self.rule is not None
        return self.cluster.run_more(chunk, self.rule)

    def open(self, chunk: Workload) -> None:
        """Begin a chunk that is decided task by task."""
        self._chunk, self._outcomes = chunk, Outcomes.empty(chunk)
        self._predicted_time, self._confidence = np.full((2, len(chunk)), np.nan)
        self._table = self.cluster.physics.times(chunk, self.cluster.platform)
        if self._known_times is not None:
            self._known_times.remember(chunk)

    def catch_up(self, now: float) -> bool:
        """Report the outcomes that have finished by now; returns True if the model changed."""
        before = self.version
        while self._pending and self._pending[0][0] <= now:
            _, is_part, _, outcome, task = heapq.heappop(self._pending)
            if task is not None:
                self._relearn(task, outcome)
            elif is_part:
                self.scheduler.observe_part(outcome)
            else:
                self.scheduler.observe(outcome)
        return self.version != before

    def decide(self, row: int) -> None:
        """Decide for one task of the chunk and place it."""
        assert isinstance(self.scheduler, Online)
        task, cluster = self._chunk[row], self.cluster
        view = View(task.arrival_time, cluster.free_at_view, cluster.platform)
        decision = cluster.check_decision(self.scheduler.decide(task, view), self.scheduler)
        prediction = self.scheduler.prediction()
        cluster.place_row(
            row,
            decision.device,
            decision.fraction,
            task.arrival_time,
            self._chunk,
            self._table[row],
            self._outcomes,
        )
        self._explain(task.task_id)
        if row == 0 and self.learner is not None:  # the same model decides the whole chunk
            self._deciding_version = self.learner.version
        if prediction is not None:
            self._predicted_time[row], self._confidence[row] = self._predicted(prediction, self._outcomes, row)
        self._observe_later(self._outcomes, row, self._table[row])

    def _predicted(self, prediction: Prediction, outcomes: Outcomes, row: int) -> tuple[float, float]:
        """Return predicted seconds and confidence of a placed task."""
        placed = Decision(int(outcomes.device[row]), float(outcomes.fraction[row]))
        return prediction.of(placed, self.cluster.platform)

    def _observe_later(self, outcomes: Outcomes, row: int, times: Floats) -> None:
        """Report the outcome of a placed task at its finish, if the scheduler learns."""
        ran = outcomes.status[row] != FAILED
        if ran and self.scheduler.learns and len(self._pending) < _MAX_PENDING:
            outcome = outcomes[row]
            if self.scheduler.wants_labels:
                outcome = replace(outcome, labels=self.cluster.labels(outcome.task_id, times))
            heapq.heappush(self._pending, (outcome.finish, False, outcome.task_id, outcome, None))
            part = outcome.earlier_part
            if part is not None and self.scheduler.learns_from_parts:
                heapq.heappush(self._pending, (part.finish, True, part.task_id, part, None))

    def _explain(self, task_id: int) -> None:
        """Keep the values by which the last decision was made, for the newest tasks."""
        found = self.scheduler.explanation()
        if found is not None:
            self._keep_explanation(task_id, found)

    def _keep_explanation(self, task_id: int, found: Explanation) -> None:
        self._explanations[task_id] = found
        if len(self._explanations) > MAX_EXPLAINED:
            del self._explanations[next(iter(self._explanations))]

    def explanation(self, task_id: int) -> dict[str, Any] | None:
        """Return the values by which a decision was made; None if it is not among the newest, or not learned."""
        found = self._explanations.get(task_id)
        return None if found is None else found.as_dict(self.cluster.platform)

    def close(self, rows: int) -> Outcomes:
        """End the chunk and return the outcomes of the first rows; no others were decided."""
        out, chunk = self._outcomes, self._chunk.rows(0, rows)
        if self._known_times is not None:
            self._known_times.forget()
        return Outcomes(
            chunk,
            out.device[:rows],
            out.fraction[:rows],
            out.cpu_start[:rows],
            out.cpu_time[:rows],
            out.accelerator_start[:rows],
            out.accelerator_time[:rows],
            out.status[:rows],
        )

    def columns(self, outcomes: Outcomes, oracle: Floats | None) -> ResultColumns:
        """Return the outcomes as they are stored; `oracle` is the oracle's latency for the same tasks."""
        unknown = np.full(len(outcomes), np.nan)
        rows = slice(len(outcomes))
        predicted = (unknown, unknown) if self.rule else (self._predicted_time[rows], self._confidence[rows])
        version = self._deciding_version if self.learner else None
        return self._result_columns(outcomes, unknown if oracle is None else oracle, *predicted, version)

    def _result_columns(
        self,
        outcomes: Outcomes,
        oracle: Floats,
        predicted_time: Floats,
        confidence: Floats,
        version: int | None,
    ) -> ResultColumns:
        charges = EnergyAndCost(outcomes, self.cluster.platform, self.cluster.tariff)
        return ResultColumns(
            device=outcomes.device,
            fraction=outcomes.fraction,
            time=outcomes.time,
            latency=outcomes.latency,
            start=outcomes.start,
            finish=outcomes.finish,
            cpu_start=outcomes.cpu_start,
            cpu_time=outcomes.cpu_time,
            accelerator_start=outcomes.accelerator_start,
            accelerator_time=outcomes.accelerator_time,
            energy=charges.energy,
            cost=charges.cost,
            regret=outcomes.latency - oracle,
            predicted_time=predicted_time,
            confidence=confidence,
            status=outcomes.status,
            model_version=version,
        )

    # ---------------------------------------------------------------- checkpoints

    def checkpoint(self) -> dict[str, Any]:
        """Return the state of the lane, ready for JSON."""
        return {
            "cluster": self.cluster.state(),
            "rule": None if self.rule is None else _written(self.rule.state),
            "statistics": self.statistics.state(),
            "version": self.version,
            "failure": self.failure,
        }

    def restore(self, state: dict[str, Any], recent: Recent | None, now: float) -> None:
        """Continue from a checkpoint; the model learns from the recent tasks."""
        self.cluster.restore(state["cluster"])
        if self.rule is not None and state["rule"] is not None:
            self.rule.state[:] = _read(state["rule"])
        self.statistics.restore(state["statistics"])
        self.failure = state["failure"]
        found = None if recent is None else self._recent(recent)
        if found is not None:
            tasks, results = found
            self.statistics.fill_window(results.latency)
            self._learn_recent(tasks, results, now)
        if self.learner is not None:
            self.learner.resume_from(state["version"] or 0)

    def _recent(self, recent: Recent) -> tuple[Workload, ResultColumns] | None:
        """Return the newest tasks with their results; None if there are none."""
        return (recent.tasks, recent.results[self.name]) if self.name in recent.results else None

    def _relearn(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that an earlier process decided."""
        learn_from = getattr(self.scheduler, "learn_from", None)
        if learn_from is not None:
            learn_from(task, outcome)

    def _learn_recent(self, tasks: Workload, results: ResultColumns, now: float) -> None:
        """Let the model learn from stored tasks in the order of finish; unfinished ones are reported later."""
        table = self.cluster.physics.times(tasks, self.cluster.platform)
        labelled = self.scheduler.wants_labels
        for row in np.argsort(results.finish, kind="stable").tolist():
            if results.status[row] == FAILED:
                continue
            task = tasks[row]
            outcome = Outcome(
                task.task_id,
                int(results.device[row]),
                float(results.fraction[row]),
                task.arrival_time,
                float(results.cpu_start[row]),
                float(results.cpu_time[row]),
                float(results.accelerator_start[row]),
                float(results.accelerator_time[row]),
                int(results.status[row]),
                self.cluster.labels(task.task_id, table[row]) if labelled else None,
            )
            if outcome.finish <= now:
                self._relearn(task, outcome)
            else:
                heapq.heappush(self._pending, (outcome.finish, False, task.task_id, outcome, task))


@dataclass(frozen=True, slots=True)
class _QueuedTask:
    """A task of the common queue: a workload of one row, its durations, and the oracle's latency for it."""

    one: Workload
    task: Task
    table: TimeTable
    known: Floats | None
    oracle: float

    def plain(self) -> list[Any]:
        """Return what a checkpoint keeps, ready for JSON."""
        task, oracle = self.task, None if np.isnan(self.oracle) else self.oracle
        return [
            task.task_id, task.size, task.compute_intensity, task.memory_required, task.arrival_time, task.kind,
            task.divisible, task.external_id, oracle,
        ]  # fmt: skip


class _CommonQueue(Queue):
    """Waiting tasks of a central lane, oldest first."""

    def __init__(self) -> None:
        self.tasks: list[_QueuedTask] = []

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, position: int) -> Task:
        return self.tasks[position].task

    @property
    def size(self) -> Floats:
        """Size of each waiting task."""
        return np.array([each.task.size for each in self.tasks])

    @property
    def compute_intensity(self) -> Floats:
        """Compute intensity of each waiting task."""
        return np.array([each.task.compute_intensity for each in self.tasks])

    @property
    def memory_required(self) -> Floats:
        """MB of each waiting task."""
        return np.array([each.task.memory_required for each in self.tasks])

    @property
    def arrival_time(self) -> Floats:
        """Arrival of each waiting task in seconds."""
        return np.array([each.task.arrival_time for each in self.tasks])

    @property
    def times(self) -> TimeTable:
        """Rows of the time model for the waiting tasks."""
        rows = [each.known for each in self.tasks if each.known is not None]
        if len(rows) < len(self.tasks):
            raise InvalidInputError("knowledge", "TOLD or REALISED to read durations", "NOTHING")
        return np.array(rows) if rows else np.empty((0, 0, 2))


class CentralLane(SchedulerLane):
    """Lane of a central scheduler. `release` adds tasks to the common queue, and `take_started` returns results.

    The scheduler is asked at the same times as in a simulation: when tasks arrive and when a device becomes free.
    All tasks that arrive at one time are in the queue before it is asked.
    """

    def __init__(
        self, name: str, scheduler: Central, config: LiveConfig, sample: Workload, trainer: TrainingWorker
    ) -> None:
        super().__init__(name, scheduler, config, sample, trainer)
        self._central = scheduler
        self._unexplained = Explanation(Prediction(np.empty((0, 2)), np.empty(0)), parse_spec(name)[0])
        self._queue = _CommonQueue()
        #: Arrival of the newest tasks, if the scheduler has not been asked since; and when it was asked last.
        self._arrived: float | None = None
        self._asked_at = -math.inf
        self._started: list[tuple[_QueuedTask, Outcomes, float, float, int | None]] = []
        #: Tasks before this one are deleted.
        self._first_stored = 0

    @property
    def waiting(self) -> int:
        """The number of tasks in the common queue."""
        return len(self._queue)

    def reset_statistics(self) -> None:
        """Begin the statistics anew; tasks that wait now will have no stored result."""
        super().reset_statistics()
        newest = max((each.task.task_id for each in self._queue.tasks), default=-1)
        self._first_stored = max(self._first_stored, newest + 1)

    def release(self, chunk: Workload, oracle: Floats | None) -> None:
        """Add tasks to the queue at their arrival; `oracle` is the oracle's latency for them."""
        table = self.cluster.physics.times(chunk, self.cluster.platform)
        known = None if self._known_times is None else self._known_times.table(chunk)
        for row, now in enumerate(chunk.arrival_time.tolist()):
            self._run_before(now)
            self._queue.tasks.append(
                _QueuedTask(
                    chunk.rows(row, row + 1),
                    chunk[row],
                    table[row : row + 1],
                    None if known is None else known[row],
                    math.nan if oracle is None else float(oracle[row]),
                )
            )
            self._arrived = now

    def catch_up(self, now: float) -> bool:
        """Place and report all that happens by now; model versions never cut a chunk short."""
        self._run_before(math.nextafter(now, math.inf))
        super().catch_up(now)
        return False

    def finish_queue(self, now: float) -> None:
        """Place all waiting tasks from now on, as if no other task came.

        Raises
        ------
        InvalidInputError
            If the scheduler leaves a task waiting while all devices are idle.
        """
        self.catch_up(now)
        self._run_before(math.inf)
        if len(self._queue):
            raise InvalidInputError(
                "pick", "a task whenever all devices are idle", f"None with {len(self._queue)} waiting",
                where=f"scheduler {self.name}",
            )  # fmt: skip

    def _run_before(self, limit: float) -> None:
        """Ask the scheduler at every event before the limit."""
        while len(self._queue):
            free_at = self.cluster.free_at_view
            later = free_at[free_at > self._asked_at]
            at = self._arrived if self._arrived is not None else float(later.min()) if len(later) else math.inf
            if at >= limit or at == math.inf:
                return
            super().catch_up(at)
            self._ask(at)

    def _ask(self, now: float) -> None:
        self._arrived, self._asked_at = None, now
        cluster, queue = self.cluster, self._queue
        for position, decision in self._central.starts(queue, View(now, cluster.free_at_view, cluster.platform)):
            if not 0 <= position < len(queue):
                raise InvalidInputError(
                    "pick", f"a position from 0 to {len(queue) - 1}, or None", position,
                    where=f"scheduler {self.name}",
                )  # fmt: skip
            checked = cluster.check_decision(decision, self._central)
            self._start(queue.tasks.pop(position), checked, now)

    def _start(self, queued: _QueuedTask, decision: Decision, now: float) -> None:
        task, outcomes = queued.task, Outcomes.empty(queued.one)
        prediction = self._central.prediction()
        self.cluster.place_row(0, decision.device, decision.fraction, now, queued.one, queued.table[0], outcomes)
        found = self._central.explanation() or self._unexplained
        self._keep_explanation(task.task_id, found._replace(queued=now - task.arrival_time))
        predicted = (math.nan, math.nan) if prediction is None else self._predicted(prediction, outcomes, 0)
        if task.task_id >= self._first_stored:
            self._started.append((queued, outcomes, *predicted, self.version))
        self._observe_later(outcomes, 0, queued.table[0])

    def take_started(self) -> list[StartedTasks]:
        """Return the tasks that have started since the last call, with one model version each."""
        groups: list[StartedTasks] = []
        for version, found in itertools.groupby(self._started, key=lambda each: each[-1]):
            rows = sorted(found, key=lambda each: each[0].task.task_id)
            queued, parts, seconds, spread, _ = zip(*rows, strict=True)
            tasks = joined_tasks([each.one for each in queued])
            outcomes = joined_outcomes(tasks, parts)
            oracle = np.array([each.oracle for each in queued])
            columns = self._result_columns(outcomes, oracle, np.array(seconds), np.array(spread), version)
            self.statistics.add(tasks, columns)
            groups.append(StartedTasks(self.name, tasks, columns))
        self._started.clear()
        return groups

    # ---------------------------------------------------------------- checkpoints

    def checkpoint(self) -> dict[str, Any]:
        """Return the state of the lane with its queue, ready for JSON."""
        state = {key: _written(values) for key, values in self._central.queue_state().items()}
        return {
            **super().checkpoint(),
            "queue": {
                "tasks": [each.plain() for each in self._queue.tasks],
                "arrived": self._arrived,
                "asked_at": self._asked_at if math.isfinite(self._asked_at) else None,
                "state": state,
            },
        }

    def restore(self, state: dict[str, Any], recent: Recent | None, now: float) -> None:
        """Continue from a checkpoint; the model learns from the recent tasks."""
        super().restore(state, recent, now)
        queue = state["queue"]
        for number, size, intensity, memory, arrival, kind, divisible, external_id, oracle in queue["tasks"]:
            task = Task(number, size, intensity, memory, arrival, (), kind, external_id, divisible)
            one = Workload.from_tasks([task])
            known = None if self._known_times is None else self._known_times.table(one)[0]
            table = self.cluster.physics.times(one, self.cluster.platform)
            self._queue.tasks.append(_QueuedTask(one, task, table, known, math.nan if oracle is None else oracle))
        self._arrived = queue["arrived"]
        self._asked_at = -math.inf if queue["asked_at"] is None else queue["asked_at"]
        # A model that was learned again admits the tasks anew where the scheduler keeps no state of its own.
        if queue["state"]:
            self._central.restore_queue({key: _read(values) for key, values in queue["state"].items()}, self._queue)

    def _recent(self, recent: Recent) -> tuple[Workload, ResultColumns] | None:
        started = recent.started.get(self.name)
        return super()._recent(recent) if started is None else (started.tasks, started.columns)


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
