"""Kernels and variants as tasks of the graph: what each device runs for one decision, and how kernels are split.

Rows of a product, of a sum and of a sparse matrix do not depend on each other, and a sum is the sum of its parts.
Sorts, transforms, factorisations and convolutions (whose rows depend on their neighbours) are not split: their
parts would have to exchange data.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any, NamedTuple

from ..core import Outcome, Platform, Task
from ..profiling.machine_info import need_torch
from .accelerators import AcceleratorBackend
from .device_discovery import DevicePool
from .submission import ExecutionRecord, KernelCall, Variants, run_variant
from .task_future import DirectTask
from .task_graph import TaskGraph

Tensors = tuple[Any, ...]
#: Runs a part on the backend of a device.
RunPart = Callable[[Any, DevicePool], Any]
#: Below this many bytes of input the second launch and the joining cost more than the division gains.
MIN_BYTES = 4_000_000


class Division(NamedTuple):
    """How a kernel is split.

    Attributes
    ----------
    parts : callable
        Returns the inputs of the first part and of the rest.
    join : callable
        Makes one result of two.
    result_shape : callable or None
        Shape of the result, if both parts write their rows into one memory: joining afterwards would copy
        everything once more.
    into : callable or None
        Runs a part with its result written into given memory.
    """

    parts: Callable[[Tensors, float], tuple[Tensors, Tensors]]
    join: Callable[[Tensors, Tensors], Tensors]
    result_shape: Callable[[Tensors], tuple[int, ...]] | None = None
    into: Callable[[Tensors, Any], object] | None = None


def _cut(rows: int, fraction: float) -> int:
    """Return the row at which to cut, with at least one row on each side."""
    return min(max(round(rows * fraction), 1), rows - 1)


def _by_rows(shared: int) -> Callable[[Tensors, float], tuple[Tensors, Tensors]]:
    """Divide the first inputs by rows; the last `shared` ones go to both parts."""

    def parts(inputs: Tensors, fraction: float) -> tuple[Tensors, Tensors]:
        own, common = inputs[: len(inputs) - shared], inputs[len(inputs) - shared :]
        at = _cut(len(own[0]), fraction)
        return (*(x[:at] for x in own), *common), (*(x[at:] for x in own), *common)

    return parts


def _sparse_rows(inputs: Tensors, fraction: float) -> tuple[Tensors, Tensors]:
    ends, places, values, vector = inputs
    at = _cut(len(ends) - 1, fraction)
    middle = int(ends[at])
    first = ends[: at + 1], places[:middle], values[:middle], vector
    return first, (ends[at:] - ends[at], places[middle:], values[middle:], vector)


def _first(first: Tensors, rest: Tensors) -> Tensors:
    """Return the first result: both parts wrote into the same memory."""
    return first


def _add(first: Tensors, rest: Tensors) -> Tensors:
    return tuple(a + b for a, b in zip(first, rest, strict=True))


def _product_into(inputs: Tensors, target: Any) -> object:
    import torch

    return torch.mm(inputs[0], inputs[1], out=target)


def _sum_into(inputs: Tensors, target: Any) -> object:
    import torch

    return torch.add(inputs[0], inputs[1], alpha=0.5, out=target)


DIVISIONS: dict[str, Division] = {
    "matmul": Division(_by_rows(1), _first, lambda x: (len(x[0]), x[1].shape[1]), _product_into),
    "elementwise": Division(_by_rows(0), _first, lambda x: tuple(x[0].shape), _sum_into),
    "reduction": Division(_by_rows(0), _add),
    "sparse": Division(_sparse_rows, _first, lambda x: (len(x[0]) - 1,)),
}


def can_split(kind: str, bytes_in: float) -> bool:
    """Return whether a kernel can be split, and its inputs are large enough for that to gain time."""
    return kind in DIVISIONS and bytes_in >= MIN_BYTES


# ------------------------------------------------------------------------------------------ tasks and their parts

#: Seconds of a fraction of a task on a device; 0 if nothing is known.
Predict = Callable[[Task, int, float], float]
#: Seconds that a part of unknown duration counts for in a queue, so that the shorter of two queues is free first.
_UNKNOWN = 1e-6


class TaskOwner(NamedTuple):
    """Executor of tasks, as their parts use it.

    Attributes
    ----------
    graph : TaskGraph
        Runs the parts.
    pools : sequence of DevicePool
        Its devices.
    on_device_error : callable
        Sends a part to another device after an error of its own; returns False if its task fails with it.
    on_end : callable
        Called with a task and its error, or None, before its future has the error or the result.
    on_late_result : callable
        Called after a part has run whose task had ended.
    """

    graph: TaskGraph
    pools: Sequence[DevicePool]
    on_device_error: Callable[[TaskPart, BaseException], bool]
    on_end: Callable[[PlacedTask, BaseException | None], None]
    on_late_result: Callable[[], None]


class PlacedTask:
    """A kernel or variant as the scheduler sees it, with its parts and its record.

    Parameters
    ----------
    owner : TaskOwner
        The executor.
    task : Task
        The task as schedulers see it.
    record : ExecutionRecord
        Filled when the task ends.
    timeout : float or None
        Time limit of a run in seconds.
    """

    def __init__(self, owner: TaskOwner, task: Task, record: ExecutionRecord, timeout: float | None) -> None:
        self.owner, self.task, self.record, self.timeout = owner, task, record, timeout
        self.parts: list[TaskPart] = []
        self.join: Callable[[Any, Any], Any] | None = None
        self.device = 0
        self._lock = threading.Lock()
        self._ended_parts = 0

    def is_last_part(self) -> bool:
        """Count a part that has ended; return whether it was the last one."""
        with self._lock:
            self._ended_parts += 1
            return self._ended_parts == len(self.parts)

    def release(self) -> None:
        """Drop the parts, which refer to the task.

        In such a cycle results would wait for the garbage collector, and the page-locked memory of large ones is
        needed at once.
        """
        self.parts, self.join = [], None

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
        record.device = platform.devices[self.device].name

    def outcome(self, platform: Platform) -> Outcome | None:
        """Return the outcome for schedulers; None if both parts of a split ran on the CPU."""
        nan = float("nan")
        on_cpu = [part for part in self.parts if platform.is_cpu[part.device]]
        on_gpu = [part for part in self.parts if not platform.is_cpu[part.device]]
        if len(on_cpu) > 1:
            return None
        cpu_start, cpu_time = (on_cpu[0].started, on_cpu[0].repeatable_seconds) if on_cpu else (nan, 0.0)
        start, seconds = (on_gpu[0].started, on_gpu[0].repeatable_seconds) if on_gpu else (nan, 0.0)
        fraction = on_gpu[0].fraction if on_gpu else 0.0
        device = (on_gpu or on_cpu)[0].device
        return Outcome(
            self.task.task_id, device, fraction, self.task.arrival_time, cpu_start, cpu_time, start, seconds
        )


class TaskPart(DirectTask):
    """Part of a task that one device executes: all of it, or one side of a split.

    Parameters
    ----------
    placed : PlacedTask
        Its task.
    device : int
        Device index.
    fraction : float
        Fraction of the task.
    run : callable
        Runs it, given the device's backend and pool.
    expected : float
        Expected seconds; 0 if nothing is known.
    whole : SplitTask, optional
        Future of the task if it is split; else this part is the task's future.
    """

    #: Seconds of the run that went into memory which later runs reuse.
    preparing = 0.0

    def __init__(
        self,
        placed: PlacedTask,
        device: int,
        fraction: float,
        run: RunPart,
        expected: float,
        whole: SplitTask | None = None,
    ) -> None:
        graph = placed.owner.graph
        super().__init__(graph, next(graph.numbers), run, (), {})
        self.placed, self.fraction, self.whole = placed, fraction, whole
        self.send_to(device, expected)

    def send_to(self, device: int, expected: float) -> None:
        """Set the device and the expected seconds there."""
        self.device, self.space = device, device + 1
        self.expected, self.predicted = expected, expected or _UNKNOWN

    @property
    def repeatable_seconds(self) -> float:
        """Seconds without preparation: what the next run like it will take."""
        return self.finished - self.started - self.preparing

    def begin(self) -> bool:
        """Mark the part and its task as running; return False if the task was cancelled or has failed."""
        if not super().begin():
            return False
        if self.whole is None or self.whole.begin():
            return True
        self.graph.fail(self, CancelledError())
        return False

    def cancel(self) -> bool:
        """Cancel the task if no part of it has begun."""
        return super().cancel() if self.whole is None else self.whole.cancel()

    def cancel_part(self) -> None:
        """Cancel this part of a task that was cancelled."""
        super().cancel()

    def run_on(self, accelerator: Any) -> Any:
        """Run on a backend, and measure it."""
        before = accelerator.preparing
        try:
            return self.function(accelerator, self.placed.owner.pools[self.device])
        finally:
            self.finished, self.preparing = self.graph.clock(), accelerator.preparing - before

    def move(self, error: BaseException) -> bool:
        """Go to another device if the executor says so, unless the task has ended."""
        if self.whole is not None and self.whole.ended:
            return False
        return self.placed.owner.on_device_error(self, error)

    def ending(self, error: BaseException | None) -> None:
        """End the task, if this was its only or its last part, or if it failed."""
        placed, whole, graph = self.placed, self.whole, self.graph
        if whole is None:
            placed.owner.on_end(placed, error)
        elif error is not None:
            graph.fail(whole, error)
        elif placed.is_last_part() and placed.join is not None:
            try:
                result = placed.join(*(part.value for part in placed.parts))
            except Exception as caught:
                graph.fail(whole, caught)
            else:
                graph.complete(whole, result)

    def ended_late(self) -> None:
        """Count a result that nothing waits for."""
        self.placed.owner.on_late_result()


class SplitTask(DirectTask):
    """Future of a task with two parts; it waits in no queue.

    Parameters
    ----------
    placed : PlacedTask
        The task.
    """

    def __init__(self, placed: PlacedTask) -> None:
        graph = placed.owner.graph
        super().__init__(graph, next(graph.numbers), None, (), {})
        self.placed = placed

    def cancel(self) -> bool:
        """Cancel the task if no part of it has begun."""
        parts = list(self.placed.parts)
        done = super().cancel()
        if done:
            for part in parts:
                part.cancel_part()
        return done

    def ending(self, error: BaseException | None) -> None:
        """Let the executor record the end."""
        self.placed.owner.on_end(self.placed, error)


def add_parts(
    placed: PlacedTask,
    work: KernelCall | Variants,
    run: RunPart,
    device: int,
    fraction: float,
    host: int,
    predict: Predict,
) -> DirectTask:
    """Make the parts of a task and return its future.

    Parameters
    ----------
    placed : PlacedTask
        The task; its parts are set: one on the device or, if it is split, one there and the rest on the CPU.
    work : KernelCall or Variants
        What to run.
    run : callable
        Runs all of it on one device.
    device : int
        Device index.
    fraction : float
        Fraction of the task on the device; strictly between 0 and 1 if the task is split.
    host : int
        Index of the CPU beside the device.
    predict : callable
        Returns seconds of a fraction of the task on a device.
    """
    placed.device, task = device, placed.task
    if isinstance(work, Variants) or not 0.0 < fraction < 1.0:
        placed.parts = [TaskPart(placed, device, 1.0, run, predict(task, device, 1.0))]
        return placed.parts[0]
    division = DIVISIONS[work.kind]
    pinned = placed.owner.pools[device].where.startswith("cuda")
    runs = (
        _in_place(work, division, fraction, pinned=pinned)
        if division.result_shape
        else _joined(work, division, fraction)
    )
    whole = SplitTask(placed)
    sides = (device, fraction), (host, 1.0 - fraction)
    placed.parts = [
        TaskPart(placed, where, part, run, predict(task, where, part), whole)
        for (where, part), run in zip(sides, runs, strict=True)
    ]
    placed.join = division.join
    return whole


def run_task(
    backend: AcceleratorBackend, work: KernelCall | Variants, timeout: float | None, *, accelerator: bool
) -> Any:
    """Run a kernel that has its inputs, or a variant, to the end; data is in main memory before and after.

    Parameters
    ----------
    backend : AcceleratorBackend
        The device.
    work : KernelCall or Variants
        What to run.
    timeout : float or None
        Time limit of a command.
    accelerator : bool
        Whether the variant for accelerators runs.
    """
    if isinstance(work, KernelCall):
        assert work.inputs is not None
        return _fetched(backend, _started(backend, work.kernel.run, work.inputs))
    result = run_variant(work, work.on(accelerator), timeout)
    backend.finish(backend.mark())
    return result


def _started(backend: AcceleratorBackend, run: Callable[[Tensors], Tensors], inputs: Tensors) -> Tensors:
    """Copy inputs to a device and run there; the results are on the device and may not be complete."""
    copies = tuple(map(backend.upload, inputs))
    backend.mark()  # what is started from now on waits for the copies
    results: Tensors = backend.run(run, (copies,), {})
    return results


def _fetched(backend: AcceleratorBackend, results: Tensors) -> Tensors:
    event = backend.mark()
    return tuple(backend.download(one, event) if backend.holds(one) else one for one in results)


def _joined(call: KernelCall, division: Division, fraction: float) -> list[RunPart]:
    """Run both parts with a result of its own each."""
    assert call.inputs is not None
    return [
        lambda backend, _, inputs=inputs: _fetched(backend, _started(backend, call.kernel.run, inputs))  # type: ignore[misc]
        for inputs in division.parts(call.inputs, fraction)
    ]


class _ResultMemory:
    """Memory of a result, allocated by the first part that runs: tasks in a queue hold none."""

    def __init__(self, shape: Sequence[int], *, pinned: bool) -> None:
        self._shape, self._pinned, self._lock, self._made = shape, pinned, threading.Lock(), None

    def get(self, backend: Any) -> Any:
        began = time.perf_counter()
        with self._lock:
            if self._made is None:
                self._made = need_torch().empty(self._shape, pin_memory=self._pinned)
        backend.preparing += time.perf_counter() - began
        return self._made


def _in_place(call: KernelCall, division: Division, fraction: float, *, pinned: bool) -> list[RunPart]:
    """Let both parts write their rows into one result."""
    assert call.inputs is not None
    assert division.result_shape is not None
    memory = _ResultMemory(division.result_shape(call.inputs), pinned=pinned)
    first, rest = division.parts(call.inputs, fraction)
    rows = division.result_shape(first)[0]
    shares = (first, slice(None, rows)), (rest, slice(rows, None))
    return [_write_rows(call, division, inputs, memory, share) for inputs, share in shares]


def _write_rows(
    call: KernelCall, division: Division, inputs: Tensors, memory: _ResultMemory, rows: slice
) -> RunPart:
    def run(backend: AcceleratorBackend, pool: DevicePool) -> Tensors:
        whole = memory.get(backend)
        if division.into is not None and not pool.is_accelerator:
            division.into(inputs, whole[rows])
        else:
            whole[rows].copy_(_started(backend, call.kernel.run, inputs)[0])
        return (whole,)

    return run
