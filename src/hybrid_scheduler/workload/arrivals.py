"""Arrival processes: Poisson, bursty, diurnal and in waves.

Each process maps the points of a Poisson process of rate 1 to arrival times by a change of time. The identity gives
Poisson arrivals, a random two-state rate gives bursts, a sinusoidal rate gives days and a square wave gives rushes.
Times are in mean gaps between tasks (the long-run rate is 1). Dividing by a rate scales the whole pattern, so the
same seed gives the same pattern at every load.
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
    """Map from points of a unit Poisson process, in ascending order, to arrival times."""

    def __call__(self, points: Floats) -> Floats:
        """Return the arrival times of the points."""


def poisson(points: Floats) -> Floats:
    """Return the points: a constant rate gives Poisson arrivals."""
    return points


class BurstyArrivals:
    """A two-state Markov-modulated Poisson process.

    Calm and burst alternate, each for an exponential time. Bursts take a fifth of the time and 3/5 of the tasks:
    during them tasks arrive at 3 times the mean rate, between them at half of it. A burst lasts 50 mean gaps
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
        # Knots of a piecewise linear map from points to times.
        self._points = np.zeros(1)
        self._times = np.zeros(1)
        self._rates = np.empty(0)

    def __call__(self, points: Floats) -> Floats:
        """Return the arrival times of the points."""
        while self._points[-1] <= points[-1]:
            self._extend()
        knot = np.searchsorted(self._points, points, side="right") - 1
        times = self._times[knot] + (points - self._points[knot]) / self._rates[knot]
        self._drop(int(knot[-1]))
        return times

    def _extend(self) -> None:
        lengths = exponential(self._rng, 2 * self._CYCLES)
        lengths[0::2] *= self.CALM_LENGTH
        lengths[1::2] *= self.LENGTH
        if self._starts_in_burst:
            lengths[0] = 0.0
            self._starts_in_burst = False
        rates = np.tile([self.CALM_RATE, self.RATE], self._CYCLES)
        # Summing from the last knot gives the same bits however the knots are cut into blocks.
        self._points = np.concatenate([self._points[:-1], _running_sum(self._points[-1], lengths * rates)])
        self._times = np.concatenate([self._times[:-1], _running_sum(self._times[-1], lengths)])
        self._rates = np.concatenate([self._rates, rates])

    def _drop(self, knots: int) -> None:
        """Drop past knots, so that an endless stream needs constant memory."""
        self._points = self._points[knots:]
        self._times = self._times[knots:]
        self._rates = self._rates[knots:]


class DiurnalArrivals:
    """A sinusoidal rate, ``1 - 0.6 cos(2 pi t / day)``: night at time 0, noon at 1.6 times the mean.

    A day is 2,000 mean gaps, so the expected number of tasks per day is 2,000. By time t, measured in days,
    ``t - (0.6 / 2 pi) sin(2 pi t)`` days of points have passed. Inverting that is Kepler's equation.
    """

    SWING = 0.6
    LENGTH = 2000.0
    _STEPS = 10

    def __call__(self, points: Floats) -> Floats:
        """Return the arrival times of the points."""
        days = points / self.LENGTH
        midnight = np.floor(days)
        passed = days - midnight
        # From noon, Newton's method converges monotonically; ten steps exceed double precision.
        time = np.full_like(passed, 0.5)
        for _ in range(self._STEPS):
            mapped = time - self.SWING / (2.0 * math.pi) * sin_turns(time)
            time = time - (mapped - passed) / (1.0 - self.SWING * cos_turns(time))
        return (midnight + time) * self.LENGTH


class WaveArrivals:
    """A square wave: calm, rush, calm, with fixed lengths.

    A wave lasts 500 mean gaps. After 60 of them a rush of 50 begins, in which tasks arrive at 7.2 times the mean
    rate; in the calm they arrive at 0.31 times that rate. A rush therefore has 360 of the 500 tasks of a wave.
    """

    LENGTH = 500.0
    RUSH_START = 60.0
    RUSH_LENGTH = 50.0
    RUSH_RATE = 7.2
    CALM_RATE = (LENGTH - RUSH_LENGTH * RUSH_RATE) / (LENGTH - RUSH_LENGTH)

    def __call__(self, points: Floats) -> Floats:
        """Return the arrival times of the points."""
        begin = np.floor(points / self.LENGTH) * self.LENGTH
        passed = points - begin
        rates = np.array([self.CALM_RATE, self.RUSH_RATE, self.CALM_RATE])
        times = np.array([0.0, self.RUSH_START, self.RUSH_START + self.RUSH_LENGTH])
        knots = np.cumsum([0.0, self.RUSH_START * self.CALM_RATE, self.RUSH_LENGTH * self.RUSH_RATE])
        part = np.searchsorted(knots, passed, side="right") - 1
        arrival: Floats = begin + times[part] + (passed - knots[part]) / rates[part]
        return arrival


def _running_sum(start: float, steps: Floats) -> Floats:
    """Return start, start + steps[0], start + steps[0] + steps[1], …, added one after the other."""
    return np.cumsum(np.concatenate([[start], steps]))


#: Arrival processes by name; each may use its own stream of random numbers.
ARRIVALS: dict[str, Callable[[np.random.Generator], ArrivalProcess]] = {
    "poisson": lambda rng: poisson,
    "bursty": BurstyArrivals,
    "diurnal": lambda rng: DiurnalArrivals(),
    "waves": lambda rng: WaveArrivals(),
}
