"""Clocks and pacing of the live run: wall time, virtual time, chunk size and task rate."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Protocol

from ..core import InvalidInputError
from ..workload.argument_checks import positive_number

_SLOWEST = 0.01
_FASTEST = 10_000.0
#: Wall seconds that the run may be late before virtual time slips.
_MAX_LAG_S = 0.25


class Clock(Protocol):
    """Source of wall time, which tests replace."""

    def now(self) -> float:
        """Return seconds that never step back, for intervals."""

    def unix(self) -> float:
        """Return seconds since 1970, for timestamps."""

    def thread_cpu_time(self) -> float:
        """Return the CPU seconds of this thread, which do not count the time of other programs."""

    def wait(self, timeout: float, wake: threading.Event) -> None:
        """Wait so many seconds, or until `wake` is set."""


class WallClock:
    """The clock of the operating system."""

    now = staticmethod(time.monotonic)
    unix = staticmethod(time.time)
    thread_cpu_time = staticmethod(time.thread_time)

    def wait(self, timeout: float, wake: threading.Event) -> None:
        """Wait so many seconds, or until `wake` is set."""
        wake.wait(timeout)


def checked_speed(speed: float) -> float:
    """Return a valid speed, in virtual seconds per wall second; infinity means as fast as possible.

    Raises
    ------
    InvalidInputError
        If it is neither infinity nor in the allowed range.
    """
    number = speed if speed == math.inf else positive_number("speed", speed)
    if number != math.inf and not _SLOWEST <= number <= _FASTEST:
        raise InvalidInputError("speed", f"a number from {_SLOWEST:g} to {_FASTEST:g}", speed)
    return number


class VirtualTime:
    """Virtual time as a function of wall time: where the run should be by now.

    Parameters
    ----------
    clock
        Wall time.
    speed
        Virtual seconds per wall second; infinity for no limit.
    now
        Virtual time at the start.
    """

    def __init__(self, clock: Clock, speed: float, now: float = 0.0) -> None:
        self._clock = clock
        self.speed = speed
        self.set(now)

    def set(self, now: float) -> None:
        """Set virtual time, which goes on from here."""
        self._base = now
        self._wall = self._clock.now()

    @property
    def due(self) -> float:
        """Virtual time that the run should have reached; infinity without a speed limit."""
        if self.speed == math.inf:
            return math.inf
        return self._base + (self._clock.now() - self._wall) * self.speed

    def slip(self, reached: float) -> None:
        """Continue from what was reached if the run is too late: a slow machine would never catch up."""
        if self.due - reached > _MAX_LAG_S * self.speed:
            self.set(reached)


class ChunkSize:
    """Number of tasks to decide at once: as many as take no longer than the time limit."""

    _TIME_LIMIT_S = 0.02
    _MAX_TASKS = 4096

    def __init__(self) -> None:
        self.tasks = 64

    def adapt(self, tasks: int, seconds: float) -> None:
        """Learn from a chunk of that many tasks, which took that long."""
        if seconds > self._TIME_LIMIT_S:
            self.tasks = max(1, int(tasks * self._TIME_LIMIT_S / seconds))
        elif tasks == self.tasks and seconds < self._TIME_LIMIT_S / 2:
            self.tasks = min(2 * self.tasks, self._MAX_TASKS)


class TaskRate:
    """Tasks per wall second, averaged over the last few updates."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=8)

    def add(self, now: float, tasks: int) -> None:
        """Note how many tasks there have been by now."""
        self._points.append((now, tasks))

    def clear(self) -> None:
        """Start anew, as after a pause."""
        self._points.clear()

    def rate(self, now: float, tasks: int) -> float:
        """Return the rate up to now; 0 before the first update."""
        if not self._points:
            return 0.0
        then, before = self._points[0]
        return (tasks - before) / (now - then) if now > then else 0.0
