"""Hybrid ML scheduler: a model learns durations, and a rule places tasks by them.

Assumes that durations depend on a task's size, intensity, memory and kind in a way that finished tasks reveal, and
that backlogs are exact. It never sees the physics. With feedback `bandit` only executed parts are known, as on real
hardware; with `oracle` the simulation reports each finished task's duration on every class of device.
Rule: the placement with the least latency by predicted durations, weighted by the objective, plus the prices on
device time of `price_index`.

Durations are learned by a Bayesian regression, from the first task on and on any machine; see
`learning/duration/hierarchical_learner.py`. A guard uses the fallback rule while its mean cost is lower.

``durations="forest"`` is the method of the original publication. It is `warming` until it has learned
enough, and acts as greedy does: fraction = intensity, on the accelerator that is free earliest. It also falls back
to that rule while it is significantly worse, see `fallback_guard.py`. Its target `fraction` predicts the share
that is best for the isolated task; the accelerator with the least weighted time and energy runs it. That ignores
the CPU's queue and saturates at a third of capacity.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from ..compiled import PRICE_COEFFICIENTS, device_table, price_state
from ..compiled.late_binding import BOOST, DEFERRED, check_order
from ..core import (
    Decision,
    Explanation,
    Floats,
    InvalidInputError,
    Online,
    Outcome,
    Prediction,
    Scheduler,
    Setting,
    Task,
    UnknownNameError,
    View,
)
from ..learning.duration.drift import DETECTORS
from ..learning.duration.duration_files import DurationSnapshot, load_prior, measured_prior
from ..learning.duration.features import FEATURE_NAMES
from ..learning.duration.fitting import Pretrained, observed, tasks_as_workload
from ..learning.duration.forest_placement import (
    CANDIDATES_SIZE,
    EARLIEST,
    FRACTION,
    GREEDY,
    PRICED,
    WEIGHT,
    FractionForest,
    compiled_choice,
    compiled_greedy_choice,
)
from ..learning.duration.hierarchical_learner import HierarchicalLearner
from ..learning.duration.late_binding_learner import LateLearner
from ..learning.duration.learner_state import MEASURED_FIT, MEASURED_LIMITS
from ..learning.duration.online_duration_model import (
    LearningEvent,
    ModelVersion,
    OnlineDurationModel,
    append_bounded,
    newest_number,
)
from ..learning.fallback_guard import FallbackGuard
from ..learning.model_files import DEFAULT_DURATION_MODEL, ModelFileError, load_duration_model
from ..physics import objective_scales
from .registry import Look, register

_TARGETS = ("times", "fraction")
_DURATIONS = ("forest", "hierarchical")
_BINDINGS = ("early", "late")
#: Number of tasks whose predicted durations give the units of the objective.
_SCALE_TASKS = 1000
#: Limit on tasks that were placed but not yet observed; the oldest are dropped.
MAX_PENDING = 100_000
_IMPORTANCE_TASKS = 256
#: Endings of files with a regression: saved ones, and a snapshot before the newest.
_REGRESSION_SUFFIXES = (".safetensors", ".previous")


def _make(binding: str = "early", **options: Any) -> Scheduler:
    """Return the scheduler that decides at arrival, or the one with a queue: they have different protocols."""
    return LateHybridML(**options) if binding == "late" else HybridML(binding=binding, **options)


@register(
    "hybrid_ml", label="Hybrid ML", look=Look("#22D3EE", "#157A8B", "●", "solid"), published=True, maker=_make
)
class HybridML(Online):
    """Model that learns durations from outcomes; tasks go where they finish first at current device prices.

    Parameters
    ----------
    target
        ``"times"`` (predict durations) or ``"fraction"`` (predict the isolated optimal share, as published).
    feedback
        ``"bandit"`` (only what was executed) or, for the forest, ``"oracle"`` (durations on every class of device).
    prices
        Whether device time has prices, as in `price_index`.
    learn
        Whether the model learns during the run.
    retrain_interval
        Finished tasks between two updates of the forest; finished parts between two versions of the regression,
        which learns from each of them.
    drift
        Name of the forest's change detector. The regression has a cumulative sum for each class of device.
    model
        ``"default"`` for the model that ships with the package, None for an untrained one, or the path of a model
        of durations: from `save_model`, `OfflineTrainer`, or ``hybrid-scheduler train``.
    durations
        ``"hierarchical"`` (the regression) or ``"forest"``. By default the regression; the forest for the target
        ``"fraction"`` and for a path that does not end in ``.safetensors``. The regression learns from the
        predictions of such a model if both are given.
    guard
        Whether a simpler rule decides while its cost is lower.
    measured
        Whether tasks are kernels that are measured on a real machine; an executor sets it. Outcomes of about the
        same size then correct the regression, robustly to outliers, and it explores devices more during the first
        tasks of a kind. The forest ignores it.
    binding
        ``"early"`` (a task is placed when it arrives). In a specification also ``"late"``: `LateHybridML`, where
        tasks wait in one queue and are placed when they start, as in `late_binding`; for the regression.
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

    duration_model_: OnlineDurationModel | HierarchicalLearner
    #: Whether learning costs little more than deciding: true of the regression.
    learns_quickly = True

    def __init__(
        self,
        target: str = "times",
        feedback: str = "bandit",
        prices: bool = True,
        learn: bool = True,
        retrain_interval: int = 50,
        drift: str = "cusum",
        model: str | Path | None = "default",
        durations: str | None = None,
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
        if target not in _TARGETS:
            raise UnknownNameError("target", target, _TARGETS)
        if not (model is None or isinstance(model, str | Path)):
            raise InvalidInputError("model", '"default", a path or None', model)
        if durations is None:
            durations = "forest" if target == "fraction" or not _may_be_regression(model) else "hierarchical"
        if durations not in _DURATIONS:
            raise UnknownNameError("durations", durations, _DURATIONS)
        if durations == "hierarchical":
            self._refuse_forest_options(target, feedback, drift)
        self.durations, self.guard, self.measured = durations, guard, measured
        self.target, self.feedback, self.prices, self.learn = target, feedback, prices, learn
        self.retrain_interval, self.drift, self.model = retrain_interval, drift, model
        OnlineDurationModel(
            feedback, refresh=retrain_interval, drift=drift
        )  # raises now instead of at the first run

    @staticmethod
    def _refuse_forest_options(target: str, feedback: str, drift: str) -> None:
        for name, allowed, value, known in (
            ("target", "times", target, _TARGETS),
            ("feedback", "bandit", feedback, ("oracle",)),
            ("drift", "cusum", drift, DETECTORS),
        ):
            if value != allowed and value in known:
                raise InvalidInputError(
                    name, f"{allowed!r} with durations=hierarchical", value, hint="durations=forest supports it"
                )

    # ---------------------------------------------------------------- state

    @property
    def compiled_loop(self) -> HierarchicalLearner | None:
        """Learner that can run whole workloads in compiled code; None if tasks must go through `decide`."""
        own = type(self) is HybridML and self.durations == "hierarchical"
        return self.hierarchical_.compiled_loop if own else None

    @property
    def wants_labels(self) -> bool:
        """Whether outcomes must carry the durations on every class of device."""
        return self.durations == "forest" and self.feedback == "oracle" and self.learn

    @property
    def learns(self) -> bool:
        """Whether outcomes must be passed to `observe`."""
        return self.learn

    @property
    def learns_from_parts(self) -> bool:
        """Whether parts that end before their task must be passed to `observe_part`: for the regression."""
        return self.durations == "hierarchical" and self.learn

    @property
    def state(self) -> str:
        """`warming` (too few outcomes), `fallback` (a simpler rule decides) or `learned` (the model decides)."""
        if self.durations == "hierarchical":
            learner = self.hierarchical_
            return "warming" if not learner.seen else "fallback" if learner.fallen_back else "learned"
        if not self.forest_.ready:
            return "warming"
        return "fallback" if self.guard_.active else "learned"

    @property
    def versions(self) -> list[ModelVersion]:
        """Versions of the duration model so far."""
        return self.duration_model_.versions

    # ---------------------------------------------------------------- a run

    def start(self, setting: Setting) -> None:
        """Load the model and reset all state; see `Scheduler.start`."""
        given = None if _may_be_regression(self.model) else load_duration_model(str(self.model))
        super().start(setting)
        platform = setting.platform
        #: Events since the start; readers may clear the list.
        self.events_: list[LearningEvent] = []
        if self.durations == "hierarchical":
            self.duration_model_ = self.hierarchical_ = self._started_regression(setting, given)
            return
        self.guard_ = FallbackGuard()
        self.fractions_ = FractionForest(platform)
        self.duration_model_ = self.forest_ = self._started_forest(setting, given)
        self._devices = device_table(platform, platform.class_of)
        self._scales_at, self._recent = 1, deque[tuple[float, float, float]](maxlen=_SCALE_TASKS)
        mode = FRACTION if self.target == "fraction" else PRICED if self.prices else EARLIEST
        counts = [platform.is_cpu.sum(), len(platform.accelerators)]
        classes = len(platform.classes)
        objective = np.zeros(1 + classes)
        objective[0] = 1.0
        self._params = np.concatenate([[mode], counts, PRICE_COEFFICIENTS, objective]).astype(np.float64)
        self._price_state = price_state(classes)
        self._answer, self._row, self._shares = np.zeros((4, classes)), np.zeros((classes, 2)), np.zeros(classes)
        self._choose, self._greedily = compiled_choice(), compiled_greedy_choice()
        self.decided: dict[int, tuple[Task, Floats]] = {}

    def _started_regression(self, setting: Setting, given: Pretrained | None) -> HierarchicalLearner:
        prior, refused = None, None
        if self.model == "default":
            try:
                prior = measured_prior(setting.platform) if self.measured else load_prior()
            except ModelFileError as error:
                refused = str(error)
        learner = HierarchicalLearner(
            self.prices, MEASURED_LIMITS if self.measured else None, guard=self.guard, prior=prior,
            refresh=self.retrain_interval, learn=self.learn, local=MEASURED_FIT if self.measured else None,
        )  # fmt: skip
        learner.start(setting)
        self.events_ = learner.events_
        if refused is not None:
            self.events_.append(LearningEvent("model_refused", 0, refused, 0))
        if given is not None:
            learner.start_from(given)
        elif self.model not in ("default", None):
            learner.load(Path(str(self.model)))
        return learner

    def _started_forest(self, setting: Setting, given: Pretrained | None) -> OnlineDurationModel:
        shipped = self.model == "default"
        pretrained = (DEFAULT_DURATION_MODEL if DEFAULT_DURATION_MODEL.exists() else None) if shipped else given
        times = OnlineDurationModel(
            self.feedback, refresh=self.retrain_interval, drift=self.drift, pretrained=pretrained
        )
        try:
            times.start(setting.platform, setting.seed)
        except ModelFileError as error:
            if not shipped:
                raise
            times.pretrained = None
            times.start(setting.platform, setting.seed)
            self.events_.append(LearningEvent("model_refused", 0, str(error), 0))
        return times

    def decide(self, task: Task, view: View) -> Decision:
        """Return the placement of a task; see `Online.decide`."""
        if self.durations == "hierarchical":
            return self.hierarchical_.decide(task, view)
        candidates, model = np.empty(CANDIDATES_SIZE), self.forest_.model_
        now, starts, devices = view.now, view.placement_times, self._devices
        intensity, memory = task.compute_intensity, task.memory_required
        if model is not None:
            if not self.setting.objective.is_latency_only:
                self._update_scales(task)
            if self.target == "fraction":
                self._shares = self.fractions_.predict(task, self.forest_)
            self._choose(
                now, task.size, intensity, memory, task.divisible, *model.arrays, view.free_at, starts, devices,
                self._params, self._price_state, self._shares, self._answer, self._row, candidates,
            )  # fmt: skip
            chosen = GREEDY if self.guard_.active else 0
        else:
            self._greedily(now, intensity, memory, starts, devices, candidates)
            candidates[0] = -1.0  # no learned placement to compare with
            chosen = GREEDY
        if self.learn:
            self.decided[task.task_id] = (task, candidates)
            if len(self.decided) > MAX_PENDING:  # failed tasks are never observed
                del self.decided[next(iter(self.decided))]
        return Decision(int(candidates[chosen]), float(candidates[chosen + 1]))

    @property
    def confidence(self) -> Floats:
        """Standard deviation of the last task's predicted log seconds, per class of device."""
        return self._answer[1].copy() if self.durations == "forest" else self.hierarchical_.deviation

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that was decided last; None before there is a model."""
        if self.durations == "hierarchical":
            return self.hierarchical_.prediction()
        return None if self.forest_.model_ is None else Prediction(self._row, self._answer[1])

    def explanation(self) -> Explanation | None:
        """Return the values by which the last decision was made; None before there is a model."""
        if self.durations == "hierarchical":
            return self.hierarchical_.explanation()
        known = self.prediction()
        if known is None:
            return None
        rule = "fraction" if self.target == "fraction" else "price_index" if self.prices else "earliest_finish"
        times = Prediction(known.times.copy(), known.deviation.copy())
        return Explanation(times, "greedy" if self.guard_.active else rule)

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were: typical relative error of all, and of each task kind."""
        return None if self.durations == "forest" else self.hierarchical_.accuracy()

    def snapshot(self) -> DurationSnapshot | None:
        """Return a copy of what was learned, with a method `save_model(path)`; None for the forest."""
        return self.hierarchical_.snapshot() if self.durations == "hierarchical" else None

    def save_model(self, path: str | Path) -> None:
        """Write what was learned to a .safetensors file, from which `model=PATH` continues.

        Raises
        ------
        InvalidInputError
            If durations are learned by a forest, or nothing was started yet.
        ModelFileError
            If the file cannot be written.
        """
        if self.durations != "hierarchical":
            raise InvalidInputError("durations", "hierarchical: a forest cannot be saved", self.durations)
        learned = self.snapshot() if hasattr(self, "duration_model_") else None
        if learned is None:
            raise InvalidInputError("scheduler", "started", "not started")
        learned.save_model(path)

    def _update_scales(self, task: Task) -> None:
        """Update the objective's units from the predicted durations of recent tasks, every 64 tasks."""
        self._recent.append((task.size, task.compute_intensity, task.memory_required))
        self._scales_at -= 1
        if self._scales_at > 0:
            return
        self._scales_at = min(len(self._recent), 64)
        platform = self.setting.platform
        table = self.forest_.table(tasks_as_workload(np.array(self._recent)))
        scales = objective_scales(table, platform.class_of, platform, self.setting.dollars)
        weight, per_device = self.setting.objective.prices(platform.column("watts"), self.setting.dollars, scales)
        self._params[WEIGHT] = weight
        self._params[WEIGHT + 1 + platform.class_of] = per_device

    def feature_importance(self) -> dict[str, float] | None:
        """Return the permutation importance of each task property as shares; None before anything was learned.

        It permutes sizes, intensities, memory or kinds among the newest tasks and measures how far the predicted
        log seconds change.
        """
        names = list(FEATURE_NAMES[:3])
        if self.durations == "hierarchical":
            columns = self.hierarchical_.recent_tasks(_IMPORTANCE_TASKS)
            names.append("kind")

            def predict(columns: list[Floats]) -> Floats:
                return self.hierarchical_.predict_columns(columns)[:, :, 0]
        else:
            model, tasks = self.forest_.model_, self.forest_.recent_tasks(_IMPORTANCE_TASKS)
            if model is None or tasks is None:
                return None
            columns = [tasks.size, tasks.compute_intensity, tasks.memory_required]

            def predict(columns: list[Floats]) -> Floats:
                return np.log(model.table(tasks_as_workload(np.column_stack(columns)))[:, :, 0])

        if columns is None:
            return None
        predicted = predict(columns)
        changes = []
        for which in range(len(columns)):
            swapped = [np.roll(c, len(c) // 2) if i == which else c for i, c in enumerate(columns)]
            changes.append(float(np.mean((predict(swapped) - predicted) ** 2)))
        total = sum(changes)
        return dict(zip(names, (c / total for c in changes), strict=True)) if total > 0 else None

    # ---------------------------------------------------------------- learning

    def on_retrained(self) -> None:
        """Update derived models after another process has retrained the durations."""
        if self.target == "fraction":
            self.fractions_.refit(self.forest_)

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        if self.durations == "hierarchical":
            self.hierarchical_.forget(task_id)
        else:
            self.decided.pop(task_id, None)

    def learn_from(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that an earlier process decided."""
        if self.durations == "forest":
            self.forest_.learn(task, outcome)
        else:
            self.hierarchical_.learn_from(task, outcome)

    def observe_part(self, part: Outcome) -> None:
        """Learn from a part that ended before the rest of its task; see `Scheduler.observe_part`."""
        if self.durations == "hierarchical":
            self.hierarchical_.observe_part(part)

    def observe(self, outcome: Outcome) -> None:
        """Learn from a finished task."""
        if self.durations == "hierarchical":
            self.hierarchical_.learn_decided(outcome)
            return
        if not self.learn:
            return
        decided = self.decided.pop(outcome.task_id, None)
        if decided is None:
            return
        task, candidates = decided
        if candidates[0] >= 0:
            self._compare(task, candidates, outcome)
        events = self.forest_.learn(task, outcome)
        if self.target == "fraction":
            for event in events:
                if event.kind == "retrained":
                    self.fractions_.refit(self.forest_)
        append_bounded(self.events_, *events)

    def _compare(self, task: Task, candidates: Floats, outcome: Outcome) -> None:
        """Give the guard the costs of the learned and the greedy placement at the realised durations."""
        logs, _ = observed(outcome, self.setting.platform, labels=self.feedback == "oracle")
        if np.isnan(logs).any():
            logs = np.where(np.isnan(logs), np.log(self.forest_.row(task)[:, 0]), logs)
        seconds = np.exp(logs)
        costs = self._cost(candidates[:GREEDY], seconds), self._cost(candidates[GREEDY:], seconds)
        if self.guard and self.guard_.update(*costs):
            if self.guard_.active:
                kind, message = "fallback", "greedy decides until the learned policy's cost is no longer higher"
            else:
                kind, message = "recovered", "the learned policy decides again"
            event = LearningEvent(kind, outcome.task_id, message, newest_number(self.versions))
            append_bounded(self.events_, event)

    def _cost(self, placement: Floats, seconds: Floats) -> float:
        device, share, wait, cpu_wait = placement.tolist()
        platform, prices = self.setting.platform, self._params[WEIGHT + 1 :]
        column = platform.class_of[int(device)]
        host = platform.class_of[platform.cpu_of[int(device)]]
        if platform.is_cpu[int(device)]:
            share = 0.0
        part, rest = share * seconds[column], (1.0 - share) * seconds[host]
        latency = max(wait + part if share > 0 else 0.0, cpu_wait + rest if share < 1 else 0.0)
        return float(self._params[WEIGHT] * latency + prices[column] * part + prices[host] * rest)


def _may_be_regression(model: str | Path | None) -> bool:
    return model in ("default", None) or Path(str(model)).suffix in _REGRESSION_SUFFIXES


class LateHybridML(LateLearner):
    """`hybrid_ml` with late binding: tasks wait in one queue until they start.

    Parameters
    ----------
    boost
        How far small tasks go before large ones.
    deferred
        Largest share of tasks that may be deferred; see `LateBinding`.
    options
        Parameters of `HybridML`; durations must be those of the regression.
    """

    def __init__(self, boost: float = BOOST, deferred: float = DEFERRED, **options: Any) -> None:
        model = HybridML(**options)
        if model.durations != "hierarchical":
            raise InvalidInputError("binding", "early with durations=forest", "late")
        check_order(boost, deferred)
        super().__init__(HierarchicalLearner(), boost, deferred)
        self.model = model

    def started_learner(self, setting: Setting) -> HierarchicalLearner:
        """Load the model and start its learner."""
        self.model.start(setting)
        return self.model.hierarchical_

    @property
    def state(self) -> str:
        """`warming` (no outcome yet) or `learned`."""
        return self.model.state

    @property
    def versions(self) -> list[ModelVersion]:
        """Versions of the duration model so far."""
        return self.model.versions

    @property
    def events_(self) -> list[LearningEvent]:
        """Events since the start; readers may clear the list."""
        return self.model.events_

    @property
    def duration_model_(self) -> HierarchicalLearner:
        """The duration model."""
        return self.model.hierarchical_

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were; see `HybridML.accuracy`."""
        return self.model.accuracy()

    def feature_importance(self) -> dict[str, float] | None:
        """Return the permutation importance of each task property; see `HybridML.feature_importance`."""
        return self.model.feature_importance()

    def learn_from(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that an earlier process decided."""
        self.model.learn_from(task, outcome)

    def snapshot(self) -> DurationSnapshot | None:
        """Return a copy of what was learned, with a method `save_model(path)`."""
        return self.model.snapshot()

    def save_model(self, path: str | Path) -> None:
        """Write what was learned to a .safetensors file; see `HybridML.save_model`."""
        self.model.save_model(path)
