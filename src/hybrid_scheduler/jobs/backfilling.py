"""Compiled backfilling: which waiting jobs may pass the head of the queue.

none
    None: the queue waits for its head.
easy
    One that fits passes if it does not delay the head beyond its reservation (Lifka 1995): the time at which the
    head fits once running jobs have ended at their requested times. It ends before, or leaves enough for the head.
conservative
    Every waiting job has a reservation of places in the order of the queue, and one passes if it delays none of
    them (Mu'alem and Feitelson 2001).

A running job that outlives its request is expected to end at any moment.
"""

from __future__ import annotations

import numpy as np

from ..compiled.jit_cache import leaf
from .job_runs import insert, requested_seconds, start_job, within_quota
from .node_state import (
    ARRIVED,
    ARRIVED_SEEN,
    CHANGES,
    CHANGES_SEEN,
    CPU,
    FITTED_SEEN,
    GPUS,
    accelerators,
    copy_free,
    fitting_now,
    fitting_on,
    hold,
    hold_all,
    move,
    part_of,
    score_nodes,
    shift,
    try_place,
)
from .waiting_queue import WAITING

#: Rows of the copies of free amounts along a time line: at a time, ahead of it, and least over a window.
_AT = 0
_AHEAD = 1
_LEAST = 2


# ---------------------------------------------------------------- EASY


@leaf
def first_within_quota(sim):  # type: ignore[no-untyped-def]
    """Return the place of the first waiting job within its user's quota; the end of the queue if none is."""
    place = 0
    while place < sim.counts[WAITING] and not within_quota(sim.queue.row[place], sim):
        place += 1
    return place


@leaf
def _reserve(now, head, sim):  # type: ignore[no-untyped-def]
    """Compute the reservation of the head, unless it is known.

    Jobs that end before it, as expected or earlier, change nothing: their places are free then in any case, and
    just before then the head does not fit with them either.
    """
    own = sim.reservation
    if own[0].job == head and now < own[0].at:
        return
    jobs = sim.jobs
    copy_free(sim.free, sim.later)
    fitting = fitting_now(head, sim)
    at = now
    for place in range(sim.by_end.length[0]):
        end = max(sim.by_end.key[place], now)
        if fitting >= jobs[head].parts and end > at:
            break
        fitting += shift(sim.by_end.row[place], -1, head, sim.later, sim)
        at = end
    own[0].job = head
    own[0].fitting = fitting
    own[0].at = at
    if fitting < jobs[head].parts:
        # A head that waits for a repair has no reservation: all that fits may pass.
        own[0].at = np.inf
        own[0].job = -1
    own[0].cpu = 0
    own[0].gpu = 0
    for node in range(len(sim.nodes)):
        if sim.nodes[node].down == 0:
            own[0].cpu += sim.later[node, CPU]
            for gpu in range(sim.nodes[node].gpu_count):
                own[0].gpu += sim.later[node, GPUS + gpu]


@leaf
def _leaves_enough(job, head, sim):  # type: ignore[no-untyped-def]
    """Return whether the head fits at its reservation by the sums of free amounts; its nodes may be too full."""
    jobs = sim.jobs
    own = sim.reservation[0]
    cpu = jobs[job].cpu * jobs[job].parts + jobs[head].cpu * jobs[head].parts
    gpu = jobs[job].gpus * jobs[job].gpu_milli * jobs[job].parts
    gpu += jobs[head].gpus * jobs[head].gpu_milli * jobs[head].parts
    return cpu <= own.cpu and gpu <= own.gpu


@leaf
def backfill_easy(now, place_of, sim):  # type: ignore[no-untyped-def]
    """Start jobs behind the head that do not delay it; return whether any did."""
    jobs = sim.jobs
    first = first_within_quota(sim)
    if first == sim.counts[WAITING]:
        return False
    head = sim.queue.row[first]
    own = sim.reservation
    known = False
    # Where nothing has ended since a pass that started none, only jobs submitted since then can start.
    same = sim.counts[FITTED_SEEN] == 0 or (own[0].job == head and now < own[0].at)
    oldest = sim.counts[ARRIVED_SEEN] if same and sim.counts[CHANGES_SEEN] == sim.counts[CHANGES] else 0
    started = False
    for place in range(first + 1, min(sim.counts[WAITING], first + sim.rules.depth + 1)):
        job = sim.queue.row[place]
        if job < oldest or fitting_now(job, sim) < jobs[job].parts or not within_quota(job, sim):
            continue
        if not known:
            _reserve(now, head, sim)
            known = True
        reserved = own[0].job
        in_time = now + requested_seconds(job, sim) <= own[0].at
        if not in_time and not _leaves_enough(job, head, sim):
            continue
        try_place(job, place_of, sim)
        if not in_time:
            less = shift(job, 1, head, sim.later, sim)
            if own[0].fitting + less < jobs[head].parts:
                shift(job, -1, head, sim.later, sim)
                hold_all(job, jobs[job].parts, -1, sim)
                continue
            own[0].fitting += less
            own[0].cpu -= jobs[job].cpu * jobs[job].parts
            own[0].gpu -= jobs[job].gpus * jobs[job].gpu_milli * jobs[job].parts
        start_job(job, now, sim)
        own[0].job = reserved
        started = True
    if oldest == 0 or started:
        sim.counts[FITTED_SEEN] = 0
    sim.counts[FITTED_SEEN] |= known
    sim.counts[CHANGES_SEEN] = -1 if started else sim.counts[CHANGES]
    sim.counts[ARRIVED_SEEN] = sim.counts[ARRIVED]
    return started


# ---------------------------------------------------------------- conservative


