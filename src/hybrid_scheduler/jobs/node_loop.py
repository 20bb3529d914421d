"""Compiled loop of jobs on nodes: events, decisions and what nodes hold.

Events are submissions and ends of jobs. At one time ends come first, then submissions, then one decision: waiting
jobs start in the order of the queue until one does not fit. What happens to those behind it says `backfilling`:

none
    They wait.
easy
    One that fits passes if it ends, by its request, before the head could start (Lifka 1995). That time is when the
    head fits once running jobs have ended at their requested times, placed by the same policy.

All parts of a job start together or not at all. Scores of nodes are kept for the frequent demands, and computed
again only for nodes that have changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, types, void
from numpy.typing import NDArray

from ..compiled import entry, inner, uniform
from ..compiled.row_heap import ROW_HEAP, RowHeap, pop_row, push_row
from ..core import Floats, Ints
from .placement_policies.fgd import fragmentation
from .placement_policies.placement_policy import (
    PLACEMENT_SIGNATURE,
    RANDOM_GPU,
    TYPICAL_TYPE,
    NodeState,
    PartDemand,
)
from .waiting_queue import (
    SCORE_SIGNATURE,
    STARTED,
    WAITING,
    admit_submitted,
    drop_started,
    next_event,
    sort_queue,
)

#: Waiting jobs that may pass the head in one decision.
_BACKFILL_DEPTH = 1000


class Rules(NamedTuple):
    """How a run goes on."""

    #: Whether scores of the queue depend on the wait, and whether jobs may pass the head.
    ages: bool
    easy: bool
    #: Whether jobs never end, and one that fits nowhere when it is considered is refused.
    fills: bool
    random_ties: bool
    seed: int


class JobColumns(NamedTuple):
    """Columns of the log, and what one part of each job needs."""

    submit: Floats
    run_time: Floats
    requested: Floats
    processors: Ints
    cpu: Ints
    memory: Ints
    gpus: Ints
    gpu_milli: Ints
    models: Ints
    parts: Ints
    #: First part of each job among all parts.
    first: Ints
    #: Class of equal demands whose scores are kept; the last class is for all others.
    kind: Ints


class ClusterState(NamedTuple):
    """Nodes as they are now, and the kept scores of each class of demand."""

    cpu: Ints
    memory: Ints
    gpus: NDArray[np.int64]
    gpu_count: Ints
    jobs: NDArray[np.int64]
    model: Ints
    #: Number of the last change of each node, and the one at which a class was scored there.
    changes: Ints
    scored: NDArray[np.int64]
    score: NDArray[np.int64]
    gpu: NDArray[np.int64]
    notes: Ints
    #: Thousandths of accelerators of each node that typical jobs cannot use.
    lost: Floats


class RunState(NamedTuple):
    """Starts and places of the jobs, the queue, and sums over the cluster."""

    start: Floats
    expected: Floats
    queue: Ints
    score: Floats
    waits: NDArray[np.bool_]
    running: RowHeap
    #: Node and set of accelerators (bits) of each part.
    node: Ints
    gpu_set: Ints
    #: Jobs in the order of the decisions about them.
    order: Ints
    #: Thousandths of accelerators that jobs hold, and that typical jobs cannot use: now, and after each decision.
    now: Floats
    held: Floats
    lost: Floats


_F = float64[::1]
_I = int64[::1]
_M = int64[:, ::1]
LOOP_SIGNATURE = void(
    types.FunctionType(SCORE_SIGNATURE), types.FunctionType(PLACEMENT_SIGNATURE),
    types.NamedTuple((boolean, boolean, boolean, boolean, int64), Rules), TYPICAL_TYPE,
    types.NamedTuple((_F, _F, _F, _I, _I, _I, _I, _I, _I, _I, _I, _I), JobColumns),
    types.NamedTuple((_I, _I, _M, _I, _M, _I, _I, _M, _M, _M, _I, _F), ClusterState),
    types.NamedTuple((_F, _F, _I, _F, boolean[::1], ROW_HEAP, _I, _I, _I, _F, _F, _F), RunState), _I,
)  # fmt: skip

#: Mark of a node on which a part does not fit, in place of its accelerator.
_DOES_NOT_FIT = -9


@inner
def _part_of(job, jobs):  # type: ignore[no-untyped-def]
    return PartDemand(jobs.cpu[job], jobs.memory[job], jobs.gpus[job], jobs.gpu_milli[job], jobs.models[job])


@inner
def _parts_that_fit(cpu, memory, gpus, count, model, part):  # type: ignore[no-untyped-def]
    """Return how many equal parts fit on a node."""
    fitting = 1 << 40
    if part.cpu > 0:
        fitting = cpu // part.cpu
    if part.memory > 0:
        fitting = min(fitting, memory // part.memory)
    if part.gpus > 0:
        if part.models != 0 and (part.models & model) == 0:
            return 0
        usable = 0
        for gpu in range(count):
            usable += gpus[gpu] // part.gpu_milli
        fitting = min(fitting, usable // part.gpus)
    return fitting


@inner
def _score_node(kind, node, part, place_of, typical, cluster):  # type: ignore[no-untyped-def]
    """Score a node for a class of demands, if a part fits there."""
    cluster.scored[kind, node] = cluster.changes[node]
    cluster.gpu[kind, node] = _DOES_NOT_FIT
    gpus = cluster.gpus[node]
    count = cluster.gpu_count[node]
    model = cluster.model[node]
    if _parts_that_fit(cluster.cpu[node], cluster.memory[node], gpus, count, model, part) > 0:
        state = NodeState(cluster.cpu[node], cluster.memory[node], gpus, count, cluster.jobs[node], model)
        cluster.score[kind, node], cluster.gpu[kind, node] = place_of(state, part, typical, cluster.notes)


@inner
def _best_node(job, draw, place_of, rules, typical, jobs, cluster):  # type: ignore[no-untyped-def]
    """Return the node of largest score on which a part fits, or -1."""
    kind = jobs.kind[job]
    part = _part_of(job, jobs)
    if kind == cluster.scored.shape[0] - 1:
        cluster.scored[kind, :] = -1
    best = 0
    chosen = -1
    luck = 0.0
    for node in range(len(cluster.cpu)):
        if cluster.scored[kind, node] != cluster.changes[node]:
            _score_node(kind, node, part, place_of, typical, cluster)
        if cluster.gpu[kind, node] == _DOES_NOT_FIT:
            continue
        score = cluster.score[kind, node]
        if chosen < 0 or score > best:
            best = score
            chosen = node
            luck = uniform(rules.seed, draw, node) if rules.random_ties else 0.0
        elif rules.random_ties and score == best:
            other = uniform(rules.seed, draw, node)
            if other > luck:
                chosen = node
                luck = other
    return chosen


@inner
def _accelerators(node, draw, gpu, seed, part, cluster):  # type: ignore[no-untyped-def]
    """Return the set of accelerators of a node that a part gets."""
    if part.gpus == 0:
        return 0
    taken = 0
    if part.gpu_milli == 1000:
        wanted = part.gpus
        for index in range(cluster.gpu_count[node]):
            if wanted > 0 and cluster.gpus[node, index] == 1000:
                taken |= 1 << index
                wanted -= 1
        return taken
    chosen = gpu
    luck = -1.0
    for index in range(cluster.gpu_count[node]):
        free = cluster.gpus[node, index]
        if free < part.gpu_milli or gpu >= 0:
            continue
        if gpu == RANDOM_GPU:
            other = uniform(seed, draw, len(cluster.cpu) + index)
            if other > luck:
                luck = other
                chosen = index
        elif chosen < 0 or free < cluster.gpus[node, chosen]:
            chosen = index
    return 1 << chosen


@inner
def _account(node, held, typical, cluster, run):  # type: ignore[no-untyped-def]
    """Note what a node's jobs hold more, and what typical jobs cannot use there now."""
    lost = fragmentation(
        cluster.cpu[node], cluster.gpus[node], cluster.gpu_count[node], cluster.model[node], typical
    )
    run.now[0] += held
    run.now[1] += lost - cluster.lost[node]
    cluster.lost[node] = lost


