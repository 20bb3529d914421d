"""Fit of the size at which the durations of a class of device jump, as where data no longer fit into a cache."""

from __future__ import annotations

import math

import numpy as np

from ...compiled.jit_cache import allocating

#: A step: fewest outcomes on each side, smallest jump in log seconds, largest share of the squared residuals that
#: it leaves, least evidence (log likelihood ratio, times 2), and the variance that residuals have in any case.
_SIDE = 3
_MIN_JUMP = 0.4
_LEFT = 0.5
_EVIDENCE = 15.0
_RESOLUTION = 1e-3
#: Its curve: terms, weights of their prior, the fixed cost of parts in their term, and all numbers that are fitted.
_CURVE_TERMS = 4
_CURVE_PRIOR = (0.1, 0.2, 0.5, 0.1)
_PART_COST = 0.3
_FITTED = 6


@allocating
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


@allocating
def _fit_curve(u, share, residual, squares):  # type: ignore[no-untyped-def]
    """Fit the smooth curve: return its terms for each outcome, their inverse moments, and its coefficients.

    Last, what it leaves of the sum of squares.
    """
    count = len(u)
    rows = np.ones((count, _CURVE_TERMS))
    inverse = np.zeros((_CURVE_TERMS, _CURVE_TERMS))
    sums = np.zeros(_CURVE_TERMS)
    curve = np.zeros(_CURVE_TERMS)
    for j in range(_CURVE_TERMS):
        inverse[j, j] = _CURVE_PRIOR[j]
    for r in range(count):
        rows[r, 1] = u[r]
        rows[r, 2] = u[r] * u[r]
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
    return rows, inverse, curve, squares


@allocating
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
    if stats.jump != 0.0:
        higher = (u > stats.threshold).sum()
        if min(higher, count - higher) < _SIDE:
            return
        stats.threshold = stats.jump = stats.level = stats.slope = stats.curve = 0.0
    min_squares = count * _RESOLUTION
    squares = min_squares
    for r in range(count):
        squares += residual[r] * residual[r]
    if min_squares > _LEFT * squares:  # no step can leave less
        return
    rows, inverse, curve, squares = _fit_curve(u, share, residual, squares)
    if min_squares > _LEFT * squares:
        return
    order = np.argsort(u)
    above = np.zeros(_CURVE_TERMS)
    above_sum = 0.0
    gain = 0.0
    threshold = 0.0
    jump = 0.0
    shift = np.empty(_CURVE_TERMS)
    best_shift = np.zeros(_CURVE_TERMS)
    for at in range(count - 1, _SIDE - 1, -1):
        r = order[at]
        below = u[order[at - 1]]
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
            gain = above_sum * above_sum / spread
            threshold = 0.5 * (u[r] + below)
            jump = above_sum / spread
            best_shift[:] = shift
    left = max(squares - gain, 1e-12)
    evidence = (count - _FITTED) * math.log(squares / left)
    if abs(jump) >= _MIN_JUMP and left <= _LEFT * squares and evidence >= _EVIDENCE:
        stats.threshold = threshold
        stats.jump = jump
        stats.level = curve[0] - jump * best_shift[0]
        stats.slope = curve[1] - jump * best_shift[1]
        stats.curve = curve[2] - jump * best_shift[2]
