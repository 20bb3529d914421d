"""Construction of task parts: what each device worker runs for one decision."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..core import Task
from ..profiling.machine_info import need_torch
from .device_backends import CpuBackend, Into, Run
from .device_pools import DevicePool
from .device_workers import TaskPart
from .kernel_splitting import DIVISIONS, Division
from .running_task import RunningTask
from .submission import KernelCall, Variants

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