@inner
def _hold(part_row, job, sign, typical, jobs, run, cluster):  # type: ignore[no-untyped-def]
    """Take (sign 1) or give back (-1) what a part holds on its node."""
    node = run.node[part_row]
    cluster.cpu[node] -= sign * jobs.cpu[job]
    cluster.memory[node] -= sign * jobs.memory[job]
    cluster.changes[node] += 1
    if jobs.gpus[job] > 0:
        cluster.jobs[node, 0 if jobs.gpu_milli[job] < 1000 else jobs.gpus[job]] += sign
        for gpu in range(cluster.gpu_count[node]):
            if run.gpu_set[part_row] >> gpu & 1:
                cluster.gpus[node, gpu] -= sign * jobs.gpu_milli[job]
    _account(node, sign * jobs.gpus[job] * jobs.gpu_milli[job], typical, cluster, run)


@inner
def _try_start(job, now, place_of, rules, typical, jobs, cluster, run, counts):  # type: ignore[no-untyped-def]
    """Place all parts of a job and start it, or none; return whether it started."""
    first = jobs.first[job]
    for row in range(first, first + jobs.parts[job]):
        node = _best_node(job, row, place_of, rules, typical, jobs, cluster)
        run.node[row] = node
        if node < 0:
            for placed in range(first, row):
                _hold(placed, job, -1, typical, jobs, run, cluster)
                run.node[placed] = -1
            return False
        gpu = cluster.gpu[jobs.kind[job], node]
        run.gpu_set[row] = _accelerators(node, row, gpu, rules.seed, _part_of(job, jobs), cluster)
        _hold(row, job, 1, typical, jobs, run, cluster)
    run.start[job] = now
    if not rules.fills:
        run.expected[job] = now + jobs.requested[job]
        push_row(run.running, now + jobs.run_time[job], job)
    return True


