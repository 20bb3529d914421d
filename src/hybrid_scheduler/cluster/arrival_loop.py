"""Compiled simulation loop in arrival order, and the placement of one task on its devices.

`place` is the only code that implements queues, memory and noise. The compiled loop, the event loop and
`Cluster.simulate` all call it, so they give the same numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types

from ..compiled import DEVICE_TABLE, RULE, TASK, entry, helper, loop_entry
from ..core import Floats, Ints, Outcomes, Workload
from ..core.outcome import CLIPPED, FAILED, MOVED_TO_CPU, OUTCOME_FIELDS, PAGED, RAN
from .noise import noise_factor

#: Memory policies: treatment of a share that does not fit into the accelerator's memory.
CLIP = 0
_TO_CPU = 1
_FAIL = 2
_PAGE = 3
MEMORY_POLICIES = {"clip": CLIP, "to_cpu": _TO_CPU, "fail": _FAIL, "page": _PAGE}


class ClusterArrays(NamedTuple):
    """Queues and options of a cluster that compiled code reads and changes."""

    devices: Any
    free_at: Floats
    busy: Floats
    sigma: float
    seed: int
    memory_policy: int


class TaskColumns(NamedTuple):
    """Columns of a workload that compiled loops read."""

    task_id: Ints
    size: Floats
    intensity: Floats
    memory: Floats
    arrival: Floats
    divisible: Any

    @classmethod
    def of(cls, workload: Workload) -> TaskColumns:
        """Return the columns of a workload."""
        return cls(
            workload.task_id, workload.size, workload.compute_intensity, workload.memory_required,
            workload.arrival_time, workload.divisible,
        )  # fmt: skip


class OutcomeColumns(NamedTuple):
    """Columns of outcomes that compiled loops write."""

    device: Any
    fraction: Floats
    cpu_start: Floats
    cpu_time: Floats
    accelerator_start: Floats
    accelerator_time: Floats
    status: Any

    @classmethod
    def of(cls, outcomes: Outcomes) -> OutcomeColumns:
        """Return the columns of outcomes."""
        return cls(*(getattr(outcomes, name) for name in OUTCOME_FIELDS))


class LoopArrays(NamedTuple):
    """What a compiled loop over a workload reads and writes."""

    tasks: TaskColumns
    table: Floats
    cluster: ClusterArrays
    outcomes: OutcomeColumns

    @classmethod
    def of(cls, workload: Workload, table: Floats, cluster: ClusterArrays, outcomes: Outcomes) -> LoopArrays:
        """Return the arrays of a run."""
        return cls(TaskColumns.of(workload), table, cluster, OutcomeColumns.of(outcomes))


class RuleArrays(NamedTuple):
    """What a compiled loop with a rule reads and changes.

    `task` has space for the task that is being placed; `params` to `known_times` belong to the rule.
    """

    task: Any
    devices: Any
    params: Floats
    state: Floats
    known_times: Floats
    run: LoopArrays


@helper
def executed_share(device, fraction, memory, devices, memory_policy):  # type: ignore[no-untyped-def]
    """Return the device, the share and the status with which the memory policy lets a decision run."""
    if devices[device].is_cpu == 1:
        return device, 0.0, RAN
    if fraction * memory > devices[device].memory and fraction > devices[device].memory / memory:
        if memory_policy == CLIP:
            return device, devices[device].memory / memory, CLIPPED
        if memory_policy == _TO_CPU:
            return devices[device].cpu, 0.0, MOVED_TO_CPU
        return device, fraction, PAGED if memory_policy == _PAGE else FAILED
    if fraction == 0.0:
        return devices[device].cpu, 0.0, RAN
    return device, fraction, RAN


@helper
def whole_share(fraction, memory_policy):  # type: ignore[no-untyped-def]
    """Return share and memory policy of an indivisible task: the larger part decides, nothing is clipped."""
    return 1.0 if fraction >= 0.5 else 0.0, _TO_CPU if memory_policy == CLIP else memory_policy


@helper
def place(device, fraction, task_id, memory, ready, row, cluster):  # type: ignore[no-untyped-def]
    """Append both parts to their devices' queues and return the columns of an outcome.

    `ready` is the earliest time at which the parts may start: the arrival, or the arrival of the parents' data.
    """
    devices, free_at, busy, sigma, seed, memory_policy = cluster
    device, fraction, status = executed_share(device, fraction, memory, devices, memory_policy)
    if status == FAILED:
        return device, fraction, np.nan, 0.0, np.nan, 0.0, FAILED
    cpu = devices[device].cpu
    column = devices[device].column
    cpu_column = devices[cpu].column
    on_cpu = fraction < 1.0
    on_accelerator = fraction > 0.0
    cpu_time = row[cpu_column, 1] + (1.0 - fraction) * row[cpu_column, 0] if on_cpu else 0.0
    accelerator_time = row[column, 1] + fraction * row[column, 0] if on_accelerator else 0.0
    if status == PAGED:  # what does not fit goes over the link, in and out
        accelerator_time += 2.0 * (fraction * memory - devices[device].memory) / devices[device].bandwidth
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
def place_row(i, device, fraction, ready, tasks, table, cluster, out):  # type: ignore[no-untyped-def]
    """Place row `i` of a workload and write the row of its outcome; see `place`."""
    (
        out.device[i], out.fraction[i], out.cpu_start[i], out.cpu_time[i],
        out.accelerator_start[i], out.accelerator_time[i], out.status[i],
    ) = place(device, fraction, tasks.task_id[i], tasks.memory[i], ready, table[i], cluster)  # fmt: skip


@helper
def next_event(now, arrival, waiting, free_at):  # type: ignore[no-untyped-def]
    """Return the next time to look at a central queue: the next arrival, or a device's end if tasks wait."""
    time = arrival
    if waiting > 0:
        for d in range(len(free_at)):
            if now < free_at[d] < time:
                time = free_at[d]
    return time


