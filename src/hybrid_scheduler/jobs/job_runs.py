"""Compiled runs of jobs: start, end, stop, and the service and quotas of users."""

from __future__ import annotations

import numpy as np

from ..compiled.jit_cache import helper, leaf
from ..compiled.row_heap import pop_row, push_row
from .node_state import ARRIVED, RUN_PARTS, RUNS, hold_all
from .waiting_queue import STARTED, admit_job

#: Values of `Rules.backfilling`.
BACKFILLING = {"none": 0, "easy": 1, "conservative": 2}
#: Values of `Rules.service`: the fourth argument of a queue policy is the wait, or the processor seconds that the
#: job or its user has had.
SERVICE = {"": 0, "job": 1, "user": 2}
_OF_USER = 2


# ---------------------------------------------------------------- lists sorted by time


@leaf
def _first_after(time, line):  # type: ignore[no-untyped-def]
    """Return the place of the first entry of a sorted list that is after a time."""
    low = 0
    high = line.length[0]
    while low < high:
        middle = (low + high) // 2
        if line.key[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def insert(time, row, line):  # type: ignore[no-untyped-def]
    """Add an entry to a sorted list, behind those of the same time."""
    place = _first_after(time, line)
    for at in range(line.length[0], place, -1):
        line.key[at] = line.key[at - 1]
        line.row[at] = line.row[at - 1]
    line.key[place] = time
    line.row[place] = row
    line.length[0] += 1


@leaf
def _remove(time, row, line):  # type: ignore[no-untyped-def]
    """Remove an entry of a sorted list."""
    place = _first_after(time, line) - 1
    while line.row[place] != row:
        place -= 1
    line.length[0] -= 1
    for at in range(place, line.length[0]):
        line.key[at] = line.key[at + 1]
        line.row[at] = line.row[at + 1]


# ---------------------------------------------------------------- users


@helper
def _share_of_user(job, sign, now, sim):  # type: ignore[no-untyped-def]
    """Note that a job of a user starts (sign 1) or ends (-1): what is held, and the service until now."""
    users = sim.users
    jobs = sim.jobs
    user = jobs[job].user
    users[user].service += users[user].rate * (now - users[user].since)
    users[user].since = now
    users[user].rate += sign * float(jobs[job].processors)
    users[user].cpu += sign * jobs[job].cpu * jobs[job].parts
    users[user].gpu += sign * jobs[job].gpus * jobs[job].gpu_milli * jobs[job].parts


@leaf
def within_quota(job, sim):  # type: ignore[no-untyped-def]
    """Return whether the job's user may hold it as well."""
    users = sim.users
    jobs = sim.jobs
    user = jobs[job].user
    gpu = jobs[job].gpus * jobs[job].gpu_milli * jobs[job].parts
    fits = users[user].cpu + jobs[job].cpu * jobs[job].parts <= users[user].most_cpu
    return fits and users[user].gpu + gpu <= users[user].most_gpu


@leaf
def score_job(job, now, score_of, sim):  # type: ignore[no-untyped-def]
    """Return the score of a waiting or running job by its wait, or by the service that it or its user has had."""
    jobs = sim.jobs
    processors = float(jobs[job].processors)
    grows = now - jobs[job].submit
    if sim.rules.service == _OF_USER:
        user = jobs[job].user
        grows = sim.users[user].service + sim.users[user].rate * (now - sim.users[user].since)
    elif sim.rules.service > 0:
        grows = processors * (sim.jobs[job].done + (0.0 if sim.queue.waits[job] else now - sim.jobs[job].began))
    return score_of(jobs[job].submit, jobs[job].requested, processors, grows)


# ---------------------------------------------------------------- runs


@leaf
def enter_queue(job, now, score_of, limit, sim):  # type: ignore[no-untyped-def]
    """Let a job wait."""
    admit_job(job, score_job(job, now, score_of, sim), not sim.rules.sorts, limit, sim.queue, sim.counts)


@leaf
def requested_seconds(job, sim):  # type: ignore[no-untyped-def]
    """Return the seconds that a waiting job is expected to run: a restart, and what is left of its request."""
    again = sim.rules.restart if sim.jobs[job].stops > 0 else 0.0
    return again + max(sim.jobs[job].requested - sim.jobs[job].done, 0.0)


@leaf
def start_job(job, now, sim):  # type: ignore[no-untyped-def]
    """Start a job whose parts are placed."""
    own = sim.jobs
    if own[job].stops == 0:
        own[job].start = now
    own[job].began = now
    sim.reservation[0].job = -1
    if not sim.rules.fills:
        own[job].expected = now + requested_seconds(job, sim)
        again = sim.rules.restart if own[job].stops > 0 else 0.0
        push_row(sim.running, now + again + own[job].run_time - own[job].done, job)
        if sim.rules.backfilling > 0:
            insert(own[job].expected, job, sim.by_end)
        _share_of_user(job, 1, now, sim)
    decide(job, sim)


@leaf
def decide(job, sim):  # type: ignore[no-untyped-def]
    """Note a job that was started for the first time, or refused; it waits no longer."""
    sim.queue.waits[job] = False
    if sim.jobs[job].stops == 0:
        at = sim.counts[STARTED]
        sim.decisions[at].job = job
        sim.decisions[at].held = sim.now[0]
        sim.decisions[at].lost = sim.now[1]
        sim.counts[STARTED] = at + 1


@leaf
def _leave(job, now, sim):  # type: ignore[no-untyped-def]
    """Record a run that ends now, and give back what it held."""
    first = sim.jobs[job].first
    at = sim.counts[RUNS]
    parts = sim.counts[RUN_PARTS]
    if at < len(sim.runs) and parts + sim.jobs[job].parts <= len(sim.run_parts):
        sim.runs[at].job = job
        sim.runs[at].begin = sim.jobs[job].began
        sim.runs[at].end = now
        sim.runs[at].first = parts
        for number in range(sim.jobs[job].parts):
            sim.run_parts[parts + number].node = sim.parts[first + number].node
            sim.run_parts[parts + number].gpu_set = sim.parts[first + number].gpu_set
    sim.counts[RUNS] += 1
    sim.counts[RUN_PARTS] += sim.jobs[job].parts
    hold_all(job, sim.jobs[job].parts, -1, sim)
    _share_of_user(job, -1, now, sim)
    if sim.rules.backfilling > 0:
        _remove(sim.jobs[job].expected, job, sim.by_end)
        if sim.jobs[job].expected >= sim.reservation[0].at:
            sim.reservation[0].job = -1


@leaf
def end_first(now, score_of, limit, sim):  # type: ignore[no-untyped-def]
    """End the running job that is first to end, and let the jobs that wait for it alone enter the queue."""
    job = pop_row(sim.running)
    _leave(job, now, sim)
    sim.jobs[job].done = sim.jobs[job].run_time
    for at in range(sim.jobs[job].child, sim.jobs[job].last_child):
        child = sim.children[at]
        sim.jobs[child].left -= 1
        if sim.jobs[child].left == 0 and child < sim.counts[ARRIVED]:
            enter_queue(child, now, score_of, limit, sim)


@leaf
def stop_job(job, now, score_of, limit, sim):  # type: ignore[no-untyped-def]
    """Stop a running job: it keeps its work up to the last checkpoint, and waits again."""
    heap = sim.running
    at = 0
    while heap.row[at] != job:
        at += 1
    while at > 0:
        parent = (at - 1) // 2
        heap.key[at] = heap.key[parent]
        heap.row[at] = heap.row[parent]
        at = parent
    heap.key[0] = -np.inf
    heap.row[0] = job
    pop_row(heap)
    again = sim.rules.restart if sim.jobs[job].stops > 0 else 0.0
    worked = max(now - sim.jobs[job].began - again, 0.0)
    if sim.rules.checkpoint > 0.0:
        worked = worked // sim.rules.checkpoint * sim.rules.checkpoint if sim.rules.checkpoint < np.inf else 0.0
    _leave(job, now, sim)
    sim.reservation[0].job = -1
    sim.jobs[job].done += worked
    sim.jobs[job].stops += 1
    enter_queue(job, now, score_of, limit, sim)
