"""Queue of a scheduler that binds tasks when they start, event by event.

The compiled loops over whole workloads keep the queue of `compiled/late_binding.py` in heaps; this one gives the
same order, with ordinary objects.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import types

from ..compiled import compiled, entry
from ..compiled.late_binding import (
    MAX_SKIPPED_PER_PASS,
    QUEUE_ARRAYS,
    UNKNOWN_WORK,
    WORK,
    QueueArrays,
    deferred_key,
    set_coefficients,
)
from ..core import Central, Decision, Floats, Queue, Task, View

_DEFERRED = types.float64(QUEUE_ARRAYS, types.float64, types.float64, types.float64)

#: Arrays of the queue that a continued run restores.
_STORED = ("prices", "totals", "classes", "regime")


@entry
def _deferred_one(arrays, release, key, work):  # type: ignore[no-untyped-def]
    """Call `deferred_key` from Python."""
    return deferred_key(arrays, release, key, work)


@entry
def _set_coefficients_one(arrays):  # type: ignore[no-untyped-def]
    """Call `set_coefficients` from Python."""
    set_coefficients(arrays)


@dataclass(slots=True)
class WaitingTask:
    """A task of the queue.

    Parameters
    ----------
    task, times
        The task, and its known durations; None if they are learned.
    release
        Time at which it came.
    key, work
        Its place in the order of the queue, and its priced work.
    """

    task: Task
    times: Floats | None
    release: float
    key: float
    work: float


class QueuePlanner(Central):
    """Frame of schedulers that plan one queue again at every event; subclasses give durations.

    A subclass sets `queue_arrays` and calls `clear_queue` in `start`.
    """

    queue_arrays: QueueArrays

    @abstractmethod
    def admit(self, task: Task, times: Floats | None, now: float) -> tuple[float, float]:
        """Return the key by which a released task waits, and its priced work."""

    @abstractmethod
    def plan(
        self, entry: WaitingTask, now: float, planned: Floats, behind: float
    ) -> tuple[int, float, bool, float]:
        """Return device, share, whether the task starts now, and its priced work.

        Parameters
        ----------
        entry
            The task.
        now
            Current time.
        planned
            When each device is free of the tasks before; a task that does not start is added.
        behind
            Priced work of this task and of those after it.
        """

    def clear_queue(self) -> None:
        """Forget all waiting tasks."""
        #: Waiting tasks by release number, the numbers in ascending order, as the queue's positions, and by key.
        self.waiting: dict[int, WaitingTask] = {}
        self._numbers: list[int] = []
        self._order: list[tuple[float, int]] = []
        self.released = 0
        #: Keys and numbers of the tasks that this pass may still plan.
        self.candidates: list[tuple[float, int]] = []

    def _enter(self, entry: WaitingTask) -> None:
        self.waiting[self.released] = entry
        self._numbers.append(self.released)
        insort(self._order, (entry.key, self.released))
        self.released += 1

    def begin_pass(self, queue: Queue, view: View) -> None:
        """Admit the tasks that were released since the last pass, and begin to plan the queue."""
        first = len(self._numbers)
        # A copy, because a row of the whole table would keep the table as long as its task waits.
        times = queue.times[first:].copy() if self.setting.times is not None and first < len(queue) else None
        for position in range(first, len(queue)):
            task = queue[position]
            row = None if times is None else times[position - first]
            self._enter(WaitingTask(task, row, view.now, *self.admit(task, row, view.now)))
        self.candidates = self._order.copy()
        #: When each device is free of the tasks that this pass has planned.
        self.planned = view.free_at.copy()
        self._behind = float(self.queue_arrays.totals[WORK])
        self._skipped = 0

    def may_start(self, now: float) -> bool:
        """Return whether this pass has candidates left, and a device that is idle."""
        return bool(self.candidates) and self._skipped < MAX_SKIPPED_PER_PASS and bool((self.planned <= now).any())

    def plan_next(self, now: float, choice: int = 0) -> tuple[int, Decision] | None:
        """Plan one of the candidates; return its position in the queue and its placement if it starts now."""
        totals = self.queue_arrays.totals
        key, number = self.candidates.pop(choice)
        entry = self.waiting[number]
        entry.key = compiled(_deferred_one, _DEFERRED)(self.queue_arrays, entry.release, key, entry.work)
        if entry.key > key:
            del self._order[bisect_left(self._order, (key, number))]
            for order in (self._order, self.candidates):
                insort(order, (entry.key, number))
            return None
        known = entry.work != UNKNOWN_WORK
        device, share, begins, entry.work = self.plan(entry, now, self.planned, self._behind)
        if known:
            self._behind -= entry.work
        if not begins:
            self._skipped += 1
            return None
        if entry.work != UNKNOWN_WORK:
            totals[WORK] -= entry.work
        position = bisect_left(self._numbers, number)
        del self._order[bisect_left(self._order, (key, number))], self._numbers[position], self.waiting[number]
        if not self.waiting:
            totals[WORK] = 0.0
        return position, Decision(int(device), float(share))

    def starts(self, queue: Queue, view: View) -> Iterator[tuple[int, Decision]]:
        """Plan the queue and yield the tasks that start now; see `Central.starts`."""
        self.begin_pass(queue, view)
        while self.may_start(view.now):
            start = self.plan_next(view.now)
            if start is not None:
                yield start
                np.maximum(self.planned, view.free_at, out=self.planned)

    def queue_state(self) -> dict[str, Floats]:
        """Return the arrays of the queue and the keys of the waiting tasks; see `Central.queue_state`."""
        entries = [(entry.release, entry.key, entry.work) for entry in self.waiting.values()]
        keys = np.array(entries, np.float64).reshape(-1, 3).ravel()
        return {name: getattr(self.queue_arrays, name).copy() for name in _STORED} | {"waiting": keys}

    def restore_queue(self, state: dict[str, Floats], queue: Queue) -> None:
        """Continue with these waiting tasks; see `Central.restore_queue`."""
        # Runs of earlier versions have no classes and no regime, fewer totals and no blocks of the prices. An agent
        # whose policy was refused has no regime now.
        for name in _STORED:
            own = getattr(self.queue_arrays, name)
            stored = state.get(name, np.zeros(0))[: len(own)]
            own[: len(stored)] = stored
        if len(self.queue_arrays.regime):
            compiled(_set_coefficients_one, types.void(QUEUE_ARRAYS))(self.queue_arrays)
        times = queue.times if self.setting.times is not None else None
        self.clear_queue()
        for position, (release, key, work) in enumerate(state["waiting"].reshape(-1, 3).tolist()):
            row = None if times is None else times[position]
            self._enter(WaitingTask(queue[position], row, release, key, work))
