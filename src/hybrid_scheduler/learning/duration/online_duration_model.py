"""Duration model that learns from outcomes while the tasks run.

Every finished task is first predicted and scored, then learned from. The score goes to a change detector; the
sample goes into a sliding window, and every `refresh` outcomes new trees, fitted to the window, replace the oldest
ones. After an alarm only the two or three samples that raised it are kept. The model is fitted anew at once, then
after every 2 samples, every 8 samples, and finally every `refresh`. Until there are enough samples for trees, a fit
without trees predicts, pulled towards the model before the change.

Fitting is a pure function (`fit_durations`); `swap` installs its result between two tasks. A batch run calls both
at once. A live engine fits trees in another process: with `synchronous = False`, `learn` leaves a request in
`pending_request`, and its result comes back through `apply`. A fit without trees takes less than a millisecond and
is never deferred.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ...core import (
    Floats,
    Ints,
    InvalidInputError,
    Links,
    Outcome,
    Platform,
    Task,
    TimeTable,
    UnknownNameError,
    Workload,
)
from .drift import DETECTORS, detector_named
from .duration_model import DurationModel, compiled_prediction
from .fitting import (
    MIN_SAMPLES,
    FittedDurations,
    Pretrained,
    Samples,
    SlidingWindow,
    fit_durations,
    observed,
)

_FEEDBACK = ("oracle", "bandit")
#: Samples for the first fit. Greedy's decisions until then cost more than the error of a fit of five tasks, which
#: is refined two tasks later.
_FIRST_FIT = 5
#: Below this many samples the model is fitted again every 2 of them, below the second every 8.
_OFTEN, _LESS_OFTEN = 20, 100
#: Scored predictions that calibrate the detector.
_CALIBRATION = 30
#: Most samples kept after a change: the ones that raised the alarm.
_KEPT = 3
#: A pretrained model is left alone until the window holds this many samples.
_MIN_SAMPLES_TO_REPLACE_PRETRAINED = 300
#: Predictions and residuals kept for scoring.
_LENGTH, _RESIDUALS = 500, 200
#: Fewest scores for an estimate of trust, and of R².
_MIN_FOR_TRUST, _MIN_FOR_R2 = 50, 30
#: Errors below two per cent are never outliers.
_NEGLIGIBLE = 0.02
#: Newest versions and events that a learner keeps at least; a run without end would keep them all.
MAX_KEPT = 10_000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a model.

    `r2` is that of the predictions it replaced, made before their outcomes were known; None if there were too few.
    `error` is the mean absolute error of their log seconds, where it is measured.
    """

    version: int
    samples: int
    r2: float | None
    trigger: str
    at_task: int
    error: float | None = None


@dataclass(frozen=True, slots=True)
class LearningEvent:
    """An event of a learner that users should see.

    `kind` is retrained, drift, retrain_failed, model_refused, fallback (a simpler rule decides) or recovered.
    """

    kind: str
    at_task: int
    message: str
    version: int


def append_bounded(items: list[_T], *new: _T) -> None:
    """Append to a list of versions or events; of a long one only the newest are kept."""
    items.extend(new)
    if len(items) > 2 * MAX_KEPT:
        del items[:-MAX_KEPT]


def newest_number(versions: Sequence[ModelVersion]) -> int:
    """Return the number of the newest version; 0 if there is none."""
    return versions[-1].version if versions else 0


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """A fit that is due. `whole` says that it will replace everything, not only the oldest trees."""

    samples: Samples
    seed: int
    trees: int
    keep: FittedDurations | None
    whole: bool
    trigger: str
    #: Number of drifts before it was made.
    drift_count: int = 0

    def fit(self) -> FittedDurations:
        """Do the fit."""
        return fit_durations(self.samples, self.seed, trees=self.trees, keep=self.keep)


