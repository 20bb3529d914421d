"""Sliding window over the last outcomes, the oldest overwritten first."""

from __future__ import annotations

import numpy as np

from ...core import Floats, Ints, Outcome, Platform, Task, Workload
from .features import features_of
from .fitting import Samples


class SlidingWindow:
    """Up to `length` finished tasks with their observed log seconds."""

    def __init__(self, length: int, platform: Platform) -> None:
        self.reference = int(platform.class_of[np.argmax(platform.is_cpu)])
        self._tasks = np.empty((length, 3))  # size, intensity, memory
        self._logs, self._fixed = np.empty((2, length, len(platform.classes)))
        self.seen = 0

    def __len__(self) -> int:
        return min(self.seen, len(self._tasks))

    def add(self, task: Task, logs: Floats, fixed: Floats) -> None:
        """Add one finished task."""
        place = self.seen % len(self._tasks)
        self._tasks[place] = task.size, task.compute_intensity, task.memory_required
        self._logs[place], self._fixed[place] = logs, fixed
        self.seen += 1

    def keep(self, count: int) -> None:
        """Drop all but the newest `count` tasks."""
        order = self._order()[-count:]
        for column in (self._tasks, self._logs, self._fixed):
            column[: len(order)] = column[order]
        self.seen = len(order)

    def tasks(self) -> Workload:
        """Return the tasks in the window, oldest first, as a workload that arrives at once."""
        return tasks_as_workload(self._tasks[self._order()])

    def samples(self) -> Samples:
        """Return the window as training samples, oldest first."""
        order = self._order()
        rows = features_of(*np.ascontiguousarray(self._tasks[order].T))
        return Samples(rows, self._logs[order], self._fixed[order], self.reference)

    def _order(self) -> Ints:
        length = len(self._tasks)
        return (np.arange(len(self)) + (self.seen if self.seen > length else 0)) % length


def tasks_as_workload(tasks: Floats) -> Workload:
    """Convert rows of (size, intensity, memory) to tasks that all arrive at time 0."""
    size, intensity, memory = tasks.T
    return Workload(
        task_id=np.arange(len(tasks)),
        size=size,
        compute_intensity=intensity,
        memory_required=memory,
        arrival_time=np.zeros(len(tasks)),
    )


def observed(outcome: Outcome, platform: Platform, *, labels: bool) -> tuple[Floats, Floats]:
    """Return log seconds of the whole task and seconds to start a part, per class of device; NaN where unknown.

    With `labels` these are the simulation's own for every class; otherwise they follow from the executed parts: a
    CPU part of c seconds for a share 1 - f means c / (1 - f) for the whole. One part alone does not reveal launch
    seconds.
    """
    if labels and outcome.labels is not None:
        whole = outcome.labels[:, 0]
        return np.log(np.where(whole > 0, whole, np.nan)), np.array(outcome.labels[:, 1])
    logs, fixed = np.full((2, len(platform.classes)), np.nan)
    share = outcome.fraction
    if outcome.cpu_time > 0 and share < 1:
        logs[platform.class_of[platform.cpu_of[outcome.device]]] = np.log(outcome.cpu_time / (1.0 - share))
    if outcome.accelerator_time > 0 and share > 0:
        logs[platform.class_of[outcome.device]] = np.log(outcome.accelerator_time / share)
    return logs, fixed
