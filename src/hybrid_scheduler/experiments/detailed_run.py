"""One run in full, with what the learners believed: the material of figures and reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..cluster import RunResult
from ..core import Floats, Online
from ..engine import Comparison
from ..learning.duration.online_duration_model import ModelVersion
from ..schedulers import create
from .evaluation import PredictionRecorder
from .single_thread import one_thread
from .spec import ExperimentSpec


@dataclass(frozen=True)
class DetailedRun:
    """The comparison; per scheduler the expected times (NaN: none), model versions and feature importances."""

    comparison: Comparison
    predicted: dict[str, Floats] = field(default_factory=dict)
    versions: dict[str, list[ModelVersion]] = field(default_factory=dict)
    importances: dict[str, dict[str, float]] = field(default_factory=dict)


def run_detailed(
    spec: ExperimentSpec, seed: int, progress: Callable[[str, int], None] | None = None
) -> DetailedRun:
    """The same outcomes as `spec.run(seed)`: whoever watches does not disturb."""
    machine, workload = spec.on_seed(seed), spec.workload(seed)
    results: dict[str, RunResult] = {}
    predicted: dict[str, Floats] = {}
    versions: dict[str, list[ModelVersion]] = {}
    importances: dict[str, dict[str, float]] = {}
    with one_thread(spec.schedulers):
        for name in spec.schedulers:
            scheduler = create(name)
            recorder = PredictionRecorder(scheduler) if isinstance(scheduler, Online) and scheduler.learns else None
            report = (lambda done, name=name: progress(name, done)) if progress else None
            results[name] = machine.run(workload, recorder or scheduler, seed=seed, progress=report)
            if recorder:
                predicted[name] = recorder.predictions(workload)
                versions[name] = list(getattr(scheduler, "versions", []))
                importance = getattr(scheduler, "feature_importance", lambda: None)()
                if importance:
                    importances[name] = importance
    comparison = Comparison.of(workload, machine, results)
    return DetailedRun(comparison, predicted, versions, importances)
