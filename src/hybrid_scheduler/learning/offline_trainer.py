"""Offline training: predictors for a workload, and the duration model that ships with the package.

Labels are those of isolated tasks: their seconds on every class of device, and the best share for each task alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core import Floats, InvalidInputError, Platform, UnknownNameError, Workload, platform_named, workstation
from ..physics import AnalyticPhysics, Physics, isolated_time, optimal_fraction
from ..workload.generator import WorkloadGenerator
from ..workload.scenarios import SCENARIOS, generate
from .duration.duration_model import DurationModel
from .duration.features import features
from .duration.fitting import Pretrained, Samples, class_names, fit_durations
from .model_files import data_digest, save_duration_model
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
        self.model_type, self.target, self.test_size, self.seed = model_type, target, test_size, seed
        self.platform, self.physics, self.options = platform, physics, options
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
        inputs, seconds = features(workload), self._seconds(workload)
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
        for device, count in zip(("CPU", "accelerator"), known.sum(axis=0).tolist(), strict=True):
            if count < _MIN_KNOWN:
                hint = "let more tasks finish: hybrid-scheduler serve, or simulate into the database"
                raise InvalidInputError(
                    "history", f"at least {_MIN_KNOWN} finished tasks on the {device}", count, hint=hint
                )
        fitted = fit_durations(Samples(inputs, logs, np.zeros_like(logs), 0), self.seed, trees=0)
        estimate = np.log(DurationModel.of([fitted], np.ones(2)).table(tasks)[:, :, 0])
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


# -------------------------------------------------------------------- the shipped model


def catalogue() -> Platform:
    """Return one node with a device of every class in the built-in platforms, so that one model serves them all."""
    classes = [
        device for name in ("workstation", "mixed-gpus", "accelerators") for device in platform_named(name).classes
    ]
    distinct = list({(d.kind, d.speedup_base, d.speedup_slope, d.bandwidth): d for d in classes}.values())
    return Platform("catalogue", tuple(replace(d, name=f"device_{i}", node=0) for i, d in enumerate(distinct)))


def _training_workloads(num_tasks: int, seed: int) -> list[Workload]:
    """Return tasks of every built-in scenario, including those after a shift, so that later tasks are in range."""
    parts = [part for scenario in SCENARIOS.values() for part in (scenario, scenario.then) if part is not None]
    distinct = {(part.size, part.intensity, part.memory): replace(part, then=None) for part in parts}
    share = -(-num_tasks // len(distinct))
    return [generate(part, share, seed + k, batch=True) for k, part in enumerate(distinct.values())]


def train_default_duration_model(
    path: str | Path, seed: int = 0, *, num_tasks: int = 6000, trees: int = 40
) -> dict[str, Any]:
    """Train and save the duration model that ships with the package; return its metrics."""
    known, unseen = _training_workloads(num_tasks, seed), _training_workloads(num_tasks // 3, seed + 1000)
    return train_times_model(path, known, unseen, catalogue(), AnalyticPhysics(), seed, trees=trees)


def train_times_model(
    path: str | Path,
    known: Sequence[Workload],
    unseen: Sequence[Workload],
    platform: Platform,
    physics: Physics,
    seed: int,
    *,
    trees: int = 100,
) -> dict[str, Any]:
    """Train a duration model, save it for `HybridML(model=path)`, and return its metrics.

    Parameters
    ----------
    path
        File of the model.
    known
        Tasks to learn from.
    unseen
        Tasks for the metrics.
    platform, physics
        The machine that labels the tasks.
    seed
        Seed of the trees.
    trees
        Size of the forest.
    """
    table = np.concatenate([_by_class(physics, part, platform) for part in known])
    samples = Samples(
        np.concatenate([features(part) for part in known]),
        np.log(table[:, :, 0]),
        table[:, :, 1],
        int(platform.class_of[np.argmax(platform.is_cpu)]),
    )
    fitted = fit_durations(samples, seed, trees=trees)
    model = DurationModel.of([fitted], np.ones(len(platform.classes)))
    truth = np.concatenate([np.log(_by_class(physics, part, platform)[:, :, 0]) for part in unseen])
    errors = np.concatenate([np.log(model.table(part)[:, :, 0]) for part in unseen]) - truth
    metrics = {
        "samples": len(samples),
        "test_rms_log_error": float(np.sqrt(np.mean(errors**2))),
        "test_r2": float(1.0 - np.sum(errors**2) / np.sum((truth - truth.mean(axis=0)) ** 2)),
    }
    save_duration_model(
        Pretrained(fitted, class_names(platform)),
        path,
        training_data_sha256=data_digest(samples.features, samples.log_seconds),
        metrics=metrics,
    )
    return metrics


def _by_class(physics: Physics, tasks: Workload, platform: Platform) -> Floats:
    """Return seconds of shape (tasks, classes of device, 2), whatever columns the physics has."""
    _, first = np.unique(platform.class_of, return_index=True)
    table: Floats = physics.times(tasks, platform)[:, physics.columns(platform)[first]]
    return table
