"""Log-linear fit of durations: least squares of log seconds in a few generic terms.

Durations are close to products of powers, and beyond the range of the training data such a fit still makes sense,
where a forest only repeats its outermost leaf. The terms are the features, the intensity squared, and three soft
knees along "data per second of work": an accelerator is limited by its arithmetic or by its link, and its time
bends where one takes over from the other. The fit finds where it bends.

`fit_jump` finds the size at which durations jump, as where data no longer fit into a cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ...compiled import helper, inner
from ...core import Floats
from .features import NUM_FEATURES
from .learner_state import CURVE, JUMP, LEVEL, THRESHOLD

_KNEES = 3
NUM_TERMS = 1 + NUM_FEATURES + 1 + 2 * _KNEES
_WORK = 1 + NUM_FEATURES  # length of the first part of `Frame.knees`: log work as a linear function of the features
_INTENSITY, _MEMORY = 1, 2
_PENALTY = 0.03
#: A step: fewest outcomes on each side, smallest jump in log seconds, largest share of the squared residuals that
#: it leaves, least evidence (log likelihood ratio, times 2), and the variance that residuals have in any case.
_SIDE, _SMALLEST_JUMP, _LEFT, _EVIDENCE, _RESOLUTION = 3, 0.4, 0.5, 15.0, 1e-3
#: Its curve: terms, weights of their prior, the fixed cost of parts in their term, and all numbers that are fitted.
_CURVE_TERMS, _CURVE_PRIOR, _PART_COST, _FITTED = 4, (0.1, 0.2, 0.5, 0.1), 0.3, 6


@dataclass(frozen=True, slots=True)
class Frame:
    """Scaling of the terms; fixed for a generation of trees, so that coefficients can be averaged.

    `knees` holds the coefficients of log work (constant first) and the positions of the knees.
    """

    knees: Floats
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, rows: Floats, log_work: Floats) -> Frame:
        """Build the frame from features and log CPU seconds (NaN where unknown)."""
        known = ~np.isnan(log_work)
        design = np.column_stack([np.ones(len(rows)), rows])
        work = _ridge(design[known], log_work[known, None], np.zeros((design.shape[1], 1)), 1e-6)[:, 0]
        per_work = rows[:, _MEMORY] - design @ work
        knees = np.concatenate([work, _quantiles(per_work, (0.1, 0.5, 0.9))])
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


def fit(columns: Floats, targets: Floats, frame: Frame, coefficients: Floats, which: Iterable[int]) -> None:
    """Refit some columns of `coefficients`, each from the rows where its target is known.

    Slopes that the data do not determine stay as they were. The penalty does not grow with the number of rows: it
    dominates with three rows and is negligible with a thousand.

    Parameters
    ----------
    columns
        The rows' `terms`.
    targets
        One column per class of device, NaN where unknown.
    frame
        Scaling of the terms.
    coefficients
        Changed in place.
    which
        Columns to refit.
    """
    design = (columns - frame.centre) / frame.scale
    for column in which:
        known = ~np.isnan(targets[:, column])
        if known.any():
            start = _to_standard(coefficients[:, column], frame)[:, None]
            found = _ridge(design[known], targets[known, column, None], start, _PENALTY)
            coefficients[:, column] = _to_raw(found[:, 0], frame)


def _quantiles(values: Floats, shares: Sequence[float]) -> Floats:
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


def _to_raw(standard: Floats, frame: Frame) -> Floats:
    raw = standard / frame.scale
    raw[0] = standard[0] - float(raw[1:] @ frame.centre[1:])
    return raw


def _to_standard(raw: Floats, frame: Frame) -> Floats:
    standard = raw * frame.scale
    standard[0] = raw[0] + float(raw[1:] @ frame.centre[1:])
    return standard


@inner
def _invert(matrix):  # type: ignore[no-untyped-def]
    """Invert a small positive definite matrix in place; numba would have to load its linear algebra."""
    for j in range(len(matrix)):
        pivot = matrix[j, j]
        matrix[j, j] = 1.0
        matrix[j] /= pivot
        for k in range(len(matrix)):
            if k != j:
                factor = matrix[k, j]
                matrix[k, j] = 0.0
                matrix[k] -= factor * matrix[j]


@inner
def fit_jump(u, share, residual, stats):  # type: ignore[no-untyped-def]
    """Find the log size `u` at which residuals jump; write it to the statistics of a class, or zeros.

    The least squares of a curve (1, u, u² and the cost of parts) are compared with those of the curve and a step at
    the best threshold: the test of Andrews (1993) for a break at an unknown place, along sizes instead of time. The
    step must leave at most half of the squares, so that a bend, noise or the cost of parts is none. A known step
    stays while too few outcomes lie on one side of it to judge it.
    """
    count = len(u)
    if count < 2 * _SIDE:
        return
    if stats[JUMP] != 0.0:
        higher = (u > stats[THRESHOLD]).sum()
        if min(higher, count - higher) < _SIDE:
            return
        stats[THRESHOLD : CURVE + 1] = 0.0
    floor = count * _RESOLUTION
    squares = floor
    for r in range(count):
        squares += residual[r] * residual[r]
    if floor > _LEFT * squares:  # no step can leave less
        return
    rows, inverse = np.ones((count, _CURVE_TERMS)), np.zeros((_CURVE_TERMS, _CURVE_TERMS))
    sums, curve = np.zeros(_CURVE_TERMS), np.zeros(_CURVE_TERMS)
    for j in range(_CURVE_TERMS):
        inverse[j, j] = _CURVE_PRIOR[j]
    for r in range(count):
        rows[r, 1], rows[r, 2] = u[r], u[r] * u[r]
        rows[r, 3] = math.log(1.0 + _PART_COST * (1.0 / share[r] - 1.0))
        for j in range(_CURVE_TERMS):
            sums[j] += rows[r, j] * residual[r]
            for k in range(_CURVE_TERMS):
                inverse[j, k] += rows[r, j] * rows[r, k]
    _invert(inverse)
    for j in range(_CURVE_TERMS):
        for k in range(_CURVE_TERMS):
            curve[j] += inverse[j, k] * sums[k]
        squares -= curve[j] * sums[j]
    if floor > _LEFT * squares:
        return
    order = np.argsort(u)
    above, above_sum = np.zeros(_CURVE_TERMS), 0.0
    gain, threshold, jump = 0.0, 0.0, 0.0
    shift, best_shift = np.empty(_CURVE_TERMS), np.zeros(_CURVE_TERMS)
    for at in range(count - 1, _SIDE - 1, -1):
        r, below = order[at], u[order[at - 1]]
        above_sum += residual[r]
        for j in range(_CURVE_TERMS):
            above[j] += rows[r, j]
            above_sum -= curve[j] * rows[r, j]
        if count - at < _SIDE or u[r] == below:
            continue
        spread = above[0]  # of the step, beyond what the curve can follow
        for j in range(_CURVE_TERMS):
            shift[j] = 0.0
            for k in range(_CURVE_TERMS):
                shift[j] += inverse[j, k] * above[k]
            spread -= above[j] * shift[j]
        if spread > 0.01 and above_sum * above_sum > gain * spread:
            gain, threshold, jump = above_sum * above_sum / spread, 0.5 * (u[r] + below), above_sum / spread
            best_shift[:] = shift
    left = max(squares - gain, 1e-12)
    evidence = (count - _FITTED) * math.log(squares / left)
    if abs(jump) >= _SMALLEST_JUMP and left <= _LEFT * squares and evidence >= _EVIDENCE:
        stats[THRESHOLD], stats[JUMP] = threshold, jump
        for j in range(3):
            stats[LEVEL + j] = curve[j] - jump * best_shift[j]
