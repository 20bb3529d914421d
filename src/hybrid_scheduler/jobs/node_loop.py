"""Compiled loop of jobs on a cluster: events and decisions. A pool of processors is a cluster with one node.

Events are submissions, ends of jobs, and failures and repairs of nodes. At one time ends come first, then failures,
then submissions, then one decision: waiting jobs start in the order of the queue until one does not fit. The
backfilling says which of those behind it may pass.

With `preempts`, the head takes the place of running jobs that the queue would put behind it. A job that is stopped,
or whose node fails, waits again and repeats what it did after its last checkpoint. All parts of a job start
together or not at all.
"""

from __future__ import annotations

import numpy as np
from numba import types, void

from ..compiled.jit_cache import allocating, helper, loop_entry
from .backfilling import backfill_conservative, backfill_easy, first_within_quota
from .job_runs import (
    BACKFILLING,
    decide,
    end_first,
    enter_queue,
    score_job,
    start_job,
    stop_job,
    within_quota,
)
from .node_state import ARRIVED, GPUS, SIMULATION, copy_free, fitting_now, note_change, shift, try_place
from .placement_policies.placement_policy import PLACEMENT_SIGNATURE
from .waiting_queue import SCORE_SIGNATURE, WAITING, drop_started, next_event, order_queue

LOOP_SIGNATURE = void(types.FunctionType(SCORE_SIGNATURE), types.FunctionType(PLACEMENT_SIGNATURE), SIMULATION)
_NONE = BACKFILLING["none"]
_EASY = BACKFILLING["easy"]


@helper
def _fail_or_repair(event, now, score_of, limit, sim):  # type: ignore[no-untyped-def]
    """Let a node or an accelerator fail, which stops its jobs, or be repaired."""
    node = sim.events[event].node
    gpu = sim.events[event].gpu
    change = sim.events[event].change
    if gpu < 0:
        sim.nodes[node].down += change
    place = 0
    while change > 0 and place < sim.running.length[0]:
        job = sim.running.row[place]
        hit = False
        for row in range(sim.jobs[job].first, sim.jobs[job].first + sim.jobs[job].parts):
            hit = hit or (sim.parts[row].node == node and (gpu < 0 or sim.parts[row].gpu_set >> gpu & 1 == 1))
        if hit:
            stop_job(job, now, score_of, limit, sim)
            place = 0
        else:
            place += 1
    if gpu >= 0:
        sim.free[node, GPUS + gpu] -= 1000 * change
    sim.reservation[0].job = -1
    note_change(node, 0, sim)


@allocating
def _sort(now, score_of, sim):  # type: ignore[no-untyped-def]
    """Order the queue by priority, then by the scores as they are now."""
    waiting = sim.counts[WAITING]
    for place in range(waiting):
        sim.queue.score[place] = score_job(sim.queue.row[place], now, score_of, sim)
    order_queue(sim.queue, sim.counts)
    order = np.argsort(-sim.jobs.priority[sim.queue.row[:waiting]], kind="mergesort")
    sim.queue.row[:waiting] = sim.queue.row[:waiting][order]
    sim.queue.score[:waiting] = sim.queue.score[:waiting][order]


@allocating
def _preempt(now, score_of, limit, sim):  # type: ignore[no-untyped-def]
    """Stop the running jobs that come last in the queue's order until its head fits; return whether it does."""
    jobs = sim.jobs
    head = sim.queue.row[first_within_quota(sim)]
    own = score_job(head, now, score_of, sim)
    running = sim.running.row[: sim.running.length[0]].copy()
    score = np.empty(len(running))
    for place in range(len(running)):
        score[place] = -score_job(running[place], now, score_of, sim)
    order = np.argsort(score, kind="mergesort")
    order = order[np.argsort(jobs.priority[running[order]], kind="mergesort")]
    sim.reservation[0].job = -1
    copy_free(sim.free, sim.later)
    fitting = fitting_now(head, sim)
    needed = 0
    while fitting < jobs[head].parts and needed < len(order):
        job = running[order[needed]]
        ahead = jobs[job].priority > jobs[head].priority
        if ahead or (jobs[job].priority == jobs[head].priority and -score[order[needed]] <= own):
            break
        fitting += shift(job, -1, head, sim.later, sim)
        needed += 1
    if fitting < jobs[head].parts or needed == 0:
        return False
    for place in range(needed):
        stop_job(running[order[place]], now, score_of, limit, sim)
    return True


@helper
def _start_in_order(now, score_of, place_of, limit, sim):  # type: ignore[no-untyped-def]
    """Start waiting jobs in the order of the queue until one does not fit; pass over those beyond their quota."""
    counts = sim.counts
    again = True
    while again and counts[WAITING] > 0:
        again = False
        blocked = False
        for place in range(counts[WAITING]):
            job = sim.queue.row[place]
            if not within_quota(job, sim):
                continue
            if try_place(job, place_of, sim):
                start_job(job, now, sim)
                again = True
            elif sim.rules.fills:
                decide(job, sim)
                again = True
            else:
                blocked = True
                break
        if again:
            drop_started(limit, sim.queue, counts)
        if blocked and sim.rules.preempts:
            again = _preempt(now, score_of, limit, sim)
            # The stopped jobs are at the end of the queue, wherever they belong.
            if again and sim.rules.sorts:
                _sort(now, score_of, sim)
        else:
            again = again and not blocked


@loop_entry
def node_loop(score_of, place_of, sim):  # type: ignore[no-untyped-def]
    """Write the start of every job and the places of its parts."""
    jobs = sim.jobs
    counts = sim.counts
    limit = len(jobs) if sim.rules.sorts else sim.rules.depth + 1
    for node in range(len(sim.nodes)):
        note_change(node, 0, sim)
    changed = 0
    while True:
        now = next_event(counts[ARRIVED], jobs, sim.running)
        if changed < len(sim.events) and (now < np.inf or counts[WAITING] > 0):
            now = min(now, sim.events[changed].time)
        if now == np.inf:
            break
        while sim.running.length[0] > 0 and sim.running.key[0] <= now:
            end_first(now, score_of, limit, sim)
        while changed < len(sim.events) and sim.events[changed].time <= now:
            _fail_or_repair(changed, now, score_of, limit, sim)
            changed += 1
        while counts[ARRIVED] < len(jobs) and jobs[counts[ARRIVED]].submit <= now:
            if jobs[counts[ARRIVED]].left == 0:
                enter_queue(counts[ARRIVED], now, score_of, limit, sim)
            counts[ARRIVED] += 1
        if sim.rules.sorts:
            _sort(now, score_of, sim)
        _start_in_order(now, score_of, place_of, limit, sim)
        if sim.rules.backfilling != _NONE and counts[WAITING] > 1:
            if sim.rules.backfilling == _EASY:
                started = backfill_easy(now, place_of, sim)
            else:
                started = backfill_conservative(now, place_of, sim)
            if started:
                drop_started(limit, sim.queue, counts)
