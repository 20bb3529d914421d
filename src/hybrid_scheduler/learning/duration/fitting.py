"""Fitting of duration models from finished tasks.

Targets are log T, the CPU's seconds, and log(T / G) for every other class of device. The ratio decides where a task
goes, and learning it directly costs a third of the regret of learning T and G apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core import Floats, Ints, InvalidInputError, Outcome, Platform, Task, Workload
from . import log_linear
from .features import NUM_FEATURES, features_of
from .flat_forest import FlatForest
from .log_linear import TermScaling

#: Fewest samples for a forest; the fit alone is usable much earlier.
MIN_SAMPLES = 60
#: Fewest samples for a fit without an earlier one.
_MIN_FOR_A_FIT = 3
_DEPTH, _LEAF = 15, 5
#: Size, intensity and memory; the other features follow from them.
RANGE_FEATURES = 3


@dataclass(frozen=True, slots=True)
class Samples:
    """Finished tasks: features, log seconds per class of device (NaN where unknown), seconds to start a part."""

    features: Floats
    log_seconds: Floats
    fixed: Floats
    reference: int

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True, slots=True)
class FittedDurations:
    """Result of `fit_durations`: coefficients and trees that belong together, in one scaling."""

    scaling: TermScaling
    coefficients: Floats
    trees: FlatForest
    low: Floats
    high: Floats
    fixed: Floats
    samples: int
    reference: int

    def with_last_trees(self, count: int) -> FittedDurations:
        """Return a copy with its last `count` trees only."""
        return self if count >= len(self.trees) else replace(self, trees=self.trees.last(count))

    def select(self, classes: Sequence[int]) -> FittedDurations:
        """Return the fit for a platform that has only these classes; the reference must be among them."""
        keep = list(classes)
        return replace(
            self,
            coefficients=np.ascontiguousarray(self.coefficients[:, keep]),
            trees=self.trees.select(keep),
            fixed=self.fixed[keep],
            reference=keep.index(self.reference),
        )


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A fit made beforehand, and the classes of device it knows, in the order of its columns."""

    fitted: FittedDurations
    device_classes: tuple[str, ...]

    def for_platform(self, platform: Platform) -> FittedDurations | None:
        """Return the fit for this platform, or None if the platform has a class of device it does not know."""
        needed = class_names(platform)
        reference = needed[int(platform.class_of[np.argmax(platform.is_cpu)])]
        known = {name: column for column, name in enumerate(self.device_classes)}
        if not set(needed) <= set(known) or known[reference] != self.fitted.reference:
            return None
        return self.fitted.select([known[name] for name in needed])

    def columns_by_kind(self, platform: Platform) -> list[tuple[int, bool]]:
        """Return, for each class of a platform, the column that predicts it best and whether it is the class's own.

        A class that the fit does not know gets the first one of its kind of device, and -1 if there is none.
        """
        found = []
        for name in class_names(platform):
            kind = name.split(":")[0]
            alike = [column for column, own in enumerate(self.device_classes) if own.split(":")[0] == kind]
            own = name in self.device_classes
            found.append((self.device_classes.index(name) if own else alike[0] if alike else -1, own))
        return found


def class_names(platform: Platform) -> tuple[str, ...]:
    """Return the names by which a duration model tells device classes apart, without memory, watts and rent."""
    return tuple(f"{d.kind}:{d.speedup_base:g}:{d.speedup_slope:g}:{d.bandwidth:g}" for d in platform.classes)


