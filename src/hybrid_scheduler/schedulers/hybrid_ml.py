"""Hybrid ML scheduler: a model learns durations, and a rule places tasks by them.

Assumes that durations depend on a task's size, intensity, memory and kind in a way that finished tasks reveal, and
that backlogs are exact. It never sees the physics. Only executed parts are known, as on real hardware.
Rule: the placement with the least latency by predicted durations, weighted by the objective, plus the prices on
device time of `price_index`.

The published scheduler is `random_forest`. Here a Bayesian regression learns durations instead of shares, from the
first task on and on any machine (`learning/duration/hierarchical_learner.py`), and placements follow the queues: a
share that is best for a task alone saturates the CPU at a third of capacity. A guard uses the fallback rule while
its mean cost is lower.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..compiled.late_binding import BOOST, DEFERRED, check_order
from ..core import (
    Floats,
    InvalidInputError,
    Learner,
    LearningEvent,
    ModelVersion,
    Outcome,
    Scheduler,
    Setting,
    Task,
    UnknownNameError,
)
from ..core.learner import taken
from ..learning.duration.duration_files import DurationSnapshot, load_snapshot
from ..learning.duration.duration_regression import DurationRegression
from ..learning.duration.features import FEATURE_NAMES
from ..learning.duration.hierarchical_learner import HierarchicalLearner
from ..learning.duration.late_binding_learner import LateLearner
from ..learning.duration.pretraining import start_from
from ..learning.predictors import load_durations
from .registry import Look, register

_BINDINGS = ("early", "late")
_IMPORTANCE_TASKS = 256
#: Endings of files with a regression: saved ones, and a snapshot before the newest.
_REGRESSION_SUFFIXES = (".safetensors", ".previous")
#: Former options with the value that is left of them, and options that `random_forest` has too.
_FORMER = {"target": "times", "durations": "hierarchical", "feedback": "bandit", "drift": "cusum"}
_SHARED_WITH_FOREST = ("model", "learn", "retrain_interval")


def _make(binding: str = "early", **options: Any) -> Scheduler:
    """Return the scheduler that decides at arrival, or the one with a queue: they have different protocols."""
    return LateHybridML(**options) if binding == "late" else HybridML(binding=binding, **options)


def _current(arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of the scheduler that former options choose now."""
    if arguments.get("durations") == "forest" or arguments.get("target") == "fraction":
        kept = {name: arguments[name] for name in _SHARED_WITH_FOREST if name in arguments}
        if kept.get("model") == "default":
            del kept["model"]
        return "random_forest", kept
    for name, left in _FORMER.items():
        if arguments.get(name, left) not in (left, None):
            raise InvalidInputError(
                name, f"left out, or {left}", arguments[name], hint="random_forest is the published scheduler"
            )
    return "hybrid_ml", {name: value for name, value in arguments.items() if name not in _FORMER}