class PredictionScores:
    """Scores of recent predictions, each made before its outcome was learned.

    Observed log seconds (NaN where unknown) beside the model's predictions, see `compiled_prediction`.
    """

    def __init__(self, classes: int, reference: int) -> None:
        self.classes, self.reference = classes, reference
        self._rows: deque[Floats] = deque(maxlen=_LENGTH)
        self._residuals: deque[float] = deque(maxlen=_RESIDUALS)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def residuals(self) -> Floats:
        """One number per task: the root mean square of its known log errors."""
        return np.array(self._residuals)

    def add(self, logs: Floats, prediction: Floats) -> float:
        """Score one task and return its residual."""
        errors = logs - prediction[0]
        known = errors[errors == errors]
        residual = float(np.sqrt(known @ known / len(known)))
        self._residuals.append(residual)
        self._rows.append(np.concatenate([logs, prediction.ravel()]))
        return residual

    def trailing_outliers(self, most: int) -> int:
        """Return how many of the last tasks, without a gap, were predicted much worse than usual; at least 1."""
        residuals = self.residuals
        usual = max(float(np.median(residuals)), _NEGLIGIBLE)
        normal = np.flatnonzero(residuals[-most:] <= 3.0 * usual)
        return max(len(residuals[-most:]) - 1 - int(normal[-1]), 1) if len(normal) else most

    def trust(self) -> Floats:
        """Return, per target, the slope of the fit's residual against the forest's correction, between 0 and 1."""
        trust = np.ones(self.classes)
        if len(self._rows) < _MIN_FOR_TRUST:
            return trust
        logs, predicted, _, fits, corrections = self._columns()
        own = logs[:, self.reference]
        work = np.where(np.isnan(own), predicted[:, self.reference], own)
        for k in range(self.classes):
            left = (own if k == self.reference else work - logs[:, k]) - fits[:, k]
            known = ~np.isnan(left) & (corrections[:, k] != 0)
            correction, left = corrections[known, k], left[known]
            if len(correction) >= _MIN_FOR_TRUST:
                trust[k] = min(max(float(correction @ left) / float(correction @ correction), 0.0), 1.0)
        return trust

    def r2(self) -> float | None:
        """Return R² of the predicted log seconds over all classes together; None if there are too few scores."""
        if len(self._rows) < _MIN_FOR_R2:
            return None
        logs, predicted, *_ = self._columns()
        spread = float(np.nansum((logs - np.nanmean(logs)) ** 2))
        return 1.0 - float(np.nansum((logs - predicted) ** 2)) / spread if spread > 0 else None

    def _columns(self) -> tuple[Floats, ...]:
        scores = np.array(self._rows)
        return tuple(scores[:, k * self.classes : (k + 1) * self.classes] for k in range(5))


