"""State of a submitted task between its decision and its end."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ..core import Outcome, Platform, Task
from .device_workers import TaskPart
from .submission import CANCELLED, ExecutionRecord

Join = Callable[[Any, Any], Any]


class RunningTask:
    """A submitted task with its parts; every change is made under its lock, and it ends once.

    Parameters
    ----------
    task : Task
        The task as schedulers see it.
    record : ExecutionRecord
        Filled when the task ends.
    timeout : float or None
        Time limit of its run in seconds.
    watched : bool
        Whether the limit must be watched; commands end themselves at their limit.
    """

    def __init__(self, task: Task, record: ExecutionRecord, timeout: float | None, *, watched: bool) -> None:
        self.task, self.record, self.timeout = task, record, timeout
        self.watched = watched and timeout is not None
        self.future: Future[Any] = Future()
        self.parts: list[TaskPart] = []
        self.join: Join | None = None
        self.device = 0
        self.lock = threading.Lock()
        self._begun = False
        self.ended = False
        self._missing = 0

    def divide(self, parts: list[TaskPart], device: int, join: Join | None = None) -> None:
        """Set the parts, the device that was chosen, and the function that joins two results."""
        self.parts, self.device, self.join, self._missing = parts, device, join, len(parts)

    def begin(self) -> tuple[bool, bool]:
        """Return whether a part should run, and whether it is the task's first."""
        with self.lock:
            if self.ended:
                return False, False
            if self._begun:
                return True, False
            if not self.future.set_running_or_notify_cancel():
                self.ended = True
                self.record.status = CANCELLED
                return False, True
            self._begun = True
            return True, True

    def part_ended(self, part: TaskPart) -> bool:
        """Count an ended part; return whether it was the last one."""
        with self.lock:
            self._missing -= 1
            return self._missing == 0 and not self.ended

    def end(self) -> bool:
        """End the task; return False if it had ended before."""
        with self.lock:
            first, self.ended = not self.ended, True
            return first

    def result(self) -> Any:
        """Return the result of the only part, or the joined results."""
        if self.join is None or len(self.parts) == 1:
            return self.parts[0].result
        first, rest = sorted(self.parts, key=lambda part: part.place)
        return self.join(first.result, rest.result)

    def release(self) -> None:
        """Drop the parts and their results.

        Parts refer to their task. In such a cycle results would wait for the garbage collector, and the page-locked
        memory of large ones is needed at once.
        """
        parts, self.parts, self.join = self.parts, [], None
        for part in parts:
            part.result = None

    # ---------------------------------------------------------------- measurements

    def measure(self, platform: Platform, finished: float) -> None:
        """Fill the record from the parts."""
        record = self.record
        record.started = min(part.started for part in self.parts)
        record.finished = finished
        record.measured = finished - record.started
        record.wait = record.started - record.submitted
        for part in self.parts:
            if platform.is_cpu[part.device]:
                record.cpu_seconds += part.ended - part.started
                record.cpu_started = min(part.started, record.cpu_started or math.inf)
            else:
                record.accelerator_seconds += part.ended - part.started
                record.accelerator_started = part.started
        record.device = platform.devices[self.device].name

    def outcome(self, platform: Platform) -> Outcome | None:
        """Return the outcome for schedulers; None if both parts of a split ran on the CPU."""
        nan = float("nan")
        on_cpu = [part for part in self.parts if platform.is_cpu[part.device]]
        on_gpu = [part for part in self.parts if not platform.is_cpu[part.device]]
        if len(on_cpu) > 1:
            return None
        cpu_start, cpu_time = (on_cpu[0].started, on_cpu[0].repeatable_seconds) if on_cpu else (nan, 0.0)
        start, time = (on_gpu[0].started, on_gpu[0].repeatable_seconds) if on_gpu else (nan, 0.0)
        fraction = on_gpu[0].share if on_gpu else 0.0
        device = (on_gpu or on_cpu)[0].device
        return Outcome(
            self.task.task_id, device, fraction, self.task.arrival_time, cpu_start, cpu_time, start, time
        )
