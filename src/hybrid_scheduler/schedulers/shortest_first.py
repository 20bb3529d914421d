"""Shortest task first, from a central queue.

Assumes that durations are known and that a task runs whole on one device. A central queue holds the tasks until a
device is idle.
Rule: the idle device takes the waiting task that is shortest on it, unless that task would finish earlier
elsewhere. Mean latency is low but tails are long: large tasks wait while small ones keep arriving.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..cluster.arrival_loop import LOOP_ARRAYS, LoopArrays
from ..compiled import DEVICE_TABLE, compiled, device_table, helper, loop_entry
from ..core import Central, Floats, Ints, Knowledge, Queue, Setting, View, Workload
from ..learning.queue_loop import nothing, place_task, run_queue
from .registry import Look, register

#: Equal finish times are no reason to wait; the tolerance absorbs rounding.
_TOLERANCE = 1.0 + 1e-12


class _ArrivedTasks(NamedTuple):
    """Arrays of the compiled loop: what the scheduler knows, and the rows that wait in order of arrival."""

    devices: NDArray[Any]
    known_times: Floats
    rows: Ints
    length: Ints
    clock: Floats
    asked: NDArray[np.bool_]  # scratch: devices that have been asked in this event


_INTS = types.int64[::1]
_VECTOR = types.float64[::1]
_WAITING = types.NamedTuple(
    (DEVICE_TABLE, types.float64[:, :, ::1], _INTS, _INTS, _VECTOR, types.boolean[::1]), _ArrivedTasks
)


@helper
def _seconds(times, memory, devices, d):  # type: ignore[no-untyped-def]
    """Return the seconds of a whole task on a device; infinity where it does not fit."""
    column = devices[d].column
    return times[column, 0] + times[column, 1] if memory <= devices[d].memory else np.inf


@helper
def _pick(own, now, idle, run):  # type: ignore[no-untyped-def]
    """Return the position of the shortest task that should start on the idle device, or -1."""
    best = -1
    shortest = np.inf
    devices = own.devices
    free_at = run.cluster.free_at
    for position in range(own.length[0]):
        row = own.rows[position]
        times = own.known_times[row]
        needed = run.tasks.memory[row]
        seconds = _seconds(times, needed, devices, idle)
        if seconds >= shortest:
            continue
        earliest = np.inf
        for d in range(len(devices)):
            earliest = min(earliest, max(0.0, free_at[d] - now) + _seconds(times, needed, devices, d))
        if seconds <= earliest * _TOLERANCE:
            best = position
            shortest = seconds
    return best


@helper
def _next_idle(now, devices, free_at, asked):  # type: ignore[no-untyped-def]
    """Return the idle device that picks next, or -1: accelerators first, of those the longest idle."""
    best = -1
    for d in range(len(devices)):
        if asked[d] or free_at[d] > now:
            continue
        if (
            best < 0
            or devices[d].is_cpu < devices[best].is_cpu
            or (devices[d].is_cpu == devices[best].is_cpu and free_at[d] < free_at[best])
        ):
            best = d
    return best


@helper
def _waiting(own):  # type: ignore[no-untyped-def]
    return own.length[0]


@helper
def _release(own, row, run):  # type: ignore[no-untyped-def]
    own.rows[own.length[0]] = row
    own.length[0] += 1


@helper
def _start_tasks(own, now, run):  # type: ignore[no-untyped-def]
    """Let every idle device take tasks as long as one should start on it."""
    free_at = run.cluster.free_at
    for d in range(len(own.asked)):
        own.asked[d] = False
    while own.length[0] > 0:
        idle = _next_idle(now, own.devices, free_at, own.asked)
        if idle < 0:
            break
        own.asked[idle] = True
        while own.length[0] > 0 and free_at[idle] <= now:
            position = _pick(own, now, idle, run)
            if position < 0:
                break
            row = own.rows[position]
            own.length[0] -= 1
            for p in range(position, own.length[0]):
                own.rows[p] = own.rows[p + 1]
            place_task(row, idle, 1.0 - own.devices[idle].is_cpu, now, run)


@loop_entry
def _queue_loop(own, begin, end, run):  # type: ignore[no-untyped-def]
    """Run rows of a workload; see `run_queue`."""
    run_queue(_waiting, nothing, _release, _start_tasks, own, begin, end, run)


_LOOP = types.void(_WAITING, types.int64, types.int64, LOOP_ARRAYS)


@register(
    "shortest_first", label="Shortest first (knows durations)", look=Look("#A3E635", "#3F6212", "▼", "dashed")
)
class ShortestFirst(Central):
    """Central queue: an idle device takes the waiting task that is shortest on it."""

    knows = Knowledge.TOLD

    def start(self, setting: Setting) -> None:
        """Prepare for a run; see `Scheduler.start`."""
        super().start(setting)
        assert setting.times is not None
        self._columns = setting.times.columns
        self._memory = setting.platform.memory_limit
        self.devices = device_table(setting.platform, self._columns)

    def pick(self, queue: Queue, idle_device: int, view: View) -> int | None:
        """Return the shortest task that should start on the idle device, or None."""
        seconds = queue.times.sum(axis=2)[:, self._columns]
        fits = queue.memory_required[:, None] <= self._memory
        seconds = np.where(fits, seconds, np.inf)
        ready = queue.ready_at
        wait = view.backlog if ready is None else np.maximum(view.free_at, ready) - view.now
        ends = wait + seconds
        starts_now = fits[:, idle_device] & (ends[:, idle_device] <= ends.min(axis=1) * _TOLERANCE)
        if not starts_now.any():
            return None
        return int(np.argmin(np.where(starts_now, seconds[:, idle_device], np.inf)))

    @property
    def compiled_loop(self) -> ShortestFirst | None:
        """The scheduler itself, if its compiled loop can run whole workloads."""
        return self if type(self) is ShortestFirst else None

    def run_rows(self, workload: Workload, begin: int, end: int, run: LoopArrays) -> None:
        """Run rows of a workload in compiled code; see `CompiledLoop`."""
        if begin == 0:
            assert self.setting.times is not None
            self.loop_state = _ArrivedTasks(
                self.devices, np.ascontiguousarray(self.setting.times.table(workload)),
                np.empty(len(workload), np.int64), np.zeros(1, np.int64), np.array([-math.inf]),
                np.zeros(len(self.devices), np.bool_),
            )  # fmt: skip
        compiled(_queue_loop, _LOOP)(self.loop_state, begin, end, run)
