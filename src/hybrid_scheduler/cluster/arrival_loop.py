"""Compiled simulation loop in arrival order, and the placement of one task on its devices.

`place` is the only code that implements queues, memory and noise. The compiled loop, the event loop and
`Cluster.simulate` all call it, so they give the same numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import from_dtype, types

from ..compiled import DEVICE_TABLE, RULE, TASK, entry, helper, loop_entry
from ..core import Floats, Outcomes, TimeTable, Workload
from ..core.outcome import CLIPPED, FAILED, MOVED_TO_CPU, RAN
from .noise import noise_factor

#: Memory policies: treatment of a share that does not fit into the accelerator's memory.
CLIP, TO_CPU, FAIL = 0, 1, 2
MEMORY_POLICIES = {"clip": CLIP, "to_cpu": TO_CPU, "fail": FAIL}


class ClusterArrays(NamedTuple):
    """Arrays of a cluster that a compiled loop reads and changes: the arguments of `place`."""

    devices: Any
    free_at: Floats
    busy: Floats
    sigma: float
    seed: int
    memory_policy: int


class CompiledLoop(Protocol):
    """Scheduler with a compiled loop of its own: it learns at finish times, or keeps a central queue.

    It must keep the event loop's order, so that both give the same numbers.
    """

    def run_rows(
        self, workload: Workload, begin: int, end: int, table: TimeTable, arrays: ClusterArrays, outcomes: Outcomes
    ) -> None:
        """Decide, place and learn from the rows begin..end; after the last row, learn from all that still run."""


def outcome_columns(outcomes: Outcomes) -> tuple[Any, ...]:
    """Return the columns that a compiled loop writes, in the order of `OUTCOME_COLUMNS`."""
    return (
        outcomes.device, outcomes.fraction, outcomes.cpu_start, outcomes.cpu_time,
        outcomes.accelerator_start, outcomes.accelerator_time, outcomes.status,
    )  # fmt: skip


@helper
def executed_share(device, fraction, memory, devices, memory_policy):  # type: ignore[no-untyped-def]
    """Return the device, the share and the status with which the memory policy lets a decision run."""
    if devices[device].is_cpu == 1:
        return device, 0.0, RAN
    if fraction * memory > devices[device].memory and fraction > devices[device].memory / memory:
        if memory_policy == CLIP:
            return device, devices[device].memory / memory, CLIPPED
        if memory_policy == TO_CPU:
            return devices[device].cpu, 0.0, MOVED_TO_CPU
        return device, fraction, FAILED
    if fraction == 0.0:
        return devices[device].cpu, 0.0, RAN
    return device, fraction, RAN


@helper
def whole_share(fraction, memory_policy):  # type: ignore[no-untyped-def]
    """Return share and memory policy of an indivisible task: the larger part decides, nothing is clipped."""
    return 1.0 if fraction >= 0.5 else 0.0, FAIL if memory_policy == FAIL else TO_CPU


@helper
def place(  # type: ignore[no-untyped-def]
    device, fraction, task_id, memory, ready, row, devices, free_at, busy, sigma, seed, memory_policy
):
    """Append both parts to their devices' queues and return the columns of an outcome.

    `ready` is the earliest time at which the parts may start: the arrival, or the arrival of the parents' data.
    """
    device, fraction, status = executed_share(device, fraction, memory, devices, memory_policy)
    if status == FAILED:
        return device, fraction, np.nan, 0.0, np.nan, 0.0, FAILED
    cpu = devices[device].cpu
    column, cpu_column = devices[device].column, devices[cpu].column
    on_cpu, on_accelerator = fraction < 1.0, fraction > 0.0
    cpu_time = row[cpu_column, 1] + (1.0 - fraction) * row[cpu_column, 0] if on_cpu else 0.0
    accelerator_time = row[column, 1] + fraction * row[column, 0] if on_accelerator else 0.0
    if sigma != 0.0:
        if on_cpu:
            cpu_time *= noise_factor(sigma, seed, task_id, cpu)
        if on_accelerator:
            accelerator_time *= noise_factor(sigma, seed, task_id, device)
    # Selections instead of branches: which parts a task has is unpredictable, and a wrong guess costs 5 ns.
    cpu_start = max(ready, free_at[cpu])
    free_at[cpu] = cpu_start + cpu_time if on_cpu else free_at[cpu]
    busy[cpu] += cpu_time
    accelerator_start = max(ready, free_at[device])
    free_at[device] = accelerator_start + accelerator_time if on_accelerator else free_at[device]
    busy[device] += accelerator_time
    cpu_start = cpu_start if on_cpu else np.nan
    accelerator_start = accelerator_start if on_accelerator else np.nan
    return device, fraction, cpu_start, cpu_time, accelerator_start, accelerator_time, status


@helper
def place_row(  # type: ignore[no-untyped-def]
    i, device, fraction, task_id, memory, ready, table, devices, free_at, busy, sigma, seed, memory_policy,
    out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
):  # fmt: skip
    """Place row `i` of a workload and write the row of its outcome; see `place`."""
    (
        out_device[i],
        out_fraction[i],
        out_cpu_start[i],
        out_cpu_time[i],
        out_acc_start[i],
        out_acc_time[i],
        out_status[i],
    ) = place(
        device, fraction, task_id[i], memory[i], ready, table[i], devices, free_at, busy, sigma, seed, memory_policy
    )  # fmt: skip


@helper
def next_event(now, arrival, waiting, free_at):  # type: ignore[no-untyped-def]
    """Return the next time to look at a central queue: the next arrival, or a device's end if tasks wait."""
    time = arrival
    if waiting > 0:
        for d in range(len(free_at)):
            if now < free_at[d] < time:
                time = free_at[d]
    return time


