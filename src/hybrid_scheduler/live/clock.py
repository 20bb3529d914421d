"""Wall time, which tests replace, and virtual time, which runs at a speed against it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Protocol

from ..core import InvalidInputError
from ..workload.argument_checks import positive_number

SLOWEST, FASTEST = 0.01, 10_000.0
#: A machine that is further behind than this, in wall seconds, lets virtual time slip instead of catching up.
_MOST_BEHIND = 0.25


class Clock(Protocol):
    """What the engine knows of the world's time."""

    def now(self) -> float:
        """Seconds that never step back, for intervals."""

    def unix(self) -> float:
        """Seconds since 1970, for stamps."""

    def effort(self) -> float:
        """Seconds of work of this thread: on a machine that is shared, less than what passes meanwhile."""

    def wait(self, timeout: float, wake: threading.Event) -> None:
        """Return after so many seconds, or when `wake` is set."""


class WallClock:
    """The real one."""

    def now(self) -> float:
        return time.monotonic()

    def unix(self) -> float:
        return time.time()

    def effort(self) -> float:
        return time.thread_time()

    def wait(self, timeout: float, wake: threading.Event) -> None:
        wake.wait(timeout)


def checked_speed(speed: float) -> float:
    """Virtual seconds per wall second; infinity means as fast as possible."""
    number = speed if speed == math.inf else positive_number("speed", speed)
    if number != math.inf and not SLOWEST <= number <= FASTEST:
        raise InvalidInputError("speed", f"a number from {SLOWEST:g} to {FASTEST:g}", speed)
    return number


class VirtualTime:
    """Where virtual time should be by now. It stands still unless somebody asks."""

    def __init__(self, clock: Clock, speed: float, now: float = 0.0) -> None:
        self._clock, self.speed = clock, speed
        self.set(now)

    def set(self, now: float) -> None:
        """It is `now`, and time goes on from here."""
        self._base, self._wall = now, self._clock.now()

    def change_speed(self, speed: float, now: float) -> None:
        self.set(now)
        self.speed = speed

    @property
    def due(self) -> float:
        """Infinity if there is no speed limit."""
        if self.speed == math.inf:
            return math.inf
        return self._base + (self._clock.now() - self._wall) * self.speed

    def slip(self, reached: float) -> None:
        """Forgive what a slow machine cannot make up for: a backlog of virtual time must not grow without end."""
        if self.due - reached > _MOST_BEHIND * self.speed:
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

    _UPDATES = 8

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=self._UPDATES)

    def add(self, now: float, tasks: int) -> None:
        """Note how many tasks there have been by now."""
        self._points.append((now, tasks))

    def clear(self) -> None:
        """Start anew, as after a pause."""
        self._points.clear()

    @property
    def value(self) -> float:
        """The rate; 0 before the second update."""
        if len(self._points) < 2:
            return 0.0
        (then, before), (now, tasks) = self._points[0], self._points[-1]
        return (tasks - before) / (now - then) if now > then else 0.0
