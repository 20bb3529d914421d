"""Offline training of predictors, for a workload or for the tasks of all built-in scenarios.

Labels are those of isolated tasks: their seconds on every class of device, and the best share for each task alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core import Floats, InvalidInputError, Platform, UnknownNameError, Workload, workstation
from ..physics import AnalyticPhysics, Physics, isolated_time, optimal_fraction
from ..workload.generator import WorkloadGenerator
from ..workload.scenarios import SCENARIOS, generate
from .duration.features import features, tasks_of
from .duration.pretraining import class_names
from .predictors import PREDICTORS, Predictor

TRAINING_TARGETS = ("times", "fraction")
#: Fewest finished tasks on each device to learn from.
_MIN_KNOWN = 10


class OfflineTrainer:
    """Trains one predictor on the labels of a workload.

    Parameters
    ----------
    model_type
        Name of the predictor, a key of `PREDICTORS`.
    target
        "times" (log CPU seconds and log ratio of CPU to accelerator seconds) or "fraction" (the best share for the
        task alone).
    platform, physics
        The machine that labels the tasks; the workstation with analytic physics if left out.
    test_size
        Share of the tasks held out for the test.
    seed
        Seed of the split and the model.
    options
        Parameters of the predictor, such as ``n_estimators`` and ``max_depth``.

    Raises
    ------
    UnknownNameError
        If `model_type`, `target` or an option is unknown.

    Examples
    --------
    >>> from hybrid_scheduler import OfflineTrainer, WorkloadGenerator
    >>> tasks = WorkloadGenerator(seed=1).generate_workload(100, utilisation=0.5)
    >>> found = OfflineTrainer("random_forest", n_estimators=20, max_depth=8).run_full_pipeline(tasks)
    >>> sorted(found)
    ['feature_importances', 'metrics']
    """

    def __init__(
        self,
        model_type: str = "random_forest",
        *,
        target: str = "times",
        platform: Platform | None = None,
        physics: Physics | None = None,
        test_size: float = 0.2,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if model_type not in PREDICTORS:
            raise UnknownNameError("model_type", model_type, PREDICTORS)
        if target not in TRAINING_TARGETS:
            raise UnknownNameError("target", target, TRAINING_TARGETS)
        self.model_type = model_type
        self.target = target
        self.test_size = test_size
        self.seed = seed
        self.platform = platform
        self.physics = physics
        self.options = options
        PREDICTORS[model_type](seed, **options)  # raises now if an option is unknown

    def run_full_pipeline(
        self, workload: Workload | WorkloadGenerator, model_output_path: str | Path | None = None
    ) -> dict[str, Any]:
        """Label, train, test and save.

        With target "times" the file drives schedulers: ``hybrid_ml(model=PATH)``, ``OnlineScheduler(model=PATH)``.

        Parameters
        ----------
        workload
            The tasks to learn from, or a generator that has made or loaded them.
        model_output_path
            File of the model; without one the model is only kept as `predictor_`.

        Returns
        -------
        dict
            ``feature_importances``, and ``metrics`` with the regret in per cent.
        """
        if isinstance(workload, WorkloadGenerator):
            workload = workload.workload
        inputs = features(workload)
        seconds = self._seconds(workload)
        labels = labels_for(self.target, seconds)
        metrics = self._fit(inputs, labels)
        _, test = self.predictor_.split_
        metrics["regret_percent"] = 100.0 * regret(
            implied_fraction(self.target, self.predictor_.predict(inputs[test])), seconds[test]
        )
        if model_output_path is not None:
            self.predictor_.save(model_output_path)
        return {"feature_importances": self.predictor_.feature_importance(), "metrics": metrics}

    def train_on_history(
        self, tasks: Workload, seconds: Floats, model_output_path: str | Path | None = None
    ) -> dict[str, Any]:
        """Train on the seconds that finished tasks took; test and save.

        Unknown seconds are estimated from a log-linear fit of the known ones, and do not count in the test.

        Parameters
        ----------
        tasks
            Tasks that have finished.
        seconds
            Seconds of each task on the CPU and on the accelerator; NaN where it did not run.
        model_output_path
            File of the model; without one the model is only kept as `predictor_`.

        Returns
        -------
        dict
            ``feature_importances``, and ``metrics`` with the root mean square of the held-out log errors on each
            device.

        Raises
        ------
        InvalidInputError
            If too few tasks ran on one of the devices, or the target is not "times".
        """
        if self.target != "times":
            raise InvalidInputError("target", '"times" for history', self.target)
        inputs = features(tasks)
        known = np.isfinite(seconds) & (seconds > 0)
        logs = np.log(np.where(known, seconds, np.nan))
        estimate = np.zeros_like(logs)
        for device, count in zip(("CPU", "accelerator"), known.sum(axis=0).tolist(), strict=True):
            if count < _MIN_KNOWN:
                hint = "let more tasks finish: hybrid-scheduler serve, or simulate into the database"
                raise InvalidInputError(
                    "history", f"at least {_MIN_KNOWN} finished tasks on the {device}", count, hint=hint
                )
        design = np.column_stack([np.ones(len(inputs)), inputs])
        for column in range(2):
            own = known[:, column]
            estimate[:, column] = design @ np.linalg.lstsq(design[own], logs[own, column], rcond=None)[0]
        labels = labels_for(self.target, np.exp(np.where(known, logs, estimate)))
        metrics = self._fit(inputs, labels)
        _, test = self.predictor_.split_
        predicted = self.predictor_.predict(inputs[test])
        errors = logs[test] - np.column_stack([predicted[:, 0], predicted[:, 0] - predicted[:, 1]])
        for device, error in zip(("cpu", "accelerator"), errors.T, strict=True):
            left = error[np.isfinite(error)]
            metrics[f"rms_log_error_{device}"] = float(np.sqrt(np.mean(left**2))) if len(left) else np.nan
        self.predictor_.metrics_ = {k: v for k, v in metrics.items() if np.isfinite(v)}
        if model_output_path is not None:
            self.predictor_.save(model_output_path)
        return {"feature_importances": self.predictor_.feature_importance(), "metrics": self.predictor_.metrics_}

    def _fit(self, inputs: Floats, labels: Floats) -> dict[str, float]:
        self.predictor_: Predictor = PREDICTORS[self.model_type](seed=self.seed, **self.options)
        self.predictor_.target = self.target
        platform, pair = self._devices()
        names = class_names(platform)
        self.predictor_.device_classes = tuple(names[platform.class_of[device]] for device in pair)
        return self.predictor_.fit(inputs, labels, test_size=self.test_size)

    def _devices(self) -> tuple[Platform, list[int]]:
        """Return the platform, and the CPU and the accelerator on it whose seconds are learned."""
        platform = self.platform or workstation()
        if len(platform.accelerators) == 0:
            raise InvalidInputError(
                "platform", "one with an accelerator", platform.name, hint="a CPU alone leaves nothing to predict"
            )
        accelerator = int(platform.accelerators[0])
        return platform, [int(platform.cpu_of[accelerator]), accelerator]

    def _seconds(self, workload: Workload) -> Floats:
        """Return the seconds of every task on the CPU and on the first accelerator."""
        platform, pair = self._devices()
        physics = self.physics or AnalyticPhysics()
        return physics.times(workload, platform)[:, physics.columns(platform)[pair], 0]


def labels_for(target: str, seconds: Floats) -> Floats:
    """Return a predictor's labels, from seconds on the CPU and on the accelerator."""
    cpu, accelerator = seconds.T
    if target == "fraction":
        return optimal_fraction(cpu, accelerator)
    return np.column_stack([np.log(cpu), np.log(cpu / accelerator)])


