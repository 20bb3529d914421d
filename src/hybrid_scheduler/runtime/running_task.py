"""A submitted task between its decision and its end: which parts it has, which of them are back."""

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
    """Every change is made under its lock, and it ends once."""

    def __init__(self, task: Task, record: ExecutionRecord, timeout: float | None, *, watched: bool) -> None:
        self.task, self.record, self.timeout = task, record, timeout
        #: Commands are ended by their own limit; anything else has to be watched.
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
        self.parts, self.device, self.join, self._missing = parts, device, join, len(parts)

    def begin(self) -> tuple[bool, bool]:
        """(whether to run, whether this was the first part to ask)."""
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
        """A part is back; True if it was the last one."""
        with self.lock:
            self._missing -= 1
            return self._missing == 0 and not self.ended

    def end(self) -> bool:
        """True for the first who ends it."""
        with self.lock:
            first, self.ended = not self.ended, True
            return first

    def result(self) -> Any:
        if self.join is None or len(self.parts) == 1:
            return self.parts[0].result
        first, rest = sorted(self.parts, key=lambda part: part.place)
        return self.join(first.result, rest.result)

    def release(self) -> None:
        """Forget the parts, which know the job: held by such a circle, results would wait for the collector, and
        the page-locked memory of large ones is missed at once."""
        parts, self.parts, self.join = self.parts, [], None
        for part in parts:
            part.result = None

    # ---------------------------------------------------------------- what is learned from it

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
        """As schedulers hear of it; None where the parts say nothing about devices (some were done elsewhere)."""
        nan = float("nan")
        on_cpu = [part for part in self.parts if platform.is_cpu[part.device]]
        there = [part for part in self.parts if not platform.is_cpu[part.device]]
        if len(on_cpu) > 1:
            return None
        cpu_start, cpu_time = (on_cpu[0].started, on_cpu[0].lasting) if on_cpu else (nan, 0.0)
        start, time = (there[0].started, there[0].lasting) if there else (nan, 0.0)
        fraction = there[0].share if there else 0.0
        device = (there or on_cpu)[0].device
        return Outcome(
            self.task.task_id, device, fraction, self.task.arrival_time, cpu_start, cpu_time, start, time
        )
