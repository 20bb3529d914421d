"""Lane of a live run: one scheduler with its model on its own virtual cluster, fed chunk by chunk."""

from __future__ import annotations

import base64
import heapq
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..compiled import FastRule
from ..core import Decision, Explanation, Floats, InvalidInputError, Online, Outcome, Outcomes, Task, View, Workload
from ..core.outcome import FAILED
from ..learning.duration.online_duration_model import LearningEvent, ModelVersion, newest_number
from ..learning.duration.retraining import BackgroundRetraining, LearnsDurations, TrainingWorker
from ..physics import EnergyAndCost
from .batch_records import Recent, ResultColumns
from .lane_statistics import LaneStatistics
from .live_config import LiveConfig
from .status import ModelCard

#: Longer states of a rule are written as bytes.
_MAX_LIST = 64
#: Newest decisions whose explanation is kept.
_MAX_EXPLAINED = 1000
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
        self, name: str, scheduler: Online, config: LiveConfig, sample: Workload, trainer: TrainingWorker
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
                scheduler.times_.refresh = config.retrain_interval
        self.statistics = LaneStatistics(config.platform.cpu_of, config.platform.column("bandwidth"))
        #: Virtual time of the last drift that was found, and of the newest model.
        self.drift_at: float | None = None
        self.retrained_at: float | None = None
        #: The error after which the lane was switched off.
        self.failure: str | None = None
        self._explanations: dict[int, Explanation] = {}
        # Outcomes by virtual finish. Those that an earlier process decided come with their task: the scheduler does
        # not know these tasks, but its duration model can still learn from them.
        self._pending: list[tuple[float, int, Outcome, Task | None]] = []

    @property
    def version(self) -> int | None:
        """The number of the model that decides now; None without a model."""
        return self.learner.version if self.learner else None

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
            _, _, outcome, task = heapq.heappop(self._pending)
            if task is None:
                self.scheduler.observe(outcome)
            else:
                self._relearn(task, outcome)
        return self.version != before

    def decide(self, row: int) -> None:
        """Decide for one task of the chunk and place it."""
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
        ran = self._outcomes.status[row] != FAILED
        if prediction is not None:
            placed = Decision(int(self._outcomes.device[row]), float(self._outcomes.fraction[row]))
            self._predicted_time[row], self._confidence[row] = prediction.of(placed, cluster.platform)
        if ran and self.scheduler.learns and len(self._pending) < _MAX_PENDING:
            outcome = self._outcomes[row]
            if self.scheduler.wants_labels:
                outcome = replace(outcome, labels=cluster.labels(task.task_id, self._table[row]))
            heapq.heappush(self._pending, (outcome.finish, task.task_id, outcome, None))

    def _explain(self, task_id: int) -> None:
        """Keep the values by which the last decision was made, for the newest tasks."""
        found = self.scheduler.explanation()
        if found is not None:
            self._explanations[task_id] = found
            if len(self._explanations) > _MAX_EXPLAINED:
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
        bill = EnergyAndCost(outcomes, self.cluster.platform, self.cluster.tariff)
        unknown = np.full(len(outcomes), np.nan)
        rows = slice(len(outcomes))
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
            energy=bill.energy,
            cost=bill.cost,
            regret=unknown if oracle is None else outcomes.latency - oracle,
            predicted_time=unknown if self.rule else self._predicted_time[rows],
            confidence=unknown if self.rule else self._confidence[rows],
            status=outcomes.status,
            model_version=self._deciding_version if self.learner else None,
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
        if recent is not None and self.name in recent.results:
            results = recent.results[self.name]
            self.statistics.fill_window(results.latency)
            self._learn_recent(recent.tasks, results, now)
        if self.learner is not None:
            self.learner.resume_from(state["version"] or 0)

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
                heapq.heappush(self._pending, (outcome.finish, task.task_id, outcome, task))


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


class LaneModel:
    """The duration model of one scheduler. Version numbers continue where an earlier process stopped.

    Parameters
    ----------
    scheduler
        Keeps its duration model in the attribute `times_`.
    trainer
        Where the model is trained.
    """

    def __init__(self, scheduler: LearnsDurations, trainer: TrainingWorker) -> None:
        self._scheduler, self.times = scheduler, scheduler.times_
        self.retraining = BackgroundRetraining(trainer)
        self.retraining.adopt(scheduler)
        #: Versions of earlier processes, and versions of this one that were reported.
        self._base, self._reported = 0, 0
        self._seconds: float | None = None

    @property
    def version(self) -> int | None:
        """The number of the model that decides now; None before the first."""
        return self._base + newest_number(self.times.versions) or None

    def resume_from(self, version: int) -> None:
        """Count the models so far as one, with the number after the checkpoint's `version`."""
        count = newest_number(self.times.versions)
        self._base = version + (1 if count else 0) - count
        self._reported = max(0, count - 1)

    def start_training(self) -> None:
        """Start the latest request of the model, if it has one and none runs."""
        self.retraining.start(self._scheduler)

    def swap_in(self, at_task: int) -> list[LearningEvent]:
        """Swap in the model that was trained; it decides from task `at_task` on."""
        events = self.retraining.collect(at_task)
        self._seconds = self.retraining.seconds
        return events

    def new_versions(self) -> list[tuple[int, ModelVersion, float | None]]:
        """Return the versions since the last call: number, description, and seconds of training."""
        versions = self.times.versions
        fresh = versions[max(0, len(versions) + self._reported - newest_number(versions)) :]
        self._reported = newest_number(versions)
        seconds, self._seconds = self._seconds, None
        return [(self._base + version.version, version, seconds) for version in fresh]