#: Types of the arrays that compiled loops get: (id, size, intensity, memory, arrival, divisible) of the tasks, the
#: cluster with its table of durations (see `ClusterArrays`), and the columns of the outcomes.
_vector = types.float64[::1]
_readonly = types.Array(types.float64, 1, "C", readonly=True)
_readonly_ints = types.Array(types.int64, 1, "C", readonly=True)
_readonly_flags = types.Array(types.boolean, 1, "C", readonly=True)
_table = types.float64[:, :, ::1]


_PLACEMENT = types.Tuple((types.int64, *(types.float64,) * 5, types.int64))
PLACE_SIGNATURE = _PLACEMENT(
    types.int64, types.float64, types.int64, types.float64, types.float64, types.float64[:, ::1],
    DEVICE_TABLE, _vector, _vector, types.float64, types.int64, types.int64,
)  # fmt: skip


@entry
def place_one(  # type: ignore[no-untyped-def]
    device, fraction, task_id, memory, ready, row, devices, free_at, busy, sigma, seed, memory_policy
):
    """Call `place` from Python."""
    return place(device, fraction, task_id, memory, ready, row, devices, free_at, busy, sigma, seed, memory_policy)


EXECUTED_SIGNATURE = types.Tuple((types.int64, types.float64, types.int64))(
    types.int64, types.float64, types.float64, DEVICE_TABLE, types.int64
)


@entry
def executed_one(device, fraction, memory, devices, memory_policy):  # type: ignore[no-untyped-def]
    """Call `executed_share` from Python."""
    return executed_share(device, fraction, memory, devices, memory_policy)


TASK_COLUMNS = (_readonly_ints, _readonly, _readonly, _readonly, _readonly, _readonly_flags)
CLUSTER_ARRAYS = (_table, DEVICE_TABLE, _vector, _vector, types.float64, types.int64, types.int64)
OUTCOME_COLUMNS = (types.int32[::1], _vector, _vector, _vector, _vector, _vector, types.uint8[::1])
_LOOP_ARRAYS = types.Tuple(
    (
        from_dtype(TASK)[::1],  # the task that is being placed
        DEVICE_TABLE, _vector, _vector, _table,  # the scheduler: devices, params, state, known times
        *TASK_COLUMNS, *CLUSTER_ARRAYS, *OUTCOME_COLUMNS,
    )
)  # fmt: skip
#: Types of `arrival_loop`, and of a loop that a scheduler has for its own rule (`FastRule.loop`).
LOOP_SIGNATURE, OWN_LOOP_SIGNATURE = types.int64(RULE, _LOOP_ARRAYS), types.int64(_LOOP_ARRAYS)


@helper
def run_rule(rule, arrays):  # type: ignore[no-untyped-def]
    """Decide and place every task at its arrival; return -1, or the row whose decision is invalid.

    `rule` is a compiled function. One that is known when the loop is compiled becomes part of it, which is faster.
    """
    (
        task, rule_devices, params, state, known_times,
        task_id, size, intensity, memory, arrival, divisible,
        table, devices, free_at, busy, sigma, seed, memory_policy,
        out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
    ) = arrays  # fmt: skip
    for i in range(len(task_id)):
        task[0].task_id = task_id[i]
        task[0].size = size[i]
        task[0].intensity = intensity[i]
        task[0].memory = memory[i]
        task[0].indivisible = 0 if divisible[i] else 1
        device, fraction = rule(arrival[i], task, known_times[i], free_at, rule_devices, params, state)
        if not (0 <= device < len(devices) and 0.0 <= fraction <= 1.0):
            out_device[i], out_fraction[i] = device, fraction
            return i
        policy = memory_policy
        if not divisible[i]:
            fraction, policy = whole_share(fraction, memory_policy)
        place_row(
            i, device, fraction, task_id, memory, arrival[i], table, devices, free_at, busy, sigma, seed, policy,
            out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
        )  # fmt: skip
    return -1


@loop_entry
def arrival_loop(rule, arrays):  # type: ignore[no-untyped-def]
    """Call `run_rule` with any rule, through a pointer."""
    return run_rule(rule, arrays)