def evenly_spread(count: int, dimensions: int) -> Floats:
    """Return points that fill the unit cube evenly: an additive recurrence, see Kronecker sequences."""
    ratio = 2.0
    for _ in range(50):  # the positive root of x**(d + 1) = x + 1
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + 1))
    steps = (1.0 / ratio) ** np.arange(1, dimensions + 1)
    return (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1.0


def _targets_of(logs: Floats, reference: int) -> Floats:
    """Convert log seconds per class to targets: the reference's own, the others' as log ratio to it."""
    targets = logs[:, [reference]] - logs
    targets[:, reference] = logs[:, reference]
    return targets


def fit_durations(
    samples: Samples, seed: int, *, trees: int = 100, keep: FittedDurations | None = None
) -> FittedDurations:
    """Fit coefficients and trees to samples: a pure function that can run in another process.

    Parameters
    ----------
    samples
        Finished tasks.
    seed
        Seed of the trees.
    trees
        Number of trees; none are fitted from fewer than `MIN_SAMPLES` samples.
    keep
        An earlier fit whose scaling is kept, and towards whose slopes those are pulled that the samples leave open.

    Raises
    ------
    InvalidInputError
        If there are too few samples, or none with finite CPU seconds.
    """
    least = 1 if keep else _MIN_FOR_A_FIT
    if len(samples) < least:
        raise InvalidInputError("samples", f"at least {least} finished tasks", len(samples))
    work = samples.log_seconds[:, samples.reference]
    if np.isnan(work).all():
        raise InvalidInputError("samples", "at least one with CPU seconds", f"none in {len(samples)}")
    if not np.isfinite(samples.features).all() or np.isinf(samples.log_seconds).any():
        raise InvalidInputError("samples", "finite", "infinite numbers, or features that are not numbers")
    scaling = keep.scaling if keep else TermScaling.of(samples.features, work)
    columns = log_linear.terms(samples.features, scaling.knees)
    coefficients = (
        keep.coefficients.copy() if keep else np.zeros((log_linear.NUM_TERMS, samples.log_seconds.shape[1]))
    )
    reference, logs = samples.reference, samples.log_seconds.copy()
    log_linear.fit(columns, logs, scaling, coefficients, [reference])
    # Where a task never ran on the CPU, the fit's own prediction is used, so that its accelerator time counts.
    logs[:, reference] = np.where(np.isnan(work), columns @ coefficients[:, reference], work)
    targets = _targets_of(logs, reference)
    others = (column for column in range(targets.shape[1]) if column != reference)
    log_linear.fit(columns, targets, scaling, coefficients, others)
    targets[:, reference] = work
    # Unknown values are taken to lie on the fit: the trees get a residual of zero.
    residuals = np.nan_to_num(targets - columns @ coefficients, nan=0.0)
    if trees and len(samples) >= MIN_SAMPLES:
        forest = _forest(samples.features, residuals, trees, seed)
    else:
        forest = FlatForest.empty(NUM_FEATURES, targets.shape[1])
    ranged = samples.features[:, :RANGE_FEATURES]
    fixed = _means(samples.fixed)
    return FittedDurations(
        scaling,
        coefficients,
        forest,
        ranged.min(axis=0),
        ranged.max(axis=0),
        fixed,
        len(samples),
        samples.reference,
    )


def _forest(rows: Floats, residuals: Floats, trees: int, seed: int) -> FlatForest:
    """Fit extremely randomised trees: as good as searched thresholds on residuals, better under noise, faster."""
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(
        trees, max_depth=_DEPTH, min_samples_leaf=_LEAF, bootstrap=True, random_state=seed % 2**32
    )
    forest.fit(rows.astype(np.float32), residuals[:, 0] if residuals.shape[1] == 1 else residuals)
    return FlatForest.of(forest.estimators_, NUM_FEATURES)


def _means(columns: Floats) -> Floats:
    known = ~np.isnan(columns)
    means: Floats = np.where(known, columns, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return means


# ------------------------------------------------------------------------------------------ samples


class SlidingWindow:
    """Up to `length` finished tasks with their observed log seconds; the oldest are overwritten first."""

    def __init__(self, length: int, platform: Platform) -> None:
        self.reference = int(platform.class_of[np.argmax(platform.is_cpu)])
        self._tasks = np.empty((length, 3))  # size, intensity, memory
        self._logs, self._fixed = np.empty((2, length, len(platform.classes)))
        self.seen = 0

    def __len__(self) -> int:
        return min(self.seen, len(self._tasks))

    def add(self, task: Task, logs: Floats, fixed: Floats) -> None:
        """Add one finished task."""
        place = self.seen % len(self._tasks)
        self._tasks[place] = task.size, task.compute_intensity, task.memory_required
        self._logs[place], self._fixed[place] = logs, fixed
        self.seen += 1

    def keep(self, count: int) -> None:
        """Drop all but the newest `count` tasks."""
        order = self._order()[-count:]
        for column in (self._tasks, self._logs, self._fixed):
            column[: len(order)] = column[order]
        self.seen = len(order)

    def tasks(self) -> Workload:
        """Return the tasks in the window, oldest first, as a workload that arrives at once."""
        return tasks_as_workload(self._tasks[self._order()])

    def samples(self) -> Samples:
        """Return the window as training samples, oldest first."""
        order = self._order()
        rows = features_of(*np.ascontiguousarray(self._tasks[order].T))
        return Samples(rows, self._logs[order], self._fixed[order], self.reference)

    def _order(self) -> Ints:
        length = len(self._tasks)
        return (np.arange(len(self)) + (self.seen if self.seen > length else 0)) % length


def tasks_as_workload(tasks: Floats) -> Workload:
    """Convert rows of (size, intensity, memory) to tasks that all arrive at time 0."""
    size, intensity, memory = tasks.T
    return Workload(
        task_id=np.arange(len(tasks)),
        size=size,
        compute_intensity=intensity,
        memory_required=memory,
        arrival_time=np.zeros(len(tasks)),
    )


def observed(outcome: Outcome, platform: Platform, *, labels: bool) -> tuple[Floats, Floats]:
    """Return log seconds of the whole task and seconds to start a part, per class of device; NaN where unknown.

    With `labels` these are the simulation's own for every class; otherwise they follow from the executed parts: a
    CPU part of c seconds for a share 1 - f means c / (1 - f) for the whole. One part alone does not reveal launch
    seconds.
    """
    if labels and outcome.labels is not None:
        whole = outcome.labels[:, 0]
        return np.log(np.where(whole > 0, whole, np.nan)), np.array(outcome.labels[:, 1])
    logs, fixed = np.full((2, len(platform.classes)), np.nan)
    share = outcome.fraction
    if outcome.cpu_time > 0 and share < 1:
        logs[platform.class_of[platform.cpu_of[outcome.device]]] = np.log(outcome.cpu_time / (1.0 - share))
    if outcome.accelerator_time > 0 and share > 0:
        logs[platform.class_of[outcome.device]] = np.log(outcome.accelerator_time / share)
    return logs, fixed
