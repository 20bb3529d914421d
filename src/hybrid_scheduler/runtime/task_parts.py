"""From a decision to what workers run: a job's parts."""

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
    """One part on the device, or, with a share between 0 and 1, one there and the rest on its host's CPU."""
    if isinstance(work, Variants) or not 0.0 < fraction < 1.0:
        run = _variant(work, running.timeout) if isinstance(work, Variants) else _kernel(work)
        parts = [TaskPart(running, device, 1.0, run, predict(running.task, device, 1.0))]
        running.divide(parts, device)
        return parts
    division = DIVISIONS[work.kind]
    pinned = pools[device].where.startswith("cuda")
    runs = (
        _in_place(work, division, fraction, pinned=pinned) if division.room else _joined(work, division, fraction)
    )
    shares = (device, fraction), (host, 1.0 - fraction)
    parts = [
        TaskPart(running, where, share, run, predict(running.task, where, share), place)
        for place, ((where, share), run) in enumerate(zip(shares, runs, strict=True))
    ]
    running.divide(parts, device, division.join)
    return parts


def _variant(work: Variants, timeout: float | None) -> Callable[[CpuBackend], Any]:
    """The variant for the device where it runs in the end."""
    return lambda backend: backend.call(work, work.on(backend.pool.is_accelerator), timeout)


def _kernel(call: KernelCall) -> Callable[[CpuBackend], Any]:
    return lambda backend: backend.kernel(call)


def _joined(call: KernelCall, division: Division, fraction: float) -> list[Callable[[CpuBackend], Any]]:
    """Each part has a result of its own."""
    assert call.inputs is not None
    return [_carry(call.kernel.run, inputs) for inputs in division.parts(call.inputs, fraction)]


class _Room:
    """The memory of a result, made by the first part that runs: what waits in a queue holds none."""

    def __init__(self, shape: Sequence[int], *, pinned: bool) -> None:
        self._shape, self._pinned, self._lock, self._made = shape, pinned, threading.Lock(), None

    def ready(self, backend: CpuBackend) -> Any:
        began = time.perf_counter()
        with self._lock:
            if self._made is None:
                self._made = need_torch().empty(self._shape, pin_memory=self._pinned)
        backend.preparing += time.perf_counter() - began
        return self._made


def _in_place(
    call: KernelCall, division: Division, fraction: float, *, pinned: bool
) -> list[Callable[[CpuBackend], Any]]:
    """Both parts write their rows into one result."""
    assert call.inputs is not None
    assert division.room is not None
    room = _Room(division.room(call.inputs), pinned=pinned)
    first, rest = division.parts(call.inputs, fraction)
    rows = division.room(first)[0]
    run, into = call.kernel.run, division.into
    return [
        _carry_into(run, into, inputs, room, share)
        for inputs, share in ((first, slice(None, rows)), (rest, slice(rows, None)))
    ]


def _carry(run: Run, inputs: tuple[Any, ...]) -> Callable[[CpuBackend], Any]:
    return lambda backend: backend.carry(run, inputs)


def _carry_into(
    run: Run, into: Into | None, inputs: tuple[Any, ...], room: _Room, share: slice
) -> Callable[[CpuBackend], Any]:
    def go(backend: CpuBackend) -> tuple[Any, ...]:
        whole = room.ready(backend)
        backend.carry_into(run, into, inputs, whole[share])
        return (whole,)

    return go