class OnlineDurationModel:
    """A `TimeModel` that learns durations from outcomes alone, without access to the physics.

    Parameters
    ----------
    feedback
        "oracle" learns the seconds on every class of device from the simulation's labels, "bandit" only from the
        parts that ran.
    window
        Number of samples kept.
    refresh
        Number of outcomes between two fits.
    trees
        Size of the forest.
    drift
        Name of the change detector, a key of `DETECTORS`.
    pretrained
        Model to start from, or its file.

    Raises
    ------
    UnknownNameError
        If `feedback` or `drift` is unknown.
    InvalidInputError
        If a number is too small.
    """

    def __init__(
        self,
        feedback: str = "oracle",
        window: int = 1000,
        refresh: int = 50,
        trees: int = 100,
        drift: str = "cusum",
        pretrained: Pretrained | str | Path | None = None,
    ) -> None:
        if feedback not in _FEEDBACK:
            raise UnknownNameError("feedback", feedback, _FEEDBACK)
        if drift not in DETECTORS:
            raise UnknownNameError("drift", drift, DETECTORS)
        for name, value, least in (("window", window, MIN_SAMPLES), ("refresh", refresh, 1), ("trees", trees, 1)):
            if value < least:
                raise InvalidInputError(name, f"at least {least}", value)
        self.feedback, self.window, self.refresh, self.trees = feedback, window, refresh, trees
        self.drift, self.pretrained = drift, pretrained
        self.synchronous = True

    def start(self, platform: Platform, seed: int) -> None:
        """Reset; a pretrained model that knows this platform's devices is installed."""
        self.platform, self.seed = platform, seed
        self.versions: list[ModelVersion] = []
        self.pending_request: TrainingRequest | None = None
        self.model_: DurationModel | None = None
        self._window = SlidingWindow(self.window, platform)
        self._prediction = np.zeros((4, len(platform.classes)))
        self._predict = compiled_prediction()
        self._fits: list[FittedDurations] = []
        self._before: FittedDurations | None = None  # the fit before the last drift
        self._drift_count = 0
        self._scores = self._empty_scores()
        self._detector, self._armed = detector_named(self.drift), False
        # Samples at the next fit, and samples the last whole one saw; both count from the last change on.
        self._next, self._whole_at, self._pretrained_kept = _FIRST_FIT, 0, False
        found = self._load()
        if found is not None:
            self._fits, self._pretrained_kept, self._whole_at = (
                [found],
                True,
                _MIN_SAMPLES_TO_REPLACE_PRETRAINED // 2,
            )
            self._install(found.samples, "pretrained", 0)

    def _load(self) -> FittedDurations | None:
        found = self.pretrained
        if isinstance(found, str | Path):
            from ..model_files import load_forest_durations

            found = load_forest_durations(found)
        return None if found is None else found.for_platform(self.platform)

    # ---------------------------------------------------------------- predictions

    @property
    def columns(self) -> Ints:
        """Column of the table for every device."""
        return self.platform.class_of

    @property
    def links(self) -> Links:
        """Transfer times, which are not learned: zero."""
        return Links(np.zeros(len(self.platform)), 0.0, 0.0)

    @property
    def ready(self) -> bool:
        """Whether there is a model to predict with."""
        return self.model_ is not None

    @property
    def confidence(self) -> Floats:
        """Standard deviation over the trees of log seconds, per class, for the last predicted row."""
        spread: Floats = self._prediction[1].copy()
        return spread

    def row(self, task: Task) -> Floats:
        """Predict the (whole, fixed) seconds of one task, per class of device."""
        times = np.empty((self._prediction.shape[1], 2))
        model = self._current()
        self._predict(
            task.size, task.compute_intensity, task.memory_required, *model.arrays, self._prediction, times
        )
        return times

    def table(self, workload: Workload) -> TimeTable:
        """Predict the seconds of every task of a workload, per class of device."""
        return self._current().table(workload)

    def samples(self) -> Samples:
        """Return the window, from which the next fit will be made."""
        return self._window.samples()

    def recent_tasks(self, most: int) -> Workload | None:
        """Return the newest tasks in the window; None if it is empty."""
        if not len(self._window):
            return None
        tasks = self._window.tasks()
        return tasks.rows(max(0, len(tasks) - most), len(tasks))

    def predicted_window(self) -> TimeTable:
        """Predict the tasks in the window with the current model."""
        return self.table(self._window.tasks())

    def _current(self) -> DurationModel:
        if self.model_ is None:
            raise InvalidInputError("duration model", "ready: enough outcomes observed", "not ready")
        return self.model_

    # ---------------------------------------------------------------- learning

    def learn(self, task: Task, outcome: Outcome) -> list[LearningEvent]:
        """Predict a finished task, score the prediction, then learn from the outcome.

        Returns
        -------
        list of LearningEvent
            Fits, drift alarms and failures that it led to.
        """
        logs, fixed = observed(outcome, self.platform, labels=self.feedback == "oracle")
        if np.isnan(logs).all():
            return []
        alarm = self.ready and self._raises_alarm(task, logs)
        self._window.add(task, logs, fixed)
        if alarm:
            return self._after_alarm(task.task_id)
        return self._refresh(task.task_id) if self._window.seen >= self._next else []

    def _raises_alarm(self, task: Task, logs: Floats) -> bool:
        """Score the prediction; True if the detector raises an alarm."""
        self.row(task)
        residual = self._scores.add(logs, self._prediction)
        if self._armed:
            return self._detector.update(residual)
        if len(self._scores) >= _CALIBRATION:
            self._arm()
        return False

    def _arm(self) -> None:
        self._detector.calibrate(self._scores.residuals)
        self._armed = True

    def _after_alarm(self, at_task: int) -> list[LearningEvent]:
        self._window.keep(self._scores.trailing_outliers(_KEPT))
        self._scores, self._armed = self._empty_scores(), False
        self._whole_at, self._before, self._pretrained_kept = 0, self._fits[-1], False
        self._drift_count, self.pending_request = self._drift_count + 1, None
        message = "durations no longer follow the model: older outcomes are dropped"
        return [
            LearningEvent("drift", at_task, message, newest_number(self.versions)),
            *self._refresh(at_task, "drift"),
        ]

    def _refresh(self, at_task: int, trigger: str = "schedule") -> list[LearningEvent]:
        seen = self._window.seen
        few = seen < MIN_SAMPLES
        self._next = seen + min(2 if seen < _OFTEN else 8 if seen < _LESS_OFTEN else self.refresh, self.refresh)
        if self._pretrained_kept and seen < _MIN_SAMPLES_TO_REPLACE_PRETRAINED:
            if seen < _CALIBRATION or not self._misfits():
                return []
            trigger, self._whole_at = "misfit", 0
        whole = few or (seen >= 2 * self._whole_at and self._whole_at < self.window)
        keep = self._before if seen < _OFTEN else None if whole else self._fits[-1]
        trees = 0 if few else self.trees if whole else max(1, self.trees // 10)
        seed = self.seed * 1_000_003 + newest_number(self.versions)
        request = TrainingRequest(self._window.samples(), seed, trees, keep, whole, trigger, self._drift_count)
        if trees and not self.synchronous:
            self.pending_request = request
            return []
        try:
            fitted = request.fit()
        except Exception as error:  # any failure: the old model is better than none
            version = newest_number(self.versions)
            return [LearningEvent("retrain_failed", at_task, f"kept the old model: {error}", version)]
        return self.swap(fitted, at_task, whole=whole, trigger=trigger)

    def request_training(self, trigger: str = "request") -> bool:
        """Request a whole forest from the current window; False if the window holds too few samples."""
        if len(self._window) < MIN_SAMPLES:
            return False
        seed = self.seed * 1_000_003 + newest_number(self.versions)
        self.pending_request = TrainingRequest(
            self._window.samples(), seed, self.trees, None, True, trigger, self._drift_count
        )
        return True

    def apply(self, request: TrainingRequest, fitted: FittedDurations, at_task: int) -> list[LearningEvent]:
        """Install the result of a request that was fitted elsewhere; one from before a drift has no effect."""
        if request.drift_count != self._drift_count:
            return []
        if request.keep is not None:
            # Another process returns a copy of the scaling. Trees are averaged only within one scaling.
            fitted = replace(fitted, scaling=request.keep.scaling)
            if not (request.whole or (self._fits and self._fits[-1].scaling is fitted.scaling)):
                return []
        self.pending_request = None  # it was made without this result
        return self.swap(fitted, at_task, whole=request.whole, trigger=request.trigger)

    def swap(
        self, fitted: FittedDurations, at_task: int, *, whole: bool = False, trigger: str = "schedule"
    ) -> list[LearningEvent]:
        """Install a fit in place of everything (`whole`), or of as many of the oldest trees."""
        if whole or not self._fits:
            self._fits = [fitted]
            self._pretrained_kept = False
            self._whole_at = fitted.samples if fitted.samples >= MIN_SAMPLES else 0
            if self._armed:
                self._arm()
        else:
            missing, kept = self.trees - len(fitted.trees), [fitted]
            for old in reversed(self._fits):
                if missing > 0:
                    kept.append(old.with_last_trees(missing))
                    missing -= len(kept[-1].trees)
            self._fits = kept[::-1]
        self._install(fitted.samples, trigger, at_task)
        version = newest_number(self.versions)
        return [LearningEvent("retrained", at_task, f"version {version} from {fitted.samples} outcomes", version)]

    def _install(self, samples: int, trigger: str, at_task: int) -> None:
        self.model_ = DurationModel.of(self._fits, self._scores.trust())
        number = newest_number(self.versions) + 1
        append_bounded(self.versions, ModelVersion(number, samples, self._scores.r2(), trigger, at_task))

    def _misfits(self) -> bool:
        """Whether a pretrained model errs much more than a fit of the few outcomes seen would."""
        samples = self._window.samples()
        fresh = DurationModel.of([fit_durations(samples, 0, trees=0)], np.ones(len(self.platform.classes)))
        errors = samples.log_seconds - np.log(fresh.table(self._window.tasks())[:, :, 0])
        own = np.sqrt(np.mean(np.square(self._scores.residuals)))
        return bool(own > 2.0 * np.sqrt(np.nanmean(errors**2)) + 0.05)

    def _empty_scores(self) -> PredictionScores:
        return PredictionScores(len(self.platform.classes), self._window.reference)
