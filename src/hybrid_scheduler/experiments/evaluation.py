"""Runs that also record what each scheduler predicted: the pipeline's evaluation, and detailed runs for reports.

`predicted_time` is how long a task would take, split as decided, by the durations that the scheduler predicted at
that moment. Schedulers without predictions leave it empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..cluster import Machine, RunResult
from ..cluster.physics_times import PhysicsTimes
from ..core import (
    Decision,
    Floats,
    Knowledge,
    Learner,
    ModelVersion,
    Online,
    Outcome,
    Platform,
    Scheduler,
    Setting,
    Task,
    View,
    Workload,
)
from ..engine import Comparison
from ..schedulers import create
from ..schedulers.hybrid_ml import HybridML
from ..schedulers.rl_agent import RLAgent
from .spec import ExperimentSpec, single_threaded

BASELINES = ("cpu_only", "gpu_only", "round_robin", "random", "greedy", "earliest_finish", "oracle")
RESULT_COLUMNS = (
    "task_id", "scheduler", "device", "gpu_fraction", "predicted_time", "actual_time", "energy", "cost",
)  # fmt: skip


@dataclass(frozen=True)
class DetailedRun:
    """A comparison with predicted times (NaN: none), model versions and feature importances per scheduler."""

    comparison: Comparison
    predicted: dict[str, Floats] = field(default_factory=dict)
    versions: dict[str, list[ModelVersion]] = field(default_factory=dict)
    importances: dict[str, dict[str, float]] = field(default_factory=dict)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per scheduler and task, with `RESULT_COLUMNS`; a failed task has no share and no time."""
        table = self.comparison.to_pandas(tasks=True).rename(columns={"time": "actual_time"})
        table["predicted_time"] = np.concatenate([self.predicted[name] for name in self.comparison.results])
        table.loc[table["status"] == "failed", ["gpu_fraction", "actual_time"]] = np.nan
        return table[list(RESULT_COLUMNS)]


def run_evaluation(
    workload: Workload,
    machine: Machine,
    *,
    times_model: Path,
    agent_model: Path,
    seed: int,
    progress: Callable[[str, float], None],
) -> DetailedRun:
    """Run the baselines and the freshly trained learners on the same tasks, each on a cluster of its own.

    Parameters
    ----------
    workload
        Tasks that no training has seen.
    machine
        The machine they run on.
    times_model, agent_model
        Files of the trained models.
    seed
        Seed of schedulers that draw.
    progress
        Called with the scheduler's name and the share done.

    Returns
    -------
    DetailedRun
        With predicted times also of schedulers that are given durations.
    """
    schedulers: dict[str, Scheduler] = {name: create(name) for name in BASELINES}
    schedulers |= {"hybrid_ml": HybridML(model=times_model), "rl_agent": RLAgent(model=agent_model)}
    done = 0

    def report(name: str, count: int) -> None:
        nonlocal done
        done += count
        progress(name, done / (len(workload) * len(schedulers)))

    detailed = _run(schedulers, workload, machine, seed, report)
    given = {
        name: _known_durations(schedulers[name], result, machine)
        for name, result in detailed.comparison.results.items()
    }
    return replace(detailed, predicted=given | detailed.predicted)


def run_detailed(
    spec: ExperimentSpec, seed: int, progress: Callable[[str, int], None] | None = None
) -> DetailedRun:
    """Run a specification on one seed and record predictions; the outcomes are those of `spec.run(seed)`."""
    schedulers = {name: create(name) for name in spec.schedulers}
    with single_threaded(spec.schedulers):
        return _run(schedulers, spec.workload(seed), spec.on_seed(seed), seed, progress)


def _run(
    schedulers: Mapping[str, Scheduler],
    workload: Workload,
    machine: Machine,
    seed: int,
    progress: Callable[[str, int], None] | None,
) -> DetailedRun:
    """Run schedulers on the same tasks, and record what those that learn predict."""
    results: dict[str, RunResult] = {}
    predicted: dict[str, Floats] = {}
    versions: dict[str, list[ModelVersion]] = {}
    importances: dict[str, dict[str, float]] = {}
    for name, scheduler in schedulers.items():
        recorder = PredictionRecorder(scheduler) if isinstance(scheduler, Online) and scheduler.learns else None
        report = partial(progress, name) if progress else None
        results[name] = machine.run(workload, recorder or scheduler, seed=seed, progress=report)
        if recorder:
            predicted[name] = recorder.predictions(workload)
            learned = scheduler if isinstance(scheduler, Learner) else Learner()
            versions[name] = list(learned.versions)
            if importance := learned.feature_importance():
                importances[name] = importance
    return DetailedRun(Comparison.of(workload, machine, results), predicted, versions, importances)


class PredictionRecorder(Online):
    """Wraps a learner and records, for each decision, how long the learner predicts the task to take."""

    def __init__(self, learner: Online) -> None:
        self.learner = learner
        self._predictions: dict[int, float] = {}

    @property
    def wants_labels(self) -> bool:
        """Whether the learner wants the simulation's labels."""
        return self.learner.wants_labels

    @property
    def learns(self) -> bool:
        """Whether the learner learns."""
        return self.learner.learns

    def start(self, setting: Setting) -> None:
        """Start the learner."""
        self.setting = setting
        self.learner.start(setting)

    def decide(self, task: Task, view: View) -> Decision:
        """Return the learner's decision and record its prediction."""
        decision = self.learner.decide(task, view)
        prediction = self.learner.prediction()
        if prediction is not None:
            self._predictions[task.task_id] = prediction.of(decision, view.platform)[0]
        return decision

    @property
    def learns_from_parts(self) -> bool:
        """Whether the learner learns from parts that end before their task."""
        return self.learner.learns_from_parts

    def observe_part(self, part: Outcome) -> None:
        """Pass the outcome of a part on to the learner."""
        self.learner.observe_part(part)

    def observe(self, outcome: Outcome) -> None:
        """Pass the outcome on to the learner."""
        self.learner.observe(outcome)

    def predictions(self, workload: Workload) -> Floats:
        """Return the predicted time of every task; NaN where there was none."""
        return np.array([self._predictions.get(task, np.nan) for task in workload.task_id.tolist()])


def split_times(times: Floats, device: Any, fraction: Floats, platform: Platform) -> Floats:
    """Return the seconds of each task when `fraction` of it runs on `device`; `times` is (tasks, devices, 2)."""
    rows = np.arange(len(fraction))
    cpu = times[rows, platform.cpu_of[device]]
    accelerator = times[rows, device]
    on_cpu = np.where(fraction < 1.0, cpu[:, 1] + (1.0 - fraction) * cpu[:, 0], 0.0)
    on_accelerator = np.where(fraction > 0.0, accelerator[:, 1] + fraction * accelerator[:, 0], 0.0)
    # A task given to a CPU runs on it whole, whatever its share.
    whole = cpu[:, 1] + cpu[:, 0]
    return np.where(platform.is_cpu[device], whole, np.maximum(on_cpu, on_accelerator))


def _known_durations(scheduler: Scheduler, result: RunResult, machine: Machine) -> Floats:
    """Return the predicted times of a scheduler that is given durations, noise-free or realised."""
    outcomes = result.outcomes
    if scheduler.knows is Knowledge.NOTHING:
        return np.full(len(outcomes), np.nan)
    noise = machine.noise if scheduler.knows is Knowledge.REALISED else None
    times = PhysicsTimes(machine.physics, machine.platform, noise)
    table = times.table(outcomes.workload)[:, times.columns]
    return split_times(table, outcomes.device, outcomes.fraction, machine.platform)