@inner
def _decided(job, run, counts):  # type: ignore[no-untyped-def]
    """Remove a job that was started or refused from those that wait."""
    run.waits[job] = False
    run.order[counts[STARTED]] = job
    run.held[counts[STARTED]] = run.now[0]
    run.lost[counts[STARTED]] = run.now[1]
    counts[STARTED] += 1


@inner
def _head_starts_at(now, jobs, cluster, run):  # type: ignore[no-untyped-def]
    """Return when the head of the queue fits, if running jobs end at their requested times."""
    head = run.queue[0]
    part = _part_of(head, jobs)
    cpu = cluster.cpu.copy()
    memory = cluster.memory.copy()
    gpus = cluster.gpus.copy()
    fitting = 0
    for node in range(len(cpu)):
        fitting += _parts_that_fit(
            cpu[node], memory[node], gpus[node], cluster.gpu_count[node], cluster.model[node], part
        )
    ends = np.empty(run.running.length[0])
    for place in range(len(ends)):
        ends[place] = max(run.expected[run.running.row[place]], now)
    for place in np.argsort(ends, kind="mergesort"):
        job = run.running.row[place]
        for row in range(jobs.first[job], jobs.first[job] + jobs.parts[job]):
            node = run.node[row]
            count = cluster.gpu_count[node]
            model = cluster.model[node]
            fitting -= _parts_that_fit(cpu[node], memory[node], gpus[node], count, model, part)
            cpu[node] += jobs.cpu[job]
            memory[node] += jobs.memory[job]
            for gpu in range(count):
                if run.gpu_set[row] >> gpu & 1:
                    gpus[node, gpu] += jobs.gpu_milli[job]
            fitting += _parts_that_fit(cpu[node], memory[node], gpus[node], count, model, part)
        if fitting >= jobs.parts[head]:
            return ends[place]
    return now


@entry
def node_loop(score_of, place_of, rules, typical, jobs, cluster, run, counts):  # type: ignore[no-untyped-def]
    """Write the start of every job and the places of its parts."""
    for node in range(len(cluster.cpu)):
        _account(node, 0, typical, cluster, run)
    arrived = 0
    while counts[STARTED] < len(jobs.submit):
        now = next_event(arrived, jobs, run)
        while run.running.length[0] > 0 and run.running.key[0] <= now:
            ended = pop_row(run.running)
            for row in range(jobs.first[ended], jobs.first[ended] + jobs.parts[ended]):
                _hold(row, ended, -1, typical, jobs, run, cluster)
        arrived = admit_submitted(arrived, now, score_of, not rules.ages, jobs, run, counts)
        if rules.ages:
            sort_queue(now, score_of, jobs, run, counts)
        before = counts[STARTED]
        for place in range(counts[WAITING]):
            job = run.queue[place]
            if _try_start(job, now, place_of, rules, typical, jobs, cluster, run, counts) or rules.fills:
                _decided(job, run, counts)
            else:
                break
        if counts[STARTED] > before:
            drop_started(run, counts)
            before = counts[STARTED]
        if rules.easy and counts[WAITING] > 1:
            at = _head_starts_at(now, jobs, cluster, run)
            for place in range(1, min(counts[WAITING], _BACKFILL_DEPTH + 1)):
                job = run.queue[place]
                if now + jobs.requested[job] <= at and _try_start(
                    job, now, place_of, rules, typical, jobs, cluster, run, counts
                ):
                    _decided(job, run, counts)
            if counts[STARTED] > before:
                drop_started(run, counts)
