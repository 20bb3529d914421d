"""Compiled code of the learner: entries for single tasks, and the loop over a whole workload.

The loop learns from finishes at or before an arrival before that task is decided, in the order of (finish, row).
That is the order of the event loop, so both give the same numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from ...cluster.arrival_loop import CLUSTER_ARRAYS, OUTCOME_COLUMNS, place_row
from ...compiled import compiled, entry, inner
from ...compiled.row_heap import ROW_HEAP, pop_row, push_row
from ...core.outcome import FAILED
from ..fallback_guard import ACTIVE, SHADOW
from .hierarchical_regression import (
    add_kind,
    learn_part,
    predict,
    task_features,
)
from .learned_placement import (
    ACCELERATOR_SIDE,
    BOTH_SIDES,
    CPU_SIDE,
    choose,
    end_parts,
    learn_outcome,
)
from .learner_state import (
    ABSOLUTE,
    DEVICES,
    FEATURES,
    INTENSITY,
    KIND,
    LOG_SECONDS,
    LOG_SIZE,
    LOG_SQUARES,
    LOGS,
    MEMORY,
    PLACEMENT,
    RECENT,
    SCORED,
    SHARE,
    SQUARED,
    STATE,
)

_READ_ONLY = types.Array(types.float64, 1, "C", readonly=True)
_READ_ONLY_INTS = types.Array(types.int64, 1, "C", readonly=True)
#: Events in the log that the loop writes: the guard lets the other rule decide, drift, enough
#: outcomes for a version. Columns of the log are event and task; and for a version its samples, R² and error.
GUARD, DRIFT, VERSION = range(3)
LOG_COLUMNS = 5
#: Fewest predictions for an R².
_MIN_FOR_R2 = 10
#: Index of a task kind that has not been seen.
NEW_KIND = -2
#: Tasks of a learner's loop: id, size, intensity, memory, arrival, kind, indices of the kinds, whether divisible.
LEARNER_TASKS = (
    _READ_ONLY_INTS, *(_READ_ONLY,) * 4, _READ_ONLY_INTS, types.int64[::1],
    types.Array(types.boolean, 1, "C", readonly=True),
)  # fmt: skip


@entry
def decide_one(  # type: ignore[no-untyped-def]
    state, placement, guard, now, size, intensity, memory, kind, divisible, free_at, starts, devices
):
    """Call `choose` from Python; with copies, because code for arrays that are read only is compiled apart."""
    return choose(
        state, placement, guard, now, size, intensity, memory, kind, divisible, free_at.copy(), starts.copy(),
        devices,
    )  # fmt: skip


@entry
def end_one(  # type: ignore[no-untyped-def]
    placement, kind, device, share, cpu_time, accelerator_time, sides, devices
):
    """Call `end_parts` from Python."""
    end_parts(placement, kind, device, share, cpu_time, accelerator_time, sides, devices)


@entry
def learn_one(  # type: ignore[no-untyped-def]
    state, size, intensity, memory, kind, device, share, cpu_time, accelerator_time, sides, devices
):
    """Call `learn_outcome` from Python."""
    return learn_outcome(
        state, size, intensity, memory, kind, device, share, cpu_time, accelerator_time, sides, devices
    )


@entry
def add_kind_entry(state):  # type: ignore[no-untyped-def]
    """Call `add_kind` from Python."""
    return add_kind(state)


@inner
def take_scores(state):  # type: ignore[no-untyped-def]
    """Return R² and mean absolute error of the log seconds predicted since the last call; NaN if too few."""
    scores = state.scores
    count = scores[SCORED]
    r2, error = np.nan, np.nan
    if count > 0.0:
        spread = scores[LOG_SQUARES] - scores[LOGS] ** 2 / count
        if count >= _MIN_FOR_R2 and spread > 0.0:
            r2 = 1.0 - scores[SQUARED] / spread
        error = scores[ABSOLUTE] / count
    scores[:] = 0.0
    return r2, error


@entry
def take_scores_one(state):  # type: ignore[no-untyped-def]
    """Call `take_scores` from Python."""
    return take_scores(state)


@entry
def relearn_recent(state, recent, recent_count):  # type: ignore[no-untyped-def]
    """Learn from recent outcomes of another state, which must have the same classes and task kinds."""
    features = np.empty(FEATURES)
    for c in range(len(recent_count)):
        count = recent_count[c]
        for r in range(max(0, count - RECENT), count):
            row = recent[c, r % RECENT]
            size, intensity, memory = math.exp(row[LOG_SIZE]), row[INTENSITY], row[MEMORY]
            task_features(size, intensity, memory, features)
            seconds = math.exp(row[LOG_SECONDS])
            learn_part(state, features, c, int(row[KIND]), row[LOG_SIZE], intensity, memory, 1.0, seconds)
            state.recent[c, (state.recent_count[c] - 1) % RECENT, SHARE] = row[SHARE]


@entry
def predict_table(state, size, intensity, memory, kind, out):  # type: ignore[no-untyped-def]
    """Write mean and standard deviation of log seconds for every task and class into `out`."""
    features = np.empty(FEATURES)
    for i in range(len(size)):
        task_features(size[i], intensity[i], memory[i], features)
        for c in range(out.shape[1]):
            mean, variance = predict(state, features, c, kind[i], math.log(size[i]), intensity[i], memory[i])
            out[i, c, 0], out[i, c, 1] = mean, math.sqrt(variance)


@inner
def learn_finished(  # type: ignore[no-untyped-def]
    state, placement, devices, log, events, refresh, running, until,
    task_id, size, intensity, memory, kind, kind_index,
    out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
):  # fmt: skip
    """Learn from the parts that end at `until` or earlier; return the number of events in the log."""
    while running.length[0] > 0 and running.key[0] <= until:
        row = pop_row(running)
        ends = row < len(task_id)
        if not ends:
            row -= len(task_id)
        if out_status[row] == FAILED:
            continue
        # A part that ended before the other was learned from then.
        sides = BOTH_SIDES
        if 0.0 < out_fraction[row] < 1.0:
            cpu_end, acc_end = out_cpu_start[row] + out_cpu_time[row], out_acc_start[row] + out_acc_time[row]
            if cpu_end != acc_end:
                sides = CPU_SIDE if (cpu_end > acc_end) == ends else ACCELERATOR_SIDE
        number, device = kind_index[kind[row]], np.int64(out_device[row])
        end_parts(
            placement, number, device, out_fraction[row], out_cpu_time[row], out_acc_time[row], sides, devices
        )
        drifted = learn_outcome(
            state, size[row], intensity[row], memory[row], number,
            device, out_fraction[row], out_cpu_time[row], out_acc_time[row], sides, devices,
        )  # fmt: skip
        if drifted:
            log[events, 0], log[events, 1] = DRIFT, task_id[row]
            events += 1
        if drifted or state.scores[SCORED] >= refresh:
            log[events, 0], log[events, 1], log[events, 2] = VERSION, task_id[row], state.outcomes[0]
            log[events, 3], log[events, 4] = take_scores(state)
            events += 1
    return events


@inner
def push_running(  # type: ignore[no-untyped-def]
    running, i, start, rows, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time
):
    """Add a task that was placed to those that run, by its end; a part that ends earlier is an entry of its own.

    That entry is the row plus the number of rows: at the same time tasks that end come first.
    """
    finish = start
    if out_cpu_time[i] > 0.0:
        finish = max(finish, out_cpu_start[i] + out_cpu_time[i])
    if out_acc_time[i] > 0.0:
        finish = max(finish, out_acc_start[i] + out_acc_time[i])
    push_row(running, finish, i)
    if 0.0 < out_fraction[i] < 1.0:
        first = min(out_cpu_start[i] + out_cpu_time[i], out_acc_start[i] + out_acc_time[i])
        if first < finish:
            push_row(running, first, i + rows)


@entry
def learner_loop(  # type: ignore[no-untyped-def]
    state, placement, guard, rule_devices, log, refresh, running, begin, end,
    task_id, size, intensity, memory, arrival, kind, kind_index, divisible,
    table, devices, free_at, busy, sigma, seed, memory_policy,
    out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
):  # fmt: skip
    """Run rows begin..end; `kind_index` maps the workload's kinds to the model's. Returns the number of events."""
    events = np.int64(0)
    for i in range(begin, end + 1):
        last = i == len(task_id)
        if i == end and not last:
            break
        # Tasks that arrive together are decided together, before any of them can finish.
        if last or i == 0 or arrival[i] > arrival[i - 1]:
            events = learn_finished(
                state, placement, rule_devices, log, events, refresh, running, np.inf if last else arrival[i],
                task_id, size, intensity, memory, kind, kind_index,
                out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
            )  # fmt: skip
        if last:
            break
        if kind_index[kind[i]] == NEW_KIND:
            kind_index[kind[i]] = add_kind(state)
        active = guard.counters[ACTIVE]
        device, fraction = choose(
            state, placement, guard, arrival[i], size[i], intensity[i], memory[i], kind_index[kind[i]],
            divisible[i], free_at, free_at, rule_devices,
        )  # fmt: skip
        if guard.counters[ACTIVE] != active:
            log[events, 0], log[events, 1] = GUARD, task_id[i]
            events += 1
        place_row(
            i, device, fraction, task_id, memory, arrival[i], table, devices, free_at, busy, sigma, seed,
            memory_policy, out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time,
            out_status,
        )  # fmt: skip
        push_running(
            running, i, arrival[i], len(task_id), out_fraction, out_cpu_start, out_cpu_time, out_acc_start,
            out_acc_time,
        )  # fmt: skip
    return events


_SIGNATURES = {
    decide_one: types.Tuple((types.int64, types.float64))(
        STATE, PLACEMENT, SHADOW, *(types.float64,) * 4, types.int64, types.boolean, *(_READ_ONLY,) * 2, DEVICES,
    ),
    end_one: types.void(PLACEMENT, types.int64, types.int64, *(types.float64,) * 3, types.int64, DEVICES),
    learn_one: types.boolean(
        STATE, *(types.float64,) * 3, types.int64, types.int64, *(types.float64,) * 3, types.int64, DEVICES
    ),
    add_kind_entry: types.int64(STATE),
    take_scores_one: types.UniTuple(types.float64, 2)(STATE),
    relearn_recent: types.void(STATE, types.float64[:, :, ::1], types.int64[::1]),
    predict_table: types.void(
        STATE, _READ_ONLY, _READ_ONLY, _READ_ONLY, types.int64[::1], types.float64[:, :, ::1]
    ),
    learner_loop: types.int64(
        STATE, PLACEMENT, SHADOW, DEVICES, types.float64[:, ::1], types.int64,  # the learner, its log, `refresh`
        ROW_HEAP, types.int64, types.int64,  # the running tasks, the rows
        *LEARNER_TASKS, *CLUSTER_ARRAYS, *OUTCOME_COLUMNS,
    ),
}  # fmt: skip


def compiled_entry(function: Any) -> Any:
    """Return one of the entries above, compiled."""
    return compiled(function, _SIGNATURES[function])
