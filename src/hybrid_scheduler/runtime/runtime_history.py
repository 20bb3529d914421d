"""What the devices have shown so far: seconds by kind, class of device and size."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from typing import NamedTuple

from ..core import Outcome, Platform

#: Stands for both devices of a task that is split, where a class of device is asked for.
SPLIT = -1
#: Where a single size is known, time is taken to grow as the data does, with the square of the size.
_SLOPE = 2.0
_STEEPEST = 3.0
#: Sizes this close are the same: their times are averaged, later ones counting more.
_SAME = 0.02
_LATEST = 0.3


class RuntimeEstimate(NamedTuple):
    """Seconds at some size; how far away (ln) the nearest size is that was really seen; and what it takes at least:
    as long as what is smaller, and no less than work that shrinks with the cube of the size."""

    seconds: float
    distance: float
    least: float


class _Curve:
    """Logs of the sizes that were seen, in order, and of their seconds.

    Packed, because it is read between kernels, which leave nothing in the caches: what is scattered is slow then.
    """

    __slots__ = ("count", "seconds", "sizes")

    def __init__(self) -> None:
        self.sizes, self.seconds, self.count = array("d"), array("d"), 0

    def add(self, size: float, seconds: float) -> None:
        self.count += 1
        place = bisect_left(self.sizes, size - _SAME)
        if place < len(self.sizes) and abs(self.sizes[place] - size) <= _SAME:
            self.seconds[place] += _LATEST * (seconds - self.seconds[place])
        else:
            place = bisect_left(self.sizes, size)
            self.sizes.insert(place, size)
            self.seconds.insert(place, seconds)

    def at(self, size: float) -> RuntimeEstimate:
        """Between two known sizes along the line between them, else from the nearest."""
        sizes, seconds = self.sizes, self.seconds
        place = bisect_left(sizes, size)
        if 0 < place < len(sizes):
            before, after = size - sizes[place - 1], sizes[place] - size
            start = seconds[place - 1]
            likely = math.exp(start + (seconds[place] - start) * before / (before + after))
            return RuntimeEstimate(likely, before if before < after else after, likely)
        if place:
            place -= 1
        beyond, known = size - sizes[place], seconds[place]
        least = known if beyond > 0 else known + _STEEPEST * beyond
        return RuntimeEstimate(math.exp(known + _SLOPE * beyond), abs(beyond), math.exp(least))


_NOTHING: dict[int, _Curve] = {}


class RuntimeHistory:
    """Grows with every outcome; asked before every decision."""

    def __init__(self) -> None:
        self._curves: dict[str, dict[int, _Curve]] = {}

    def add(self, kind: str, column: int, size: float, seconds: float) -> None:
        if seconds > 0 and math.isfinite(seconds):
            curves = self._curves.setdefault(kind, {})
            curves.setdefault(column, _Curve()).add(math.log(size), math.log(seconds))

    def count(self, kind: str, column: int) -> int:
        curve = self._curves.get(kind, _NOTHING).get(column)
        return curve.count if curve else 0

    def nearest(self, kind: str, column: int, size: float) -> RuntimeEstimate | None:
        """None if nothing is known."""
        curve = self._curves.get(kind, _NOTHING).get(column)
        return curve.at(math.log(size)) if curve else None

    def on_all(self, kind: str, columns: range, size: float) -> list[RuntimeEstimate | None]:
        """The same for every class of device."""
        known, at = self._curves.get(kind, _NOTHING).get, math.log(size)
        return [curve.at(at) if (curve := known(column)) else None for column in columns]


def measurements_of(outcome: Outcome, platform: Platform) -> tuple[int, float]:
    """The class of device that ran the task, or `SPLIT`, and the seconds it took.

    A part of a split says little of the whole: what its start costs does not shrink with its share.
    """
    if 0.0 < outcome.fraction < 1.0:
        return SPLIT, max(outcome.cpu_time, outcome.accelerator_time)
    if outcome.fraction > 0.0:
        return int(platform.class_of[outcome.device]), outcome.accelerator_time
    return int(platform.class_of[platform.cpu_of[outcome.device]]), outcome.cpu_time
