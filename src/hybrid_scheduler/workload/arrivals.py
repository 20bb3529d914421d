"""When tasks arrive.

Every process here is the same Poisson process of rate 1 read off a different clock: the k-th task comes when
the clock shows the k-th point. A steady clock gives Poisson arrivals; one that runs faster and slower at
random gives bursts; one that follows a sine gives days. Clocks count in mean gaps between tasks (their long-
run rate is 1), so dividing by a rate stretches the whole pattern, and the same seed gives the same pattern at
every load.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..core import Floats
from .distributions import exponential
from .portable_math import cos_turns, sin_turns


class ArrivalProcess(Protocol):
    """Turns points of a unit Poisson process, in ascending order, into arrival times."""

    def __call__(self, points: Floats) -> Floats: ...


def steady(points: Floats) -> Floats:
    """The rate never changes: plain Poisson arrivals."""
    return points


class Bursts:
    """A two-state Markov-modulated Poisson process.

    Calm and burst alternate, each lasting an exponential time. Bursts take a fifth of the time and 3/5 of the
    tasks: in them tasks come at 3 times the mean rate, between them at half of it. A burst lasts 50 mean gaps
    on average (150 tasks), a calm 200 (100 tasks). The first state is drawn from the long-run shares, so the
    mean rate holds from time 0 on.
    """

    SHARE = 0.2
    RATE = 3.0
    LENGTH = 50.0
    CALM_RATE = (1.0 - SHARE * RATE) / (1.0 - SHARE)
    CALM_LENGTH = LENGTH * (1.0 - SHARE) / SHARE
    _CYCLES = 256

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._starts_in_burst = bool(rng.random() < self.SHARE)
        # Knots of the clock: so many points have passed at such a time; between knots it runs evenly.
        self._points = np.zeros(1)
        self._times = np.zeros(1)
        self._rates = np.empty(0)

    def __call__(self, points: Floats) -> Floats:
        while self._points[-1] <= points[-1]:
            self._extend()
        knot = np.searchsorted(self._points, points, side="right") - 1
        times = self._times[knot] + (points - self._points[knot]) / self._rates[knot]
        self._forget(int(knot[-1]))
        return times

    def _extend(self) -> None:
        lengths = exponential(self._rng, 2 * self._CYCLES)
        lengths[0::2] *= self.CALM_LENGTH
        lengths[1::2] *= self.LENGTH
        if self._starts_in_burst:
            lengths[0] = 0.0
            self._starts_in_burst = False
        rates = np.tile([self.CALM_RATE, self.RATE], self._CYCLES)
        # Summing on from the last knot gives the same bits whenever the knots are asked for.
        self._points = np.concatenate([self._points[:-1], _running_sum(self._points[-1], lengths * rates)])
        self._times = np.concatenate([self._times[:-1], _running_sum(self._times[-1], lengths)])
        self._rates = np.concatenate([self._rates, rates])

    def _forget(self, knots: int) -> None:
        """A stream can go on for ever: what lies behind it is not kept."""
        self._points, self._times = self._points[knots:], self._times[knots:]
        self._rates = self._rates[knots:]


class Days:
    """A sinusoidal rate, ``1 - 0.6 cos(2 pi t / day)``: night at time 0, noon at 1.6 times the mean.

    A day is 2,000 mean gaps, so each whole day brings 2,000 tasks in expectation. By time t, measured in
    days, the clock has shown ``t - (0.6 / 2 pi) sin(2 pi t)`` days of points: inverting it is Kepler's
    equation.
    """

    SWING = 0.6
    LENGTH = 2000.0
    _STEPS = 10

    def __call__(self, points: Floats) -> Floats:
        days = points / self.LENGTH
        midnight = np.floor(days)
        passed = days - midnight
        # From noon Newton's method runs monotonically into the root; ten steps are more than double
        # precision.
        time = np.full_like(passed, 0.5)
        for _ in range(self._STEPS):
            shown = time - self.SWING / (2.0 * math.pi) * sin_turns(time)
            time = time - (shown - passed) / (1.0 - self.SWING * cos_turns(time))
        return (midnight + time) * self.LENGTH


def _running_sum(start: float, steps: Floats) -> Floats:
    """start, start + steps[0], start + steps[0] + steps[1], …, added one after the other."""
    return np.cumsum(np.concatenate([[start], steps]))


#: Arrival processes by name; a clock may use its own stream of random numbers.
ARRIVALS: dict[str, Callable[[np.random.Generator], ArrivalProcess]] = {
    "poisson": lambda rng: steady,
    "bursty": Bursts,
    "diurnal": lambda rng: Days(),
}
