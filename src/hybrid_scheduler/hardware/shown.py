"""What the devices have shown so far: seconds by kind, class of device and size."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import NamedTuple

from ..core import Outcome, Platform

#: Where a single size is known, time is taken to grow as the data does, with the square of the size.
_SLOPE = 2.0
#: Sizes this close are the same: their times are averaged, later ones counting more.
_SAME = 0.02
_LATEST = 0.3


class Guess(NamedTuple):
    """Seconds at some size, and how far (as a factor) the nearest size is that was really seen."""

    seconds: float
    factor: float


class Shown:
    """Grows with every outcome; asked before every decision."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], list[tuple[float, float]]] = {}
        self._counts: dict[tuple[str, int], int] = {}

    def add(self, kind: str, column: int, size: float, seconds: float) -> None:
        if not (seconds > 0 and math.isfinite(seconds)):
            return
        at, log = math.log(size), math.log(seconds)
        seen = self._seen.setdefault((kind, column), [])
        self._counts[kind, column] = self._counts.get((kind, column), 0) + 1
        place = bisect_left(seen, (at - _SAME, -math.inf))
        if place < len(seen) and abs(seen[place][0] - at) <= _SAME:
            seen[place] = (seen[place][0], seen[place][1] + _LATEST * (log - seen[place][1]))
        else:
            insort(seen, (at, log))

    def count(self, kind: str, column: int) -> int:
        return self._counts.get((kind, column), 0)

    def nearest(self, kind: str, column: int, size: float) -> Guess | None:
        """Between two known sizes along the line between them, else from the nearest; None if nothing is known."""
        seen = self._seen.get((kind, column))
        return _along(seen, math.log(size)) if seen else None

    def on_all(self, kind: str, columns: range, size: float) -> list[Guess | None]:
        """The same for every class of device."""
        at, known = math.log(size), self._seen.get
        return [_along(seen, at) if (seen := known((kind, column))) else None for column in columns]


def _along(seen: list[tuple[float, float]], at: float) -> Guess:
    place = bisect_left(seen, (at,))
    if 0 < place < len(seen):
        (x0, y0), (x1, y1) = seen[place - 1], seen[place]
        before, after = at - x0, x1 - at
        log = y0 + (y1 - y0) * before / (before + after)
        return Guess(math.exp(log), math.exp(before if before < after else after))
    x, y = seen[min(place, len(seen) - 1)]
    return Guess(math.exp(y + _SLOPE * (at - x)), math.exp(abs(at - x)))


def whole_seconds(outcome: Outcome, platform: Platform) -> list[tuple[int, float]]:
    """For every part that ran, its class of device and the seconds the whole task would take there."""
    found: list[tuple[int, float]] = []
    if outcome.fraction < 1.0 and outcome.cpu_time > 0:
        column = int(platform.class_of[platform.cpu_of[outcome.device]])
        found.append((column, outcome.cpu_time / (1.0 - outcome.fraction)))
    if outcome.fraction > 0.0 and outcome.accelerator_time > 0:
        found.append((int(platform.class_of[outcome.device]), outcome.accelerator_time / outcome.fraction))
    return found