_vector = types.float64[::1]
_readonly = types.Array(types.float64, 1, "C", readonly=True)
_readonly_ints = types.Array(types.int64, 1, "C", readonly=True)
_readonly_flags = types.Array(types.boolean, 1, "C", readonly=True)
_cluster = (DEVICE_TABLE, _vector, _vector, types.float64, types.int64, types.int64)
#: Types of the columns and arrays above, and of a table of durations, task by task.
TASKS = types.NamedTuple((_readonly_ints, _readonly, _readonly, _readonly, _readonly, _readonly_flags), TaskColumns)
TABLE = types.float64[:, :, ::1]
_CLUSTER = types.NamedTuple(_cluster, ClusterArrays)
_OUTCOMES = types.NamedTuple(
    (types.int32[::1], _vector, _vector, _vector, _vector, _vector, types.uint8[::1]), OutcomeColumns
)
LOOP_ARRAYS = types.NamedTuple((TASKS, TABLE, _CLUSTER, _OUTCOMES), LoopArrays)
_RULE_ARRAYS = types.NamedTuple(
    (from_dtype(TASK)[::1], DEVICE_TABLE, _vector, _vector, TABLE, LOOP_ARRAYS), RuleArrays
)
#: Types of `arrival_loop`, and of a loop that a scheduler has for its own rule (`FastRule.loop`).
LOOP_SIGNATURE = types.int64(RULE, _RULE_ARRAYS)
OWN_LOOP_SIGNATURE = types.int64(_RULE_ARRAYS)
PLACE_SIGNATURE = types.Tuple((types.int64, *(types.float64,) * 5, types.int64))(
    types.int64, types.float64, types.int64, types.float64, types.float64, types.float64[:, ::1],
    types.Tuple(_cluster),
)  # fmt: skip


@entry
def place_one(device, fraction, task_id, memory, ready, row, cluster):  # type: ignore[no-untyped-def]
    """Call `place` from Python. `cluster` has the fields of `ClusterArrays`; numba is slower with named ones."""
    return place(device, fraction, task_id, memory, ready, row, ClusterArrays(*cluster))


EXECUTED_SIGNATURE = types.Tuple((types.int64, types.float64, types.int64))(
    types.int64, types.float64, types.float64, DEVICE_TABLE, types.int64
)


@entry
def executed_one(device, fraction, memory, devices, memory_policy):  # type: ignore[no-untyped-def]
    """Call `executed_share` from Python."""
    return executed_share(device, fraction, memory, devices, memory_policy)


@helper
def run_rule(rule, arrays):  # type: ignore[no-untyped-def]
    """Decide and place every task at its arrival; return -1, or the row whose decision is invalid.

    `rule` is a compiled function. One that is known when the loop is compiled becomes part of it, which is faster.
    """
    task, rule_devices, params, state, known_times, run = arrays
    tasks, table, cluster, out = run
    devices, free_at, busy, sigma, seed, memory_policy = cluster
    for i in range(len(tasks.task_id)):
        task[0].task_id = tasks.task_id[i]
        task[0].size = tasks.size[i]
        task[0].intensity = tasks.intensity[i]
        task[0].memory = tasks.memory[i]
        task[0].indivisible = 0 if tasks.divisible[i] else 1
        now = tasks.arrival[i]
        device, fraction = rule(now, task, known_times[i], free_at, rule_devices, params, state)
        if not (0 <= device < len(devices) and 0.0 <= fraction <= 1.0):
            out.device[i] = device
            out.fraction[i] = fraction
            return i
        policy = memory_policy
        if not tasks.divisible[i]:
            fraction, policy = whole_share(fraction, memory_policy)
        queues = ClusterArrays(devices, free_at, busy, sigma, seed, policy)
        place_row(i, device, fraction, now, tasks, table, queues, out)
    return -1


@loop_entry
def arrival_loop(rule, arrays):  # type: ignore[no-untyped-def]
    """Call `run_rule` with any rule, through a pointer."""
    return run_rule(rule, arrays)
