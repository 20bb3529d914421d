"""Parts of tasks: what each device worker runs for one decision, and how kernels are split in two.

Rows of a product, of a sum and of a sparse matrix do not depend on each other, and a sum is the sum of its parts.
Sorts, transforms, factorisations and convolutions (whose rows depend on their neighbours) are not split: their
parts would have to exchange data.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core import Task
from ..profiling.machine_info import need_torch
from .device_backends import CpuBackend, Into, Run
from .device_pools import DevicePool
from .device_workers import TaskPart
from .running_task import RunningTask
from .submission import KernelCall, Variants

Tensors = tuple[Any, ...]
#: Below this many bytes of input the second launch and the joining cost more than the division gains.
LEAST_BYTES = 4_000_000


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


def _cut(rows: int, share: float) -> int:
    """Return the row at which to cut, with at least one row on each side."""
    return min(max(round(rows * share), 1), rows - 1)


def _by_rows(shared: int) -> Callable[[Tensors, float], tuple[Tensors, Tensors]]:
    """Divide the first inputs by rows; the last `shared` ones go to both parts."""

    def parts(inputs: Tensors, share: float) -> tuple[Tensors, Tensors]:
        own, common = inputs[: len(inputs) - shared], inputs[len(inputs) - shared :]
        at = _cut(len(own[0]), share)
        return (*(x[:at] for x in own), *common), (*(x[at:] for x in own), *common)

    return parts


def _sparse_rows(inputs: Tensors, share: float) -> tuple[Tensors, Tensors]:
    ends, places, values, vector = inputs
    at = _cut(len(ends) - 1, share)
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
    return kind in DIVISIONS and bytes_in >= LEAST_BYTES


#: Seconds of a share of a task on a device.
Predict = Callable[[Task, int, float], float]


def parts_of(
    running: RunningTask,
    work: KernelCall | Variants,
    device: int,
    fraction: float,
    host: int,
    pools: Sequence[DevicePool],
    predict: Predict,
) -> list[TaskPart]:
    """Return the parts of a task: one on the device or, if it is split, one there and the rest on the CPU.

    Parameters
    ----------
    running : RunningTask
        The task; its parts are set.
    work : KernelCall or Variants
        What to run.
    device : int
        Device index.
    fraction : float
        Share of the device; strictly between 0 and 1 if the task is split.
    host : int
        Index of the CPU beside the device.
    pools : sequence of DevicePool
        All devices.
    predict : callable
        Returns seconds of a share of the task on a device.
    """
    if isinstance(work, Variants) or not 0.0 < fraction < 1.0:
        run = _variant(work, running.timeout) if isinstance(work, Variants) else _kernel(work)
        parts = [TaskPart(running, device, 1.0, run, predict(running.task, device, 1.0))]
        running.divide(parts, device)
        return parts
    division = DIVISIONS[work.kind]
    pinned = pools[device].where.startswith("cuda")
    runs = (
        _in_place(work, division, fraction, pinned=pinned)
        if division.result_shape
        else _joined(work, division, fraction)
    )
    shares = (device, fraction), (host, 1.0 - fraction)
    parts = [
        TaskPart(running, where, share, run, predict(running.task, where, share), place)
        for place, ((where, share), run) in enumerate(zip(shares, runs, strict=True))
    ]
    running.divide(parts, device, division.join)
    return parts


def _variant(work: Variants, timeout: float | None) -> Callable[[CpuBackend], Any]:
    """Run the variant for the device on which the part finally runs."""
    return lambda backend: backend.call(work, work.on(backend.pool.is_accelerator), timeout)


def _kernel(call: KernelCall) -> Callable[[CpuBackend], Any]:
    return lambda backend: backend.kernel(call)


def _joined(call: KernelCall, division: Division, fraction: float) -> list[Callable[[CpuBackend], Any]]:
    """Run both parts with a result of its own each."""
    assert call.inputs is not None
    return [_execute(call.kernel.run, inputs) for inputs in division.parts(call.inputs, fraction)]


class _ResultMemory:
    """Memory of a result, allocated by the first part that runs: tasks in a queue hold none."""

    def __init__(self, shape: Sequence[int], *, pinned: bool) -> None:
        self._shape, self._pinned, self._lock, self._made = shape, pinned, threading.Lock(), None

    def get(self, backend: CpuBackend) -> Any:
        began = time.perf_counter()
        with self._lock:
            if self._made is None:
                self._made = need_torch().empty(self._shape, pin_memory=self._pinned)
        backend.preparing += time.perf_counter() - began
        return self._made


def _in_place(
    call: KernelCall, division: Division, fraction: float, *, pinned: bool
) -> list[Callable[[CpuBackend], Any]]:
    """Let both parts write their rows into one result."""
    assert call.inputs is not None
    assert division.result_shape is not None
    memory = _ResultMemory(division.result_shape(call.inputs), pinned=pinned)
    first, rest = division.parts(call.inputs, fraction)
    rows = division.result_shape(first)[0]
    run, into = call.kernel.run, division.into
    return [
        _execute_into(run, into, inputs, memory, share)
        for inputs, share in ((first, slice(None, rows)), (rest, slice(rows, None)))
    ]


def _execute(run: Run, inputs: tuple[Any, ...]) -> Callable[[CpuBackend], Any]:
    return lambda backend: backend.execute(run, inputs)


def _execute_into(
    run: Run, into: Into | None, inputs: tuple[Any, ...], memory: _ResultMemory, share: slice
) -> Callable[[CpuBackend], Any]:
    def go(backend: CpuBackend) -> tuple[Any, ...]:
        whole = memory.get(backend)
        backend.execute_into(run, into, inputs, whole[share])
        return (whole,)

    return go
