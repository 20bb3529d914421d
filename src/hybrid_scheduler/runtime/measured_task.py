"""Kernels, commands and pairs of variants as tasks of the graph, and the parts of them that devices run."""

from __future__ import annotations

import math
import threading
from concurrent.futures import CancelledError
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..core import Outcome, Platform, Task
from .kernel_split import RunPart
from .submission import ExecutionRecord, KernelCall, Variants
from .task_future import DirectTask, TaskFuture

if TYPE_CHECKING:
    from .kernel_tasks import KernelTasks

#: Seconds that a part of unknown duration counts for in a queue, so that the shorter of two queues is free first.
_UNKNOWN = 1e-6


class KernelTask(DirectTask):
    """Future of a kernel, a command or a pair of variants; its parts wait in the queues of devices.

    Parameters
    ----------
    owner : KernelTasks
        Learns of its end, and sends its parts elsewhere after an error of their device.
    task : Task
        The task as schedulers see it.
    work : KernelCall or Variants
        What to run.
    record : ExecutionRecord
        Filled when the task ends.
    limit : float or None
        Time limit of a run in seconds.
    """

    def __init__(
        self,
        owner: KernelTasks,
        task: Task,
        work: KernelCall | Variants,
        record: ExecutionRecord,
        limit: float | None,
    ) -> None:
        super().__init__(owner.graph, next(owner.graph.numbers), work, (), {})
        self.owner = owner
        self.task = task
        self.record = record
        self.limit = limit
        self.parts: list[KernelPart] = []
        self._lock = threading.Lock()
        self._ended_parts = 0

    def divide(self, runs: list[RunPart], shares: list[tuple[int, float]]) -> None:
        """Make the parts, each with its device and its share."""
        self.parts = [
            KernelPart(self, device, share, run) for run, (device, share) in zip(runs, shares, strict=True)
        ]

    def cancel(self) -> bool:
        """Cancel the task if no part of it has begun."""
        parts = list(self.parts)
        done = super().cancel()
        if done:
            for part in parts:
                TaskFuture.cancel(part)
        return done

    def end_part(self) -> None:
        """End the task if its last part has ended, with the joined results."""
        with self._lock:
            self._ended_parts += 1
            is_last = self._ended_parts == len(self.parts)
        if not is_last:
            return
        results = [part.value for part in self.parts]
        try:
            result = results[0] if len(results) == 1 else self.function.split.join(*results)
        except Exception as caught:
            self.graph.fail(self, caught)
        else:
            self.graph.complete(self, result)

    def ending(self, error: BaseException | None) -> None:
        """Let the executor record the end."""
        self.owner.ended(self, error)

    def measure(self, platform: Platform, finished: float) -> None:
        """Fill the record from the parts; two of them end when their results are joined."""
        record = self.record
        record.started = min(part.started for part in self.parts)
        record.finished = self.parts[0].finished if len(self.parts) == 1 else finished
        record.measured = record.finished - record.started
        record.wait = record.started - record.submitted
        for part in self.parts:
            if platform.is_cpu[part.device]:
                record.cpu_seconds += part.finished - part.started
                record.cpu_started = min(part.started, record.cpu_started or math.inf)
            else:
                record.accelerator_seconds += part.finished - part.started
                record.accelerator_started = part.started
        if len(self.parts) == 1:  # it may have been sent elsewhere
            record.device = platform.devices[self.parts[0].device].name

    def outcome(self, platform: Platform) -> Outcome | None:
        """Return the outcome for schedulers; None if both parts of a split ran on the CPU."""
        sides = {bool(platform.is_cpu[part.device]): part for part in self.parts}
        if len(sides) < len(self.parts):
            return None
        (cpu_start, cpu_time), (start, seconds) = (
            (part.started, part.repeatable_seconds) if (part := sides.get(on_cpu)) else (math.nan, 0.0)
            for on_cpu in (True, False)
        )
        first = sides[min(sides)]
        task = self.task
        fraction = first.fraction if False in sides else 0.0
        return Outcome(task.task_id, first.device, fraction, task.arrival_time, cpu_start, cpu_time, start, seconds)


class KernelPart(DirectTask):
    """Part of a task that one device executes: all of it, or one side of a split.

    Parameters
    ----------
    whole : KernelTask
        Its task.
    device : int
        Device index.
    fraction : float
        Fraction of the task.
    run : callable
        Runs it, given the device's backend and pool.
    """

    #: Seconds of the run that went into memory which later runs reuse.
    preparing = 0.0

    def __init__(self, whole: KernelTask, device: int, fraction: float, run: RunPart) -> None:
        super().__init__(whole.graph, whole.number, run, (), {})
        self.whole = whole
        self.fraction = fraction
        self.send_to(device)

    def send_to(self, device: int) -> None:
        """Set the device, and the expected seconds there."""
        owner = self.whole.owner
        self.device = device
        self.space = owner.workers[device].space
        self.expected = owner.predict(self.whole.task, device, self.fraction)
        self.predicted = self.expected or _UNKNOWN

    @property
    def repeatable_seconds(self) -> float:
        """Seconds without preparation: what the next run like it will take."""
        return self.finished - self.started - self.preparing

    def begin(self) -> bool:
        """Mark the part and its task as running; return False if the task was cancelled or has failed."""
        if not super().begin():
            return False
        if self.whole.begin():
            return True
        self.graph.fail(self, CancelledError())
        return False

    def cancel(self) -> bool:
        """Cancel the task if no part of it has begun."""
        return self.whole.cancel()

    def run_on(self, accelerator: Any) -> Any:
        """Run on a backend, and measure it; a pool of CPU threads takes them from the cores."""
        owner = self.whole.owner
        before = accelerator.preparing
        pool = owner.pools[self.device]
        cores = self.graph.cores.lend(pool.threads) if owner.uses_cores(self.device) else nullcontext()
        try:
            with cores:
                return self.function(accelerator, pool)
        finally:
            self.finished = self.graph.clock()
            self.preparing = accelerator.preparing - before

    def move(self, error: BaseException) -> bool:
        """Go to another device if the executor says so, unless the task has ended."""
        return not self.whole.ended and self.whole.owner.move(self, error)

    def ending(self, error: BaseException | None) -> None:
        """End the task, if this was its last part, or if it failed."""
        if error is not None:
            self.graph.fail(self.whole, error)
        else:
            self.whole.end_part()

    def ended_late(self) -> None:
        """Count a result that nothing waits for."""
        self.whole.owner.count_late()
