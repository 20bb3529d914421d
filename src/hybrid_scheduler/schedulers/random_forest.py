"""Random forest scheduler, as published: a forest predicts the share of a task that a GPU should get.

Assumes that the best share of a task depends on the task alone. It ignores the CPU's queue, so the CPU saturates at
about a third of capacity.

    features  size, intensity, memory, memory per size, intensity per memory
    label     the oracle's share: of 0, 0.1, ..., 1 the one with which the task alone finishes first
    model     StandardScaler, then RandomForestRegressor of 100 trees
    learning  from the newest 1,000 labels, fitted again every 50 finished tasks
    rule      the predicted share, on the GPU with the least 0.5 · seconds + 0.5 · joules

Seconds are the GPU's backlog and the task's part, which counts as long as that of the mean finished task on this
class of GPU. On equal GPUs this is the one with the shortest queue. Labels come from the simulator: they need the
seconds of a finished task on every class of device, which real hardware does not tell.

The documents train a model before the run. Without one, the shares until the first fit are those of the published
heuristic: share = intensity. `frozen_forest` is the same forest, trained once.

References
----------
Breiman, Random forests, Machine Learning 45, 2001.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core import (
    Decision,
    Floats,
    InvalidInputError,
    Learner,
    LearningEvent,
    ModelVersion,
    Online,
    Outcome,
    Platform,
    Setting,
    Task,
    View,
)
from ..core.learner import taken
from ..learning.duration.features import features_of
from ..learning.duration.flat_forest import FlatForest
from ..learning.duration.versions import append_bounded, newest_number
from ..learning.model_files import ModelFileError
from .registry import Look, register

FEATURES = ("size", "intensity", "memory", "memory_per_size", "intensity_per_memory")
#: Shares that the oracle tries for a label.
_SHARES = np.linspace(0.0, 1.0, 11)
WINDOW = 1000
TREES = 100
RETRAIN_INTERVAL = 50
#: Weight of joules when a GPU is chosen; seconds have the rest.
ENERGY_WEIGHT = 0.5
#: Limit on tasks that were placed but not yet observed; the oldest are dropped.
_MAX_OPEN = 100_000
#: Fewest predictions with known labels for R².
_MIN_FOR_R2 = 30


def features(task: Task) -> list[float]:
    """Return the five features of a task; one without data counts as one of 1 MB."""
    size = task.size
    intensity = task.compute_intensity
    memory = task.memory_required
    return [size, intensity, memory, memory / size, intensity / max(memory, 1.0)]


def best_share(task: Task, seconds: Floats, platform: Platform) -> float:
    """Return the label of a finished task: the share with which it would finish first if it were alone.

    Parameters
    ----------
    task
        The task; an indivisible one has the shares 0 and 1.
    seconds
        (whole, fixed) seconds on each class of device: `Outcome.labels`.
    platform
        The devices.
    """
    shares = _SHARES if task.divisible else _SHARES[[0, -1]]
    host = seconds[platform.class_of[np.argmax(platform.is_cpu)]]
    rest = np.where(shares < 1.0, host[1] + (1.0 - shares) * host[0], 0.0)
    best = 0.0
    least = float(rest[0])
    for column in np.unique(platform.class_of[platform.accelerators]).tolist():
        part = np.where(shares > 0.0, seconds[column, 1] + shares * seconds[column, 0], 0.0)
        time = np.maximum(rest, part)
        if time.min() < least:
            best = float(shares[time.argmin()])
            least = float(time.min())
    return best


# ------------------------------------------------------------------------------------------ model


@dataclass(frozen=True, slots=True)
class FittedForest:
    """A scaler and the trees that were fitted behind it."""

    mean: Floats
    scale: Floats
    trees: FlatForest
    #: Share of each feature in the reduction of variance.
    importance: Floats

    def predict(self, row: list[float]) -> float:
        """Return the share that the trees predict on average."""
        scaled = (np.array([row]) - self.mean) / self.scale
        return float(self.trees.predict(scaled)[0][0, 0])


@dataclass(frozen=True, slots=True)
class ForestFit:
    """A fit that is due; a live run does it in another process."""

    rows: Floats
    labels: Floats
    seed: int
    trigger: str

    def fit(self) -> FittedForest:
        """Fit the scaler and the forest."""
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler().fit(self.rows)
        forest = RandomForestRegressor(n_estimators=TREES, random_state=self.seed)
        forest.fit(scaler.transform(self.rows), self.labels)
        trees = FlatForest.of(forest.estimators_, len(FEATURES))
        return FittedForest(scaler.mean_, scaler.scale_, trees, forest.feature_importances_)


class _ShareModel:
    """The newest labels, and the forest that was fitted to them.

    Parameters
    ----------
    seed
        Seed of the forests.
    refresh
        Finished tasks between two fits.
    frozen_after
        Number of labels from which it is fitted once and for all; None for a forest that is fitted again.
    """

    def __init__(self, seed: int, refresh: int, frozen_after: int | None = None) -> None:
        self.refresh = refresh
        self._seed = seed
        self._frozen_after = frozen_after
        self.forest: FittedForest | None = None
        self.versions: list[ModelVersion] = []
        #: Whether a due fit is done at once; a live run takes `pending_request` instead.
        self.synchronous = True
        self.pending_request: ForestFit | None = None
        self._rows: deque[list[float]] = deque(maxlen=WINDOW)
        self._labels: deque[float] = deque(maxlen=WINDOW)
        #: Predictions with their labels, for R².
        self._scores: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        self._seen = 0

    @property
    def frozen(self) -> bool:
        """Whether it does not learn any more."""
        return self._frozen_after is not None and self.forest is not None

    def learn(self, row: list[float], label: float, predicted: float | None, at_task: int) -> list[LearningEvent]:
        """Add a label, and fit again when due."""
        if self.frozen:
            return []
        self._rows.append(row)
        self._labels.append(label)
        if predicted is not None:
            self._scores.append((predicted, label))
        self._seen += 1
        if self._seen % (self._frozen_after or self.refresh):
            return []
        self.request_training("schedule")
        request = self.pending_request
        if request is None or not self.synchronous:
            return []
        self.pending_request = None
        return self.apply(request, request.fit(), at_task)

    def request_training(self, trigger: str = "request") -> bool:
        """Request a fit to the present window; False if there is nothing to learn from, or no fit is left."""
        if not self._rows or self.frozen:
            return False
        seed = (self._seed + newest_number(self.versions)) % 2**32
        self.pending_request = ForestFit(np.array(self._rows), np.array(self._labels), seed, trigger)
        return True

    def apply(self, request: ForestFit, fitted: FittedForest, at_task: int) -> list[LearningEvent]:
        """Use a fitted forest from task `at_task` on."""
        if self.frozen:
            return []
        self.forest = fitted
        version = newest_number(self.versions) + 1
        samples = len(request.labels)
        append_bounded(self.versions, ModelVersion(version, samples, self._r2(), request.trigger, at_task))
        return [LearningEvent("retrained", at_task, f"version {version} from {samples} labels", version)]

    def _r2(self) -> float | None:
        """Return R² of the predictions since the last fit, made before their labels were known."""
        predicted, labels = np.array(self._scores).reshape(-1, 2).T
        self._scores.clear()
        spread = float(np.sum((labels - labels.mean()) ** 2)) if len(labels) >= _MIN_FOR_R2 else 0.0
        return 1.0 - float(np.sum((labels - predicted) ** 2)) / spread if spread > 0.0 else None


# ------------------------------------------------------------------------------------------ schedulers


@register("random_forest", label="Random forest (as published)", look=Look("#B4D287", "#557A1F", "∴", "dash-dot"))
class RandomForest(Online, Learner):
    """Forest of the newest oracle labels, fitted every 50 tasks, that predicts a task's GPU share, as published.

    Parameters
    ----------
    model
        Model of `OfflineTrainer` (random forest, target ``times`` or ``fraction``) that decides until the first
        fit; None for the published heuristic, share = intensity.
    learn
        Whether it learns during the run.
    retrain_interval
        Finished tasks between two fits.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, create, generate, scenario_named
    >>> scheduler = create("random_forest")
    >>> result = Cluster().run(generate(scenario_named("mixed"), 120, seed=1), scheduler)
    >>> [version.samples for version in scheduler.versions]
    [50, 100]
    """

    #: Number of labels from which the forest is fitted once and for all.
    frozen_after: int | None = None

    def __init__(
        self, model: str | Path | None = None, learn: bool = True, retrain_interval: int = RETRAIN_INTERVAL
    ) -> None:
        if retrain_interval < 1:
            raise InvalidInputError("retrain_interval", "at least 1", retrain_interval)
        self.model = model
        self.learn = learn
        self.retrain_interval = retrain_interval

    @property
    def learns(self) -> bool:
        """Whether outcomes must be passed to `observe`."""
        return self.learn

    @property
    def wants_labels(self) -> bool:
        """Whether outcomes must carry the durations on every class of device: the oracle's labels need them."""
        return self.learn

    @property
    def state(self) -> str:
        """`warming` (no forest yet) or `learned`."""
        return "warming" if self._predict is None and self.duration_model_.forest is None else "learned"

    @property
    def versions(self) -> list[ModelVersion]:
        """Versions of the forest so far."""
        return self.duration_model_.versions

    def feature_importance(self) -> dict[str, float] | None:
        """Return the importances by feature; None before the first fit."""
        forest = self.duration_model_.forest
        return None if forest is None else dict(zip(FEATURES, forest.importance.tolist(), strict=True))

    def take_events(self) -> list[LearningEvent]:
        """Return the events since the last call; see `Learner.take_events`."""
        return taken(self.events_)

    def start(self, setting: Setting) -> None:
        """Load the model and reset all state; see `Scheduler.start`."""
        super().start(setting)
        platform = setting.platform
        #: The model that live runs retrain in the background; it predicts shares.
        self.duration_model_ = _ShareModel(setting.seed, self.retrain_interval, self.frozen_after)
        #: Events since the start; readers may clear the list.
        self.events_: list[LearningEvent] = []
        self._predict = None if self.model is None else _offline_model(Path(self.model))
        self._accelerators = platform.accelerators
        self._watts = platform.column("watts")
        #: Seconds of whole tasks by class of device: sum and number.
        self._seconds = np.zeros(len(platform.classes))
        self._observed = 0
        self._open: dict[int, tuple[Task, list[float], float | None]] = {}

    def decide(self, task: Task, view: View) -> Decision:
        """Return the predicted share on the GPU with the least weighted seconds and joules."""
        row = features(task)
        predicted = self._predicted_share(task, row)
        share = task.compute_intensity if predicted is None else min(max(predicted, 0.0), 1.0)
        if self.learn:
            self._open[task.task_id] = (task, row, predicted)
            if len(self._open) > _MAX_OPEN:  # failed tasks are never observed
                del self._open[next(iter(self._open))]
        if len(self._accelerators) == 0:
            return Decision(int(view.placement_times.argmin()), 0.0)
        return Decision(self._cheapest_accelerator(share, view), share)

    def _predicted_share(self, task: Task, row: list[float]) -> float | None:
        """Return the forest's share, or that of the model it started from; None before there is either."""
        if self.duration_model_.forest is not None:
            return self.duration_model_.forest.predict(row)
        return None if self._predict is None else self._predict(task)

    def _cheapest_accelerator(self, share: float, view: View) -> int:
        """Return the accelerator with the least weighted seconds and joules; the earliest free of equal ones."""
        own = self._accelerators
        part = share * self._seconds[view.platform.class_of[own]] / max(self._observed, 1)
        seconds = view.earliest_start[own] - view.now + part
        joules = self._watts[own] * part
        cost = (1.0 - ENERGY_WEIGHT) * seconds + ENERGY_WEIGHT * joules
        return int(own[np.lexsort((view.placement_times[own], cost))[0]])

    def observe(self, outcome: Outcome) -> None:
        """Add the label of a finished task."""
        decided = self._open.pop(outcome.task_id, None)
        if decided is not None:
            self._learn(*decided, outcome)

    def learn_from(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that an earlier process decided."""
        self._learn(task, features(task), None, outcome)

    def _learn(self, task: Task, row: list[float], predicted: float | None, outcome: Outcome) -> None:
        if outcome.labels is None:
            return
        label = best_share(task, outcome.labels, self.setting.platform)
        self._seconds += outcome.labels.sum(axis=1)
        self._observed += 1
        append_bounded(self.events_, *self.duration_model_.learn(row, label, predicted, task.task_id))

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        self._open.pop(task_id, None)


@register("frozen_forest", label="Forest trained once", look=Look("#E2E8F0", "#111827", "✶", "dotted"))
class FrozenForest(RandomForest):
    """Published forest that is trained once, from the first tasks of a run, and then never again.

    Parameters
    ----------
    tasks
        Finished tasks that it is trained from.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, create, generate, scenario_named
    >>> scheduler = create("frozen_forest(tasks=40)")
    >>> result = Cluster().run(generate(scenario_named("mixed"), 120, seed=1), scheduler)
    >>> [version.samples for version in scheduler.versions]
    [40]
    """

    def __init__(self, tasks: int = 200) -> None:
        if not 1 <= tasks <= WINDOW:
            raise InvalidInputError("tasks", f"1 to {WINDOW}", tasks)
        super().__init__()
        self.frozen_after = tasks


def _offline_model(path: Path) -> Callable[[Task], float]:
    """Return the share that a model of `OfflineTrainer` implies for a task.

    Raises
    ------
    ModelFileError
        If the file is not a random forest that predicts shares or durations.
    """
    from ..learning.offline_trainer import TRAINING_TARGETS, implied_fraction
    from ..learning.predictors import RandomForestPredictor

    predictor = RandomForestPredictor.load(path)
    if predictor.target not in TRAINING_TARGETS:
        raise ModelFileError(path, "predicts neither shares nor durations", hint="train it with OfflineTrainer")
    trees = FlatForest.of(predictor.model_.estimators_, predictor.num_features_)

    def share(task: Task) -> float:
        columns = [np.array([value]) for value in (task.size, task.compute_intensity, task.memory_required)]
        predicted = trees.predict(features_of(*columns))[0]
        return float(implied_fraction(predictor.target, predicted if trees.outputs > 1 else predicted[:, 0])[0])

    return share