@register(
    "hybrid_ml",
    label="Hybrid ML",
    look=Look("#22D3EE", "#157A8B", "●", "solid"),
    published=True,
    maker=_make,
    former=(tuple(_FORMER), _current),
)
class HybridML(HierarchicalLearner, Learner):
    """Model that learns durations from outcomes; tasks go where they finish first at current device prices.

    Parameters
    ----------
    model
        ``"default"`` for the prior that ships with the package, None for a wider one, or a path: of `save_model`,
        with which everything learned goes on, or of `OfflineTrainer`, from whose predictions it learns first.
    prices
        Whether device time has prices, as in `price_index`.
    learn
        Whether the model learns during the run.
    retrain_interval
        Finished parts between two versions of the model, which learns from each of them.
    guard
        Whether a simpler rule decides while its cost is lower.
    measured
        Whether tasks are kernels that are measured on a real machine; an executor sets it. Outcomes of about the
        same size then correct the regression, robustly to outliers, and it explores devices more during the first
        tasks of a kind.
    binding
        ``"early"`` (a task is placed when it arrives). In a specification also ``"late"``: `LateHybridML`, where
        tasks wait in one queue and are placed when they start, as in `late_binding`.
    boost, deferred
        With late binding, how far small tasks go before large ones, and the largest share of tasks that may be
        deferred; see `LateBinding`.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, HybridML, generate, scenario_named
    >>> scheduler = HybridML()
    >>> result = Cluster().run(generate(scenario_named("mixed"), 50, seed=1), scheduler)
    >>> len(result.outcomes), scheduler.state
    (50, 'learned')
    """

    #: Whether learning costs little more than deciding.
    learns_quickly = True

    def __init__(
        self,
        model: str | Path | None = "default",
        prices: bool = True,
        learn: bool = True,
        retrain_interval: int = 50,
        guard: bool = True,
        measured: bool = False,
        binding: str = "early",
        boost: float = BOOST,
        deferred: float = DEFERRED,
    ) -> None:
        if binding not in _BINDINGS:
            raise UnknownNameError("binding", binding, _BINDINGS)
        if binding == "late":
            raise InvalidInputError("binding", "early", binding, hint='create("hybrid_ml(binding=late)")')
        if not (model is None or isinstance(model, str | Path)):
            raise InvalidInputError("model", '"default", a path or None', model)
        if retrain_interval < 1:
            raise InvalidInputError("retrain_interval", "at least 1", retrain_interval)
        super().__init__(prices, guard=guard, refresh=retrain_interval, learn=learn)
        self.model = model
        self.measured = measured

    @property
    def compiled_loop(self) -> HierarchicalLearner | None:
        """The scheduler itself, if its compiled loop can run whole workloads; see `CompiledLoop`."""
        return self if type(self) is HybridML and self.loop_is_possible else None

    @property
    def learns(self) -> bool:
        """Whether outcomes must be passed to `observe`."""
        return self.learn

    @property
    def learns_from_parts(self) -> bool:
        """Whether parts that end before their task must be passed to `observe_part`."""
        return self.learn

    @property
    def state(self) -> str:
        """`warming` (too few outcomes), `fallback` (a simpler rule decides) or `learned` (the model decides)."""
        return "warming" if not self.duration_model_.seen else "fallback" if self.rule_.fallen_back else "learned"

    @property
    def versions(self) -> list[ModelVersion]:
        """Versions of the duration model so far."""
        return self.duration_model_.versions

    def start(self, setting: Setting) -> None:
        """Load the model and reset all state; see `Scheduler.start`."""
        regression = self.model in ("default", None) or Path(str(self.model)).suffix in _REGRESSION_SUFFIXES
        trained = None if regression else load_durations(str(self.model))
        self.start_informed(setting, informed=self.model == "default", measured=self.measured)
        if trained is not None:
            start_from(self.duration_model_, trained)
        elif self.model not in ("default", None):
            path = Path(str(self.model))
            self.rule_.restore(load_snapshot(path), path)

    @property
    def confidence(self) -> Floats:
        """Standard deviation of the last task's predicted log seconds, per class of device."""
        return self.rule_.placement.deviation.copy()

    def take_events(self) -> list[LearningEvent]:
        """Return the events since the last call; see `Learner.take_events`."""
        return taken(self.duration_model_.events)

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were: typical relative error of all, and of each task kind."""
        return self.duration_model_.accuracy()

    def snapshot(self) -> DurationSnapshot:
        """Return a copy of what was learned, with a method `save_model(path)`."""
        return self.rule_.snapshot()

    def save_model(self, path: str | Path) -> None:
        """Write what was learned to a .safetensors file, from which `model=PATH` continues.

        Raises
        ------
        InvalidInputError
            If nothing was started yet.
        ModelFileError
            If the file cannot be written.
        """
        if not hasattr(self, "duration_model_"):
            raise InvalidInputError("scheduler", "started", "not started")
        self.snapshot().save_model(path)

    def feature_importance(self) -> dict[str, float] | None:
        """Return the permutation importance of each task property as shares; None before anything was learned.

        It permutes sizes, intensities, memory or kinds among the newest tasks and measures how far the predicted
        log seconds change.
        """
        columns = self.rule_.recent_tasks(_IMPORTANCE_TASKS)
        if columns is None:
            return None
        predict = self.duration_model_.predict_columns
        predicted = predict(*columns)[:, :, 0]
        changes = []
        for which in range(len(columns)):
            swapped = [np.roll(c, len(c) // 2) if i == which else c for i, c in enumerate(columns)]
            changes.append(float(np.mean((predict(*swapped)[:, :, 0] - predicted) ** 2)))
        total = sum(changes)
        names = (*FEATURE_NAMES[:3], "kind")
        return dict(zip(names, (change / total for change in changes), strict=True)) if total > 0 else None


class LateHybridML(LateLearner[HybridML], Learner):
    """`hybrid_ml` with late binding: tasks wait in one queue until they start.

    Parameters
    ----------
    boost
        How far small tasks go before large ones.
    deferred
        Largest share of tasks that may be deferred; see `LateBinding`.
    options
        Parameters of `HybridML`.
    """

    def __init__(self, boost: float = BOOST, deferred: float = DEFERRED, **options: Any) -> None:
        check_order(boost, deferred)
        super().__init__(HybridML(**options), boost, deferred)

    @property
    def duration_model_(self) -> DurationRegression:
        """The duration model."""
        return self.learner.duration_model_

    @property
    def state(self) -> str:
        """`warming` (no outcome yet) or `learned`; see `HybridML.state`."""
        return self.learner.state

    @property
    def versions(self) -> list[ModelVersion]:
        """Versions of the duration model so far."""
        return self.learner.versions

    def take_events(self) -> list[LearningEvent]:
        """Return the events since the last call; see `Learner.take_events`."""
        return self.learner.take_events()

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were; see `HybridML.accuracy`."""
        return self.learner.accuracy()

    def feature_importance(self) -> dict[str, float] | None:
        """Return the permutation importance of each task property; see `HybridML.feature_importance`."""
        return self.learner.feature_importance()

    def learn_from(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that an earlier process decided."""
        self.learner.learn_from(task, outcome)

    def snapshot(self) -> DurationSnapshot:
        """Return a copy of what was learned, with a method `save_model(path)`."""
        return self.learner.snapshot()

    def save_model(self, path: str | Path) -> None:
        """Write what was learned to a .safetensors file; see `HybridML.save_model`."""
        self.learner.save_model(path)
