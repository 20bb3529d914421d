"""What the devices have shown so far: seconds by kind, class of device and size."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from typing import NamedTuple

from ..core import Outcome, Platform

#: Where a single size is known, time is taken to grow as the data does, with the square of the size.
_SLOPE = 2.0
_STEEPEST = 3.0
#: Sizes this close are the same: their times are averaged, later ones counting more.
_SAME = 0.02
_LATEST = 0.3


class Guess(NamedTuple):
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

    def at(self, size: float) -> Guess:
        """Between two known sizes along the line between them, else from the nearest."""
        sizes, seconds = self.sizes, self.seconds
        place = bisect_left(sizes, size)
        if 0 < place < len(sizes):
            before, after = size - sizes[place - 1], sizes[place] - size
            start = seconds[place - 1]
            log = start + (seconds[place] - start) * before / (before + after)
            likely = math.exp(log)
            return Guess(likely, before if before < after else after, likely)
        place = min(place, len(sizes) - 1)
        beyond, known = size - sizes[place], seconds[place]
        least = known if beyond > 0 else known + _STEEPEST * beyond
        return Guess(math.exp(known + _SLOPE * beyond), abs(beyond), math.exp(least))


class Shown:
    """Grows with every outcome; asked before every decision."""

    def __init__(self) -> None:
        self._curves: dict[tuple[str, int], _Curve] = {}

    def add(self, kind: str, column: int, size: float, seconds: float) -> None:
        if seconds > 0 and math.isfinite(seconds):
            self._curves.setdefault((kind, column), _Curve()).add(math.log(size), math.log(seconds))

    def count(self, kind: str, column: int) -> int:
        curve = self._curves.get((kind, column))
        return curve.count if curve else 0

    def nearest(self, kind: str, column: int, size: float) -> Guess | None:
        """None if nothing is known."""
        curve = self._curves.get((kind, column))
        return curve.at(math.log(size)) if curve else None

    def on_all(self, kind: str, columns: range, size: float) -> list[Guess | None]:
        """The same for every class of device."""
        at, known = math.log(size), self._curves.get
        return [curve.at(at) if (curve := known((kind, column))) else None for column in columns]


def whole_seconds(outcome: Outcome, platform: Platform) -> list[tuple[int, float]]:
    """For every part that ran, its class of device and the seconds the whole task would take there."""
    found: list[tuple[int, float]] = []
    if outcome.fraction < 1.0 and outcome.cpu_time > 0:
        column = int(platform.class_of[platform.cpu_of[outcome.device]])
        found.append((column, outcome.cpu_time / (1.0 - outcome.fraction)))
    if outcome.fraction > 0.0 and outcome.accelerator_time > 0:
        found.append((int(platform.class_of[outcome.device]), outcome.accelerator_time / outcome.fraction))
    return found