def implied_fraction(target: str, predicted: Floats) -> Floats:
    """Return the share that a prediction implies for a task alone."""
    if target == "fraction":
        return np.clip(predicted, 0.0, 1.0)
    cpu = np.exp(predicted[:, 0])
    return optimal_fraction(cpu, cpu / np.exp(predicted[:, 1]))


def regret(fraction: Floats, seconds: Floats) -> float:
    """Return how much longer the tasks take, one by one, than with the best share of each."""
    cpu, accelerator = seconds.T
    best = isolated_time(optimal_fraction(cpu, accelerator), cpu, accelerator).sum()
    return float(isolated_time(fraction, cpu, accelerator).sum() / best - 1.0)


# -------------------------------------------------------------------- tasks of the built-in scenarios


def _training_tasks(num_tasks: int, seed: int) -> Workload:
    """Return tasks of every built-in scenario, including those after a shift, so that later tasks are in range."""
    parts = [part for scenario in SCENARIOS.values() for part in (scenario, scenario.then) if part is not None]
    distinct = {(part.size, part.intensity, part.memory): replace(part, then=None) for part in parts}
    share = -(-num_tasks // len(distinct))
    tasks = [generate(part, share, seed + k, batch=True) for k, part in enumerate(distinct.values())]
    return tasks_of(
        np.concatenate([part.size for part in tasks]),
        np.concatenate([part.compute_intensity for part in tasks]),
        np.concatenate([part.memory_required for part in tasks]),
    )


def train_default_duration_model(
    path: str | Path, seed: int = 0, *, num_tasks: int = 3000, trees: int = 40
) -> dict[str, Any]:
    """Train a forest on tasks of all built-in scenarios and save it; return its metrics."""
    trainer = OfflineTrainer("random_forest", seed=seed, n_estimators=trees, min_samples_leaf=2)
    metrics: dict[str, Any] = trainer.run_full_pipeline(_training_tasks(num_tasks, seed), path)["metrics"]
    return metrics
