"""Duration model: a log-linear fit, and a forest on its residuals.

The forest's correction is weighted by how much of the error it has explained so far (`trust`: nothing, when the
residuals are noise). It is left out for tasks outside the range of its training data: there the fit alone predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import types

from ...compiled import compiled, entry, helper
from ...core import Floats, TimeTable, Workload
from .features import NUM_FEATURES, features_row
from .fitting import RANGE_FEATURES, FittedDurations
from .flat_forest import FOREST, FlatForest, descend, join_forests
from .log_linear import NUM_TERMS, terms_row

_KNEES = 9
_LOW, _HIGH, _TRUST = _KNEES, _KNEES + RANGE_FEATURES, _KNEES + 2 * RANGE_FEATURES
_LIMIT = 30.0  # of log seconds: predicted seconds stay finite and above zero


@dataclass(frozen=True, slots=True)
class DurationModel:
    """One version of the model. It is immutable: a new version is another object, swapped in at once."""

    constants: Floats
    coefficients: Floats
    forest: FlatForest
    reference: int
    #: Arguments of the compiled functions, in their order.
    arrays: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        arrays = (self.constants, self.coefficients, self.reference, *self.forest.arrays)
        object.__setattr__(self, "arrays", arrays)

    @classmethod
    def of(cls, fits: Sequence[FittedDurations], trust: Floats) -> DurationModel:
        """Average fits of one scaling, each weighted by its number of trees; the newest comes last."""
        if len(fits) == 1:  # while a model is young, after every few outcomes: nothing to average
            only = fits[0]
            constants = np.concatenate([only.scaling.knees, only.low, only.high, trust, only.fixed])
            return cls(constants, np.ascontiguousarray(only.coefficients), only.trees, only.reference)
        weights = np.array([max(len(fitted.trees), 1) for fitted in fits], dtype=np.float64)
        coefficients = np.einsum("g,gtk->tk", weights / weights.sum(), np.stack([g.coefficients for g in fits]))
        newest = fits[-1]
        low = np.min([fitted.low for fitted in fits], axis=0)
        high = np.max([fitted.high for fitted in fits], axis=0)
        constants = np.concatenate([newest.scaling.knees, low, high, trust, newest.fixed])
        forest = join_forests([fitted.trees for fitted in fits])
        return cls(constants, np.ascontiguousarray(coefficients), forest, newest.reference)

    @property
    def classes(self) -> int:
        """Number of device classes."""
        return int(self.coefficients.shape[1])

    def table(self, workload: Workload) -> TimeTable:
        """Predict the seconds of every task on every class of device."""
        run = compiled(_table, _TABLE)
        out = np.zeros((len(workload), self.classes, 2))
        run(workload.size, workload.compute_intensity, workload.memory_required, *self.arrays, out)
        return out


@helper
def predict_task(  # type: ignore[no-untyped-def]
    size, intensity, memory, constants, coefficients, reference,
    feature, threshold, child, values, roots, depth, prediction,
):  # fmt: skip
    """Fill `prediction` with the prediction for one task, see `compiled_prediction`."""
    row, narrow = np.empty(NUM_FEATURES), np.empty(NUM_FEATURES, np.float32)
    columns = np.empty(NUM_TERMS)
    features_row(size, intensity, memory, row)
    terms_row(row, constants, columns)
    classes, trees = coefficients.shape[1], len(roots)
    for k in range(classes):
        fit = 0.0
        for j in range(NUM_TERMS):
            fit += columns[j] * coefficients[j, k]
        prediction[0, k], prediction[1, k], prediction[2, k], prediction[3, k] = 0.0, 0.0, fit, 0.0
    inside = 1.0
    for j in range(RANGE_FEATURES):
        if row[j] < constants[_LOW + j] or row[j] > constants[_HIGH + j]:
            inside = 0.0
    for j in range(NUM_FEATURES):
        narrow[j] = row[j]
    for leaf in descend(narrow, feature, threshold, child, roots, depth):
        work = values[leaf, reference]
        for k in range(classes):
            seconds = work if k == reference else work - values[leaf, k]
            prediction[3, k] += values[leaf, k]
            prediction[0, k] += seconds
            prediction[1, k] += seconds * seconds
    count = max(trees, 1)
    own = 0.0
    for k in range(classes):
        mean = prediction[0, k] / count
        prediction[1, k] = np.sqrt(max(prediction[1, k] / count - mean * mean, 0.0))
        prediction[3, k] *= inside / count
        prediction[0, k] = prediction[2, k] + constants[_TRUST + k] * prediction[3, k]
        if k == reference:
            own = prediction[0, k]
    for k in range(classes):
        seconds = own if k == reference else own - prediction[0, k]
        prediction[0, k] = min(max(seconds, -_LIMIT), _LIMIT)


@helper
def to_times(constants, prediction, times):  # type: ignore[no-untyped-def]
    """Convert the log seconds of a prediction to the (whole, fixed) seconds of a table's row."""
    classes = prediction.shape[1]
    for k in range(classes):
        times[k, 0] = np.exp(prediction[0, k])
        times[k, 1] = constants[_TRUST + classes + k]


_MATRIX = types.float64[:, ::1]
#: constants, coefficients, reference and the forest: `DurationModel.arrays`
MODEL = (types.float64[::1], _MATRIX, types.int64, *FOREST)
_NUMBERS = (types.float64, types.float64, types.float64)
_COLUMN = types.Array(types.float64, 1, "C", readonly=True)
_PREDICT_ROW = types.void(*_NUMBERS, *MODEL, _MATRIX, _MATRIX)
_TABLE = types.void(_COLUMN, _COLUMN, _COLUMN, *MODEL, types.float64[:, :, ::1])


def compiled_prediction() -> Any:
    """Return the compiled ``predict(size, intensity, memory, *model.arrays, out, times)``.

    It fills `times` as a row of the table, and `out`, of shape (4, classes): log seconds, their spread over the
    trees, then the fit and the forest's correction of the targets.
    """
    return compiled(_predict_row, _PREDICT_ROW)


@entry
def _predict_row(  # type: ignore[no-untyped-def]
    size, intensity, memory, constants, coefficients, reference,
    feature, threshold, child, values, roots, depth, out, times,
):  # fmt: skip
    predict_task(
        size, intensity, memory, constants, coefficients, reference,
        feature, threshold, child, values, roots, depth, out,
    )  # fmt: skip
    to_times(constants, out, times)


@entry
def _table(  # type: ignore[no-untyped-def]
    size, intensity, memory, constants, coefficients, reference,
    feature, threshold, child, values, roots, depth, out,
):  # fmt: skip
    prediction = np.empty((4, coefficients.shape[1]))
    for i in range(len(size)):
        predict_task(
            size[i], intensity[i], memory[i], constants, coefficients, reference,
            feature, threshold, child, values, roots, depth, prediction,
        )  # fmt: skip
        to_times(constants, prediction, out[i])
