"""Measured run times of kernels, by which an executor predicts how long its queues are.

It interpolates between measured sizes of a kernel kind on a device class. A scheduler that learns has a model of
its own and does not use it.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left

from ..core import Outcome, Platform

#: Where a single size is known, time is assumed to grow with the data, so with the square of the size.
_SLOPE = 2.0
#: Sizes this close (in ln) are the same size: their times are averaged, later ones with more weight.
_SAME = 0.02
_LATEST = 0.3


class _Curve:
    """Logarithms of measured sizes, ascending, and of their seconds.

    Packed arrays, because curves are read between kernels, which leave nothing in the caches.
    """

    __slots__ = ("seconds", "sizes")

    def __init__(self) -> None:
        self.sizes, self.seconds = array("d"), array("d")

    def add(self, size: float, seconds: float) -> None:
        place = bisect_left(self.sizes, size - _SAME)
        if place < len(self.sizes) and abs(self.sizes[place] - size) <= _SAME:
            self.seconds[place] += _LATEST * (seconds - self.seconds[place])
        else:
            place = bisect_left(self.sizes, size)
            self.sizes.insert(place, size)
            self.seconds.insert(place, seconds)

    def at(self, size: float) -> float:
        """Return seconds: interpolated between two known sizes; beyond them, extrapolated from the nearest."""
        sizes, seconds = self.sizes, self.seconds
        place = bisect_left(sizes, size)
        if 0 < place < len(sizes):
            before, after = size - sizes[place - 1], sizes[place] - size
            start = seconds[place - 1]
            return math.exp(start + (seconds[place] - start) * before / (before + after))
        place = max(place - 1, 0)
        return math.exp(seconds[place] + _SLOPE * (size - sizes[place]))


class KernelDurations:
    """Measured run times by kernel kind and device class.

    Examples
    --------
    >>> from hybrid_scheduler.runtime.kernel_durations import KernelDurations
    >>> durations = KernelDurations()
    >>> durations.record("matmul", 0, 10.0, 2.0)
    >>> durations.estimate("matmul", 0, 10.0)
    2.0
    """

    def __init__(self) -> None:
        self._curves: dict[tuple[str, int], _Curve] = {}

    def record(self, kind: str, column: int, size: float, seconds: float) -> None:
        """Add a measured run of a whole task.

        Parameters
        ----------
        kind : str
            Kernel kind.
        column : int
            Device class.
        size : float
            Task size, > 0.
        seconds : float
            Measured run time; ignored unless finite and > 0.
        """
        if seconds > 0 and math.isfinite(seconds):
            self._curves.setdefault((kind, column), _Curve()).add(math.log(size), math.log(seconds))

    def estimate(self, kind: str, column: int, size: float) -> float | None:
        """Return the expected seconds of a whole task there; None if none has run."""
        curve = self._curves.get((kind, column))
        return None if curve is None else curve.at(math.log(size))


def device_class_and_seconds(outcome: Outcome, platform: Platform) -> tuple[int, float] | None:
    """Return the device class that ran a whole task and the seconds it took; None if the task was split.

    A part of a split task says little about the whole: its start-up cost does not shrink with its share.
    """
    if 0.0 < outcome.fraction < 1.0:
        return None
    if outcome.fraction > 0.0:
        return int(platform.class_of[outcome.device]), outcome.accelerator_time
    return int(platform.class_of[platform.cpu_of[outcome.device]]), outcome.cpu_time
