"""Compiled code of the learner: entries for single tasks, and the loop over a whole workload.

The loop learns from finishes at or before an arrival before that task is decided, in the order of (finish, row).
That is the order of the event loop, so both give the same numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ...cluster.arrival_loop import LOOP_ARRAYS
from ...compiled import compiled, entry, loop_entry
from ...compiled.jit_cache import leaf
from ...compiled.row_heap import ROW_HEAP, RowHeap, pop_row, push_row
from ...core import Floats, Ints
from ...core.outcome import FAILED
from ..queue_loop import place_task
from ..shadow_guard import ACTIVE
from .hierarchical_regression import Covariates, add_kind, covariates, learn_part, predict
from .learned_placement import (
    ENDED_PARTS,
    LEARNED_TASK,
    LEARNER,
    EndedParts,
    LearnedTask,
    LearnerArrays,
    choose,
    end_parts,
    learn_outcome,
)
from .learner_state import DEVICES, PLACEMENT, RECENT, RECENT_OUTCOMES, STATE
from .model import ACCELERATOR_SIDE, BOTH_SIDES, CPU_SIDE

_READ_ONLY = types.Array(types.float64, 1, "C", readonly=True)
_READ_ONLY_INTS = types.Array(types.int64, 1, "C", readonly=True)
#: Events in the log that a loop writes: the guard lets the other rule decide, drift, enough outcomes for a version.
#: Columns of the log are event and task; and for a version its samples, R² and error.
GUARD, DRIFT, VERSION = range(3)
LOG_COLUMNS = 5
#: Fewest predictions for an R².
_MIN_FOR_R2 = 10
#: Index of a task kind that has not been seen.
NEW_KIND = -2


class LearnerLoop(NamedTuple):
    """Arrays of a compiled loop: the learner, kinds of the tasks, parts that run, and a log of events."""

    learner: LearnerArrays
    kind: Ints  # of each row, in the workload
    kind_index: Ints  # index in the model of each kind of the workload
    running: RowHeap
    log: Floats
    events: Ints  # number of events in the log
    refresh: int  # finished parts between two versions


LEARNER_LOOP = types.NamedTuple(
    (LEARNER, _READ_ONLY_INTS, types.int64[::1], ROW_HEAP, types.float64[:, ::1], types.int64[::1], types.int64),
    LearnerLoop,
)


@entry
def decide_one(learner, now, task, free_at, starts):  # type: ignore[no-untyped-def]
    """Call `choose` from Python; with copies, because code for arrays that are read only is compiled apart."""
    return choose(learner, now, task, free_at.copy(), starts.copy())


@entry
def end_one(placement, kind, ended, devices):  # type: ignore[no-untyped-def]
    """Call `end_parts` from Python."""
    end_parts(placement, kind, ended, devices)


@entry
def learn_one(model, task, ended, devices):  # type: ignore[no-untyped-def]
    """Call `learn_outcome` from Python."""
    return learn_outcome(model, task, ended, devices)


@entry
def add_kind_entry(model):  # type: ignore[no-untyped-def]
    """Call `add_kind` from Python."""
    return add_kind(model)


@leaf
def take_scores(model):  # type: ignore[no-untyped-def]
    """Return R² and mean absolute error of the log seconds predicted since the last call; NaN if too few."""
    scores = model.scores[()]
    count = scores.count
    r2 = np.nan
    error = np.nan
    if count > 0.0:
        spread = scores.log_squares - scores.logs**2 / count
        if count >= _MIN_FOR_R2 and spread > 0.0:
            r2 = 1.0 - scores.squared / spread
        error = scores.absolute / count
    scores.count = scores.absolute = scores.squared = scores.logs = scores.log_squares = 0.0
    return r2, error


@entry
def take_scores_one(model):  # type: ignore[no-untyped-def]
    """Call `take_scores` from Python."""
    return take_scores(model)


@entry
def relearn_recent(model, recent, recent_count):  # type: ignore[no-untyped-def]
    """Learn from recent outcomes of another model, which must have the same classes and task kinds."""
    for c in range(len(recent_count)):
        count = recent_count[c]
        for r in range(max(0, count - RECENT), count):
            row = recent[c, r % RECENT]
            task = covariates(model, math.exp(row.log_size), row.intensity, row.memory, row.kind)
            task = Covariates(task.kind, row.log_size, row.intensity, row.memory)
            learn_part(model, c, task, 1.0, math.exp(row.log_seconds))
            model.recent[c, (model.recent_count[c] - 1) % RECENT].share = row.share


@entry
def predict_table(model, size, intensity, memory, kind, out):  # type: ignore[no-untyped-def]
    """Write mean and standard deviation of log seconds for every task and class into `out`."""
    for i in range(len(size)):
        task = covariates(model, size[i], intensity[i], memory[i], kind[i])
        for c in range(out.shape[1]):
            mean, variance = predict(model, c, task)
            out[i, c, 0] = mean
            out[i, c, 1] = math.sqrt(variance)


@leaf
def learned_task(loop, tasks, row):  # type: ignore[no-untyped-def]
    """Return a row of a workload as the learner sees it; a new kind gets an index."""
    kind = loop.kind[row]
    if loop.kind_index[kind] == NEW_KIND:
        loop.kind_index[kind] = add_kind(loop.learner.model)
    return LearnedTask(
        tasks.size[row], tasks.intensity[row], tasks.memory[row], loop.kind_index[kind], tasks.divisible[row]
    )


@leaf
def log_event(loop, event, task_id):  # type: ignore[no-untyped-def]
    """Add an event to the log and return its row."""
    row = loop.events[0]
    loop.log[row, 0] = event
    loop.log[row, 1] = task_id
    loop.events[0] += 1
    return row


@leaf
def learn_finished(loop, until, tasks, out):  # type: ignore[no-untyped-def]
    """Learn from the parts that end at `until` or earlier."""
    model = loop.learner.model
    devices = loop.learner.devices
    running = loop.running
    while running.length[0] > 0 and running.key[0] <= until:
        row = pop_row(running)
        ends = row < len(tasks.task_id)
        if not ends:
            row -= len(tasks.task_id)
        if out.status[row] == FAILED:
            continue
        # A part that ended before the other was learned from then.
        sides = BOTH_SIDES
        if 0.0 < out.fraction[row] < 1.0:
            cpu_end = out.cpu_start[row] + out.cpu_time[row]
            acc_end = out.accelerator_start[row] + out.accelerator_time[row]
            if cpu_end != acc_end:
                sides = CPU_SIDE if (cpu_end > acc_end) == ends else ACCELERATOR_SIDE
        task = learned_task(loop, tasks, row)
        ended = EndedParts(
            np.int64(out.device[row]), out.fraction[row], out.cpu_time[row], out.accelerator_time[row],
            sides,
        )  # fmt: skip
        end_parts(loop.learner.placement, task.kind, ended, devices)
        drifted = learn_outcome(model, task, ended, devices)
        if drifted:
            log_event(loop, DRIFT, tasks.task_id[row])
        if drifted or model.scores[()].count >= loop.refresh:
            version = loop.log[log_event(loop, VERSION, tasks.task_id[row])]
            version[2] = model.outcomes[0]
            version[3], version[4] = take_scores(model)


@leaf
def push_running(running, i, start, out):  # type: ignore[no-untyped-def]
    """Add a task that was placed to those that run, by its end; a part that ends earlier is an entry of its own.

    That entry is the row plus the number of rows: at the same time tasks that end come first.
    """
    finish = start
    if out.cpu_time[i] > 0.0:
        finish = max(finish, out.cpu_start[i] + out.cpu_time[i])
    if out.accelerator_time[i] > 0.0:
        finish = max(finish, out.accelerator_start[i] + out.accelerator_time[i])
    push_row(running, finish, i)
    if 0.0 < out.fraction[i] < 1.0:
        first = min(out.cpu_start[i] + out.cpu_time[i], out.accelerator_start[i] + out.accelerator_time[i])
        if first < finish:
            push_row(running, first, i + len(out.fraction))


@loop_entry
def learner_loop(loop, begin, end, run):  # type: ignore[no-untyped-def]
    """Decide rows begin..end at their arrival; after the workload's last row, learn from all that is under way."""
    tasks = run.tasks
    learner = loop.learner
    free_at = run.cluster.free_at
    for i in range(begin, end):
        now = tasks.arrival[i]
        # Tasks that arrive together are decided together, before any of them can finish.
        if i == 0 or now > tasks.arrival[i - 1]:
            learn_finished(loop, now, tasks, run.outcomes)
        task = learned_task(loop, tasks, i)
        active = learner.guard.counters[ACTIVE]
        device, fraction = choose(learner, now, task, free_at, free_at)
        if learner.guard.counters[ACTIVE] != active:
            log_event(loop, GUARD, tasks.task_id[i])
        place_task(i, device, fraction, now, run)
        push_running(loop.running, i, now, run.outcomes)
    if end == len(tasks.task_id):
        learn_finished(loop, np.inf, tasks, run.outcomes)


_PLACED = types.Tuple((types.int64, types.float64))
_SIGNATURES = {
    decide_one: _PLACED(LEARNER, types.float64, LEARNED_TASK, _READ_ONLY, _READ_ONLY),
    end_one: types.void(PLACEMENT, types.int64, ENDED_PARTS, DEVICES),
    learn_one: types.boolean(STATE, LEARNED_TASK, ENDED_PARTS, DEVICES),
    add_kind_entry: types.int64(STATE),
    take_scores_one: types.UniTuple(types.float64, 2)(STATE),
    relearn_recent: types.void(STATE, RECENT_OUTCOMES, types.int64[::1]),
    predict_table: types.void(
        STATE, _READ_ONLY, _READ_ONLY, _READ_ONLY, types.int64[::1], types.float64[:, :, ::1]
    ),
    learner_loop: types.void(LEARNER_LOOP, types.int64, types.int64, LOOP_ARRAYS),
}


def compiled_entry(function: Any) -> Any:
    """Return one of the entries above, compiled."""
    return compiled(function, _SIGNATURES[function])
