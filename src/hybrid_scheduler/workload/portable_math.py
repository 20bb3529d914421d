"""Logarithm, exponential and sine with the same bits on every machine.

The functions of C libraries, and NumPy's vector versions, may differ in the last digit between processors and
operating systems. These use only +, −, ×, ÷ and exact scalings, which IEEE 754 defines to the last bit. The same
seed therefore gives the same workload everywhere, in chunks as well as at once. They are accurate to a few units in
the last place.
"""

from __future__ import annotations

import math

import numpy as np

from ..core import Floats

_SQRT_HALF = 0.7071067811865476
# ln 2 in two parts: the first has so few digits that multiples of it are exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_INVERSE_LN2 = 1.4426950408889634


def log(x: Floats) -> Floats:
    """Return the natural logarithm of positive numbers: ``2 artanh((m - 1) / (m + 1)) + e ln 2`` for x = m 2^e."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < _SQRT_HALF
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    exponent = exponent - small
    s = (mantissa - 1.0) / (mantissa + 1.0)
    tail = _horner(s * s, [1.0 / (2 * k + 1) for k in range(12)])
    return exponent * _LN2_HIGH + (exponent * _LN2_LOW + 2.0 * s * tail)


def exp(x: Floats) -> Floats:
    """Return the exponential: a Taylor series on [−ln 2 / 2, ln 2 / 2] and an exact power of two."""
    power = np.rint(x * _INVERSE_LN2)
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    return np.ldexp(_horner(rest, [1.0 / math.factorial(k) for k in range(15)]), power.astype(np.int64))


def sin_turns(x: Floats) -> Floats:
    """Return the sine of an angle in turns, ``sin(2 pi x)``; whole turns cancel exactly."""
    turn = x - np.rint(x)
    # Angles beyond a quarter turn are mirrored to keep the series short.
    turn = np.where(np.abs(turn) > 0.25, np.copysign(0.5, turn) - turn, turn)
    angle = 2.0 * math.pi * turn
    return angle * _horner(-angle * angle, [1.0 / math.factorial(2 * k + 1) for k in range(12)])


def cos_turns(x: Floats) -> Floats:
    """Return the cosine of an angle in turns, ``cos(2 pi x)``."""
    return sin_turns(x + 0.25)


def _horner(x: Floats, coefficients: list[float]) -> Floats:
    """Evaluate the polynomial with these coefficients, lowest power first."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