@leaf
def _follow(time, place, row, part, sim):  # type: ignore[no-untyped-def]
    """Carry out the time line up to a time in a copy; return the next place and how many parts fit more."""
    line = sim.line
    more = 0
    while place < line.length[0] and line.key[place] <= time:
        job = line.row[place]
        sign = -1
        if job < 0:
            job = -1 - job
            sign = 1
        for at in range(sim.jobs[job].first, sim.jobs[job].first + sim.jobs[job].parts):
            node = sim.parts[at].node
            move(at, job, sign, sim.copies[row], sim)
            fits = fitting_on(node, part, sim.nodes, sim.copies[row])
            more += fits - sim.windows[row, node]
            sim.windows[row, node] = fits
        place += 1
    return place, more


@leaf
def _lower(begin, end, needed, fitting, part, sim):  # type: ignore[no-untyped-def]
    """Lower the least free amounts to those ahead on nodes of some entries; return the parts that fit over all."""
    width = sim.free.shape[1]
    for place in range(begin, end):
        job = sim.line.row[place]
        if job >= 0:
            continue
        job = -1 - job
        for at in range(sim.jobs[job].first, sim.jobs[job].first + sim.jobs[job].parts):
            node = sim.parts[at].node
            for column in range(width):
                ahead = sim.copies[_AHEAD, node, column]
                if ahead < sim.copies[_LEAST, node, column]:
                    sim.copies[_LEAST, node, column] = ahead
            fits = fitting_on(node, part, sim.nodes, sim.copies[_LEAST])
            fitting += fits - sim.windows[_LEAST, node]
            sim.windows[_LEAST, node] = fits
    return fitting


@leaf
def _earliest(job, now, seconds, sim):  # type: ignore[no-untyped-def]
    """Return the first time from which a job fits for its whole time, with the least amounts that are free then."""
    part = part_of(job, sim.jobs)
    needed = sim.jobs[job].parts
    kind = sim.jobs[job].kind
    line = sim.line
    copy_free(sim.free, sim.copies[_AT])
    fitting = fitting_now(job, sim)
    for node in range(len(sim.nodes)):
        sim.windows[_AT, node] = sim.fits[kind, node]
    place = 0
    at = now
    hopeless = 0
    while True:
        if fitting >= needed and place >= hopeless:
            copy_free(sim.copies[_AT], sim.copies[_AHEAD])
            copy_free(sim.copies[_AT], sim.copies[_LEAST])
            for node in range(len(sim.nodes)):
                sim.windows[_AHEAD, node] = sim.windows[_AT, node]
                sim.windows[_LEAST, node] = sim.windows[_AT, node]
            ahead = place
            over = fitting
            instant = fitting
            while over >= needed and ahead < line.length[0] and line.key[ahead] < at + seconds:
                before = ahead
                ahead, more = _follow(line.key[ahead], ahead, _AHEAD, part, sim)
                instant += more
                over = _lower(before, ahead, needed, over, part, sim)
            if over >= needed:
                return at
            if instant < needed:
                hopeless = ahead
        if place == line.length[0]:
            return np.inf
        at = line.key[place]
        place, more = _follow(at, place, _AT, part, sim)
        fitting += more


@leaf
def _place_over_window(job, begins_now, place_of, sim):  # type: ignore[no-untyped-def]
    """Give the parts of a job places that are free over its window: the best now, or the first later."""
    jobs = sim.jobs
    part = part_of(job, jobs)
    kind = jobs[job].kind
    least = sim.copies[_LEAST]
    node = 0
    for row in range(jobs[job].first, jobs[job].first + jobs[job].parts):
        gpu = -1
        if begins_now:
            fitting_now(job, sim)
            score_nodes(job, place_of, sim)
            node = -1
            for other in range(len(sim.nodes)):
                better = node < 0 or sim.scores[kind, other].score > sim.scores[kind, node].score
                if sim.windows[_LEAST, other] > 0 and sim.fits[kind, other] > 0 and better:
                    node = other
            gpu = sim.scores[kind, node].gpu
            if gpu >= 0 and least[node, GPUS + gpu] < part.gpu_milli:
                gpu = -1
        else:
            while sim.windows[_LEAST, node] == 0:
                node += 1
        sim.parts[row].node = node
        sim.parts[row].gpu_set = accelerators(node, row, gpu, part, least, sim)
        move(row, job, 1, least, sim)
        sim.windows[_LEAST, node] = fitting_on(node, part, sim.nodes, least)
        if begins_now:
            hold(row, job, 1, sim)


@leaf
def backfill_conservative(now, place_of, sim):  # type: ignore[no-untyped-def]
    """Give every waiting job a reservation in the order of the queue; start those that are reserved now, if any."""
    jobs = sim.jobs
    last = -1
    for place in range(min(sim.counts[WAITING], sim.rules.depth + 1)):
        job = sim.queue.row[place]
        if fitting_now(job, sim) >= jobs[job].parts and within_quota(job, sim):
            last = place
    line = sim.line
    line.length[0] = 0
    for place in range(sim.by_end.length[0] if last >= 0 else 0):
        # Places of jobs that outlived their requests are expected at any moment, yet are not free.
        line.key[place] = max(sim.by_end.key[place], np.nextafter(now, np.inf))
        line.row[place] = sim.by_end.row[place]
        line.length[0] += 1
    started = False
    for place in range(last + 1):
        job = sim.queue.row[place]
        if not within_quota(job, sim):
            continue
        seconds = requested_seconds(job, sim)
        at = _earliest(job, now, seconds, sim)
        if at == np.inf:
            continue
        _place_over_window(job, at == now, place_of, sim)
        if at == now:
            started = True
            start_job(job, now, sim)
            insert(max(now + seconds, np.nextafter(now, np.inf)), job, line)
        elif at + seconds > at:
            insert(at, -1 - job, line)
            insert(at + seconds, job, line)
    return started
