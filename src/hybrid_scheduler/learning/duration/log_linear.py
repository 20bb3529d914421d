"""Log-linear fit of durations: least squares of log seconds in a few generic terms.

Durations are close to products of powers, and beyond the range of the training data such a fit still makes sense,
where a forest only repeats its outermost leaf. The terms are the features, the intensity squared, and three soft
knees along "data per second of work": an accelerator is limited by its arithmetic or by its link, and its time
bends where one takes over from the other. The fit finds where it bends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ...compiled import helper
from ...core import Floats
from .features import NUM_FEATURES

_KNEES = 3
NUM_TERMS = 1 + NUM_FEATURES + 1 + 2 * _KNEES
_WORK = (
    1 + NUM_FEATURES
)  # length of the first part of `TermScaling.knees`: log work as a linear function of the features
_INTENSITY, _MEMORY = 1, 2
_PENALTY = 0.03


@dataclass(frozen=True, slots=True)
class TermScaling:
    """Scaling of the terms; fixed for a generation of trees, so that coefficients can be averaged.

    `knees` holds the coefficients of log work (constant first) and the positions of the knees.
    """

    knees: Floats
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, rows: Floats, log_work: Floats) -> TermScaling:
        """Build the scaling from features and log CPU seconds (NaN where unknown)."""
        known = ~np.isnan(log_work)
        design = np.column_stack([np.ones(len(rows)), rows])
        work = _ridge(design[known], log_work[known, None], np.zeros((design.shape[1], 1)), 1e-6)[:, 0]
        per_work = rows[:, _MEMORY] - design @ work
        knees = np.concatenate([work, quantiles(per_work, (0.1, 0.5, 0.9))])
        columns = terms(rows, knees)
        centre, scale = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-3)
        centre[0], scale[0] = 0.0, 1.0
        return cls(knees, centre, scale)


def terms(rows: Floats, knees: Floats) -> Floats:
    """Return the terms of rows of features, of shape (rows, NUM_TERMS)."""
    intensity = rows[:, _INTENSITY]
    per_work = rows[:, _MEMORY] - (knees[0] + rows @ knees[1:_WORK])
    bends = np.logaddexp(0.0, per_work[:, None] - knees[_WORK:])
    return np.column_stack([np.ones(len(rows)), rows, intensity**2, bends, intensity[:, None] * bends])


@helper
def terms_row(row, knees, out):  # type: ignore[no-untyped-def]
    """Write the terms of one row of features into `out`."""
    per_work = row[2] - knees[0]
    out[0] = 1.0
    for j in range(NUM_FEATURES):
        out[1 + j] = row[j]
        per_work -= knees[1 + j] * row[j]
    out[_WORK] = row[1] * row[1]
    for j in range(_KNEES):
        bend = per_work - knees[_WORK + j]
        bend = np.log1p(np.exp(-abs(bend))) + max(bend, 0.0)
        out[_WORK + 1 + j] = bend
        out[_WORK + 1 + _KNEES + j] = row[1] * bend


def fit(columns: Floats, targets: Floats, scaling: TermScaling, coefficients: Floats, which: Iterable[int]) -> None:
    """Refit some columns of `coefficients`, each from the rows where its target is known.

    Slopes that the data do not determine stay as they were. The penalty does not grow with the number of rows: it
    dominates with three rows and is negligible with a thousand.

    Parameters
    ----------
    columns
        The rows' `terms`.
    targets
        One column per class of device, NaN where unknown.
    scaling
        Scaling of the terms.
    coefficients
        Changed in place.
    which
        Columns to refit.
    """
    design = (columns - scaling.centre) / scaling.scale
    for column in which:
        known = ~np.isnan(targets[:, column])
        if known.any():
            start = _to_standard(coefficients[:, column], scaling)[:, None]
            found = _ridge(design[known], targets[known, column, None], start, _PENALTY)
            coefficients[:, column] = _to_raw(found[:, 0], scaling)


def quantiles(values: Floats, shares: Sequence[float]) -> Floats:
    """Compute what `np.quantile` gives, bit by bit, in a tenth of its time for a handful of numbers."""
    ordered = np.sort(values)
    found = []
    for share in shares:
        at = share * (len(ordered) - 1)
        before = int(at)
        low, high, beyond = ordered[before], ordered[min(before + 1, len(ordered) - 1)], at - before
        found.append(high - (high - low) * (1.0 - beyond) if beyond >= 0.5 else low + (high - low) * beyond)
    return np.array(found)


def _ridge(design: Floats, targets: Floats, prior: Floats, penalty: float) -> Floats:
    """Solve least squares of targets on the design, pulled towards the prior; the constant is almost free."""
    pull = np.full(design.shape[1], penalty)
    pull[0] *= 0.01
    missing = targets - design @ prior
    found: Floats = prior + np.linalg.solve(design.T @ design + np.diag(pull), design.T @ missing)
    return found


def _to_raw(standard: Floats, scaling: TermScaling) -> Floats:
    raw = standard / scaling.scale
    raw[0] = standard[0] - float(raw[1:] @ scaling.centre[1:])
    return raw


def _to_standard(raw: Floats, scaling: TermScaling) -> Floats:
    standard = raw * scaling.scale
    standard[0] = raw[0] + float(raw[1:] @ scaling.centre[1:])
    return standard
