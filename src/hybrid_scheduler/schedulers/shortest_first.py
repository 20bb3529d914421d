"""Shortest task first, from a central queue.

Assumes that durations are known and that a task runs whole on one device. A central queue holds the tasks until a
device is idle.
Rule: the idle device takes the waiting task that is shortest on it, unless that task would finish earlier
elsewhere. Mean latency is low but tails are long: large tasks wait while small ones keep arriving.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from ..cluster.arrival_loop import (
    CLUSTER_ARRAYS,
    OUTCOME_COLUMNS,
    TASK_COLUMNS,
    ClusterArrays,
    next_event,
    outcome_columns,
    place_row,
)
from ..compiled import DEVICE_TABLE, compiled, device_table, entry, helper
from ..core import Central, Knowledge, Outcomes, Queue, Setting, TimeTable, View, Workload
from .registry import Look, register

#: Equal finish times are no reason to wait; the tolerance absorbs rounding.
_TOLERANCE = 1.0 + 1e-12

_LOOP = types.int64(
    DEVICE_TABLE, types.int64[::1], types.int64, types.float64[::1],  # the devices, the queue and its length, clock
    types.int64, types.int64, types.float64[:, :, ::1],  # the rows, durations that the scheduler knows
    *TASK_COLUMNS, *CLUSTER_ARRAYS, *OUTCOME_COLUMNS,
)  # fmt: skip


@helper
def _seconds(times, memory, devices, d):  # type: ignore[no-untyped-def]
    """Return the seconds of a whole task on a device; infinity where it does not fit."""
    column = devices[d].column
    return times[column, 0] + times[column, 1] if memory <= devices[d].memory else np.inf


@helper
def _pick(now, queue, length, known_times, memory, idle, devices, free_at):  # type: ignore[no-untyped-def]
    """Return the position of the shortest task that should start on the idle device, or -1."""
    best, shortest = -1, np.inf
    for position in range(length):
        times, needed = known_times[queue[position]], memory[queue[position]]
        seconds = _seconds(times, needed, devices, idle)
        if seconds >= shortest:
            continue
        earliest = np.inf
        for d in range(len(devices)):
            earliest = min(earliest, max(0.0, free_at[d] - now) + _seconds(times, needed, devices, d))
        if seconds <= earliest * _TOLERANCE:
            best, shortest = position, seconds
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


@entry
def _queue_loop(  # type: ignore[no-untyped-def]
    rule_devices, queue, length, clock, begin, end, known_times,
    task_id, size, intensity, memory, arrival, divisible,
    table, devices, free_at, busy, sigma, seed, memory_policy,
    out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
):  # fmt: skip
    """Run until the rows begin..end have arrived, after the last until the queue is empty; return its length."""
    now, row = clock[0], begin
    last = end == len(task_id)
    asked = np.zeros(len(free_at), np.bool_)
    while row < end or (last and length > 0):
        now = next_event(now, arrival[row] if row < end else np.inf, length, free_at)
        while row < end and arrival[row] <= now:
            queue[length] = row
            length += 1
            row += 1
        asked[:] = False
        while length > 0:
            idle = _next_idle(now, rule_devices, free_at, asked)
            if idle < 0:
                break
            asked[idle] = True
            while length > 0 and free_at[idle] <= now:
                position = _pick(now, queue, length, known_times, memory, idle, rule_devices, free_at)
                if position < 0:
                    break
                i = queue[position]
                length -= 1
                for p in range(position, length):
                    queue[p] = queue[p + 1]
                place_row(
                    i, idle, 1.0 - rule_devices[idle].is_cpu, task_id, memory, now, table, devices, free_at, busy,
                    sigma, seed, memory_policy,
                    out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
                )  # fmt: skip
    clock[0] = now
    return length


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

    def run_rows(
        self, workload: Workload, begin: int, end: int, table: TimeTable, arrays: ClusterArrays, outcomes: Outcomes
    ) -> None:
        """Run rows of a workload in compiled code; see `CompiledLoop`."""
        if begin == 0:
            assert self.setting.times is not None
            self._known_times = np.ascontiguousarray(self.setting.times.table(workload))
            self._queue, self._length = np.empty(len(workload), np.int64), 0
            self._clock = np.array([-math.inf])
        self._length = compiled(_queue_loop, _LOOP)(
            self.devices, self._queue, self._length, self._clock, begin, end, self._known_times,
            workload.task_id, workload.size, workload.compute_intensity, workload.memory_required,
            workload.arrival_time, workload.divisible, table, *arrays,
            *outcome_columns(outcomes),
        )  # fmt: skip
