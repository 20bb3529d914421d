"""Compiled state of the nodes of a cluster: free amounts, how many parts of a job fit, and the best node for one.

A change of a node is written to a log. Each class of equal demands keeps how many parts fit on each node, and a
tournament of the nodes' scores, and reads the log when it is asked: a decision costs a pass over what has changed
since the last one about such a job, not a pass over all nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, from_dtype, int64, types
from numpy.typing import NDArray

from ..compiled import uniform
from ..compiled.jit_cache import helper, leaf
from ..compiled.row_heap import ROW_HEAP, RowHeap
from ..core import Floats, Ints
from .placement_policies.fgd import fragmentation
from .placement_policies.placement_policy import RANDOM_GPU, TYPICAL_TYPE, NodeState, PartDemand, TypicalJobs
from .waiting_queue import WAITING_QUEUE, WaitingQueue

#: Places in `counts` of the numbers of runs, of their parts, of submitted jobs, and of changes of nodes, after
#: those of the queue.
RUNS = 3
RUN_PARTS = 4
ARRIVED = 5
CHANGES = 6
#: Places of the numbers of changes and of submitted jobs at the last pass of EASY that started none, and whether
#: any job would have fitted.
CHANGES_SEEN = 7
ARRIVED_SEEN = 8
FITTED_SEEN = 9
COUNTS = 10
#: Columns of the free amounts of a node: thousandths of processors, MiB, and thousandths of each accelerator.
CPU = 0
MEMORY = 1
GPUS = 2


class Rules(NamedTuple):
    """How a run goes on."""

    #: Whether the order of the queue must be computed at every decision.
    sorts: bool
    #: Whether jobs never end, and one that fits nowhere when it is considered is refused.
    fills: bool
    preempts: bool
    random_ties: bool
    #: Which jobs may pass the head: a value of `BACKFILLING`; and how many behind it are looked at.
    backfilling: int
    depth: int
    #: Service that the order needs.
    service: int
    #: Seconds of work between checkpoints (0: at any moment, infinity: none), and of a restart.
    checkpoint: float
    restart: float
    seed: int


def _fields(**kinds: str) -> np.dtype[Any]:
    """Return the type of a row of named values: f8 and i8."""
    return np.dtype([(name, kind) for kind, names in kinds.items() for name in names.split()], align=True)


#: A job: columns of the log; what one part of it needs; and its state. `first` is its first part among all parts,
#: `kind` its class of equal demands, `child` to `last_child` the slice of `children` with those that wait for it.
#: `began` is its latest start, `done` the seconds of its work that are done for good, `left` the parents to end.
JOB = _fields(
    f8="submit run_time requested priority start expected began done",
    i8="processors user left child last_child cpu memory gpus gpu_milli models parts first kind stops",
)
#: A node: model, number of accelerators, reasons why it does not work, and thousandths of its accelerators that
#: typical jobs cannot use.
NODE = _fields(f8="lost", i8="gpu_count model down")
#: A class of demands: how many parts fit in all, how much of the log of changes `fits` and `scores` contain, and
#: the job that was asked for last.
KIND = _fields(i8="fitting fits_seen scores_seen job")
#: Score of a node for a class of demands, and the accelerator.
SCORE = _fields(i8="score gpu")
#: Failure (change 1) or repair (-1) of an accelerator, or of the whole node (gpu -1).
EVENT = _fields(f8="time", i8="node gpu change")
#: A user: most thousandths of processors and accelerators, what is held now, and service until `since`.
USER = _fields(f8="service rate since", i8="most_cpu most_gpu cpu gpu")
#: Place of a part: a node, and a set of accelerators (bits).
PART = _fields(i8="node gpu_set")
#: A decision: the job, and thousandths of accelerators that are held and that typical jobs cannot use after it.
DECISION = _fields(f8="held lost", i8="job")
#: A run of a job from a start to its end or stop, and its first part among those of all runs.
RUN = _fields(f8="begin end", i8="job first")
#: Reservation of the head of the queue: its time, its job (-1: none), the parts that fit then, and the thousandths
#: of processors and accelerators that are free then.
RESERVATION = _fields(f8="at", i8="job fitting cpu gpu")

Rows = NDArray[Any]


class Simulation(NamedTuple):
    """All that the loop works on: rows of the types above, the queue, and free amounts of the nodes."""

    rules: Rules
    typical: TypicalJobs
    jobs: Rows
    children: Ints
    parts: Rows
    nodes: Rows
    #: Free amounts of each node now, when the head's reservation begins, and three copies for time lines.
    free: NDArray[np.int64]
    later: NDArray[np.int64]
    copies: NDArray[np.int64]
    #: Jobs of each node by number of whole accelerators.
    node_jobs: NDArray[np.int64]
    #: Nodes in the order of their latest changes, as a ring.
    changed: Ints
    kinds: Rows
    fits: NDArray[np.int64]
    scores: Rows
    #: Tournament of the nodes for each class: the winner is at 1, the nodes are the leaves.
    best: NDArray[np.int64]
    notes: Ints
    #: Parts that fit on each node, for time lines: now, ahead, and over a window.
    windows: NDArray[np.int64]
    events: Rows
    users: Rows
    queue: WaitingQueue
    running: RowHeap
    #: Running jobs and their expected ends, in the order of these; kept for backfilling alone.
    by_end: RowHeap
    #: Time line of a conservative backfilling: times, jobs (from -1 downwards: they take their parts).
    line: RowHeap
    reservation: Rows
    #: Thousandths of accelerators that jobs hold, and that typical jobs cannot use, now.
    now: Floats
    decisions: Rows
    runs: Rows
    run_parts: Rows
    counts: Ints


def _rows_of(kind: np.dtype[Any], dimensions: int = 1) -> Any:
    return types.Array(from_dtype(kind), dimensions, "C")


_I = int64[::1]
_M = int64[:, ::1]
SIMULATION = types.NamedTuple(
    (
        types.NamedTuple((*(boolean,) * 4, int64, int64, int64, float64, float64, int64), Rules), TYPICAL_TYPE,
        _rows_of(JOB), _I, _rows_of(PART), _rows_of(NODE), _M, _M, int64[:, :, ::1], _M, _I, _rows_of(KIND), _M,
        _rows_of(SCORE, 2), _M, _I, _M, _rows_of(EVENT), _rows_of(USER), WAITING_QUEUE, ROW_HEAP, ROW_HEAP,
        ROW_HEAP, _rows_of(RESERVATION), float64[::1], _rows_of(DECISION), _rows_of(RUN), _rows_of(PART), _I,
    ),
    Simulation,
)  # fmt: skip


@leaf
def part_of(job, jobs):  # type: ignore[no-untyped-def]
    """Return what one part of a job needs."""
    return PartDemand(jobs[job].cpu, jobs[job].memory, jobs[job].gpus, jobs[job].gpu_milli, jobs[job].models)


# ---------------------------------------------------------------- what fits


@leaf
def fitting_on(node, part, nodes, free):  # type: ignore[no-untyped-def]
    """Return how many equal parts fit on a node with these free amounts."""
    if nodes[node].down > 0:
        return 0
    fitting = 1 << 40
    if part.cpu > 0:
        fitting = max(free[node, CPU], 0) // part.cpu
    if part.memory > 0 and fitting > 0:
        fitting = min(fitting, max(free[node, MEMORY], 0) // part.memory)
    if part.gpus > 0 and fitting > 0:
        if part.models != 0 and (part.models & nodes[node].model) == 0:
            return 0
        usable = 0
        for gpu in range(nodes[node].gpu_count):
            usable += max(free[node, GPUS + gpu], 0) // part.gpu_milli
        fitting = min(fitting, usable // part.gpus)
    return fitting


@leaf
def fitting_now(job, sim):  # type: ignore[no-untyped-def]
    """Return how many parts like those of a job fit on the nodes as they are."""
    kind = sim.jobs[job].kind
    nodes = len(sim.nodes)
    part = part_of(job, sim.jobs)
    # The last class is of all demands that are too rare to keep what fits.
    if kind == len(sim.kinds) - 1 and sim.kinds[kind].job != job:
        sim.kinds[kind].job = job
        sim.kinds[kind].fits_seen = -nodes - 1
        sim.kinds[kind].scores_seen = -nodes - 1
    changes = sim.counts[CHANGES]
    seen = sim.kinds[kind].fits_seen
    if changes == seen:
        return sim.kinds[kind].fitting
    fitting = sim.kinds[kind].fitting
    if changes - seen > nodes:
        fitting = 0
        for node in range(nodes):
            sim.fits[kind, node] = fitting_on(node, part, sim.nodes, sim.free)
            fitting += sim.fits[kind, node]
    else:
        for change in range(seen, changes):
            node = sim.changed[change % nodes]
            fits = fitting_on(node, part, sim.nodes, sim.free)
            fitting += fits - sim.fits[kind, node]
            sim.fits[kind, node] = fits
    sim.kinds[kind].fitting = fitting
    sim.kinds[kind].fits_seen = changes
    return fitting


# ---------------------------------------------------------------- the best node


@leaf
def _score_node(kind, node, part, place_of, sim):  # type: ignore[no-untyped-def]
    """Score a node for a class of demands, if a part fits there."""
    if sim.fits[kind, node] > 0:
        free = sim.free[node]
        own = sim.nodes[node]
        state = NodeState(free[CPU], free[MEMORY], free[GPUS:], own.gpu_count, sim.node_jobs[node], own.model)
        sim.scores[kind, node].score, sim.scores[kind, node].gpu = place_of(state, part, sim.typical, sim.notes)


@helper
def _play(kind, at, sim):  # type: ignore[no-untyped-def]
    """Let the winners of two branches play: the larger score wins, then the first node; -1 where no part fits."""
    won = sim.best[kind, 2 * at]
    other = sim.best[kind, 2 * at + 1]
    if won >= 0 and sim.fits[kind, won] == 0:
        won = -1
    if other >= 0 and sim.fits[kind, other] > 0:
        higher = won < 0 or sim.scores[kind, other].score > sim.scores[kind, won].score
        won = other if higher else won
    sim.best[kind, at] = won


@leaf
def score_nodes(job, place_of, sim):  # type: ignore[no-untyped-def]
    """Bring the scores of the nodes for a job up to date, after `fitting_now`."""
    kind = sim.jobs[job].kind
    nodes = len(sim.nodes)
    part = part_of(job, sim.jobs)
    changes = sim.counts[CHANGES]
    seen = sim.kinds[kind].scores_seen
    leaves = sim.best.shape[1] // 2
    if changes - seen > nodes:
        for node in range(nodes):
            _score_node(kind, node, part, place_of, sim)
            sim.best[kind, leaves + node] = node
        for at in range(leaves - 1, 0, -1):
            _play(kind, at, sim)
    else:
        for change in range(seen, changes):
            node = sim.changed[change % nodes]
            _score_node(kind, node, part, place_of, sim)
            at = (leaves + node) // 2
            while at > 0:
                _play(kind, at, sim)
                at //= 2
    sim.kinds[kind].scores_seen = changes


@leaf
def _best_node(job, draw, place_of, sim):  # type: ignore[no-untyped-def]
    """Return the node of largest score on which a part fits, or -1."""
    if fitting_now(job, sim) == 0:
        return -1
    score_nodes(job, place_of, sim)
    kind = sim.jobs[job].kind
    chosen = sim.best[kind, 1]
    if sim.rules.random_ties:
        best = sim.scores[kind, chosen].score
        luck = -1.0
        for node in range(len(sim.nodes)):
            if sim.fits[kind, node] > 0 and sim.scores[kind, node].score == best:
                other = uniform(sim.rules.seed, draw, node)
                if other > luck:
                    chosen = node
                    luck = other
    return chosen


@leaf
def accelerators(node, draw, gpu, part, free, sim):  # type: ignore[no-untyped-def]
    """Return the set of accelerators of a node that a part gets, from the free amounts; `gpu` if it is one."""
    if part.gpus == 0:
        return 0
    taken = 0
    if part.gpu_milli == 1000:
        wanted = part.gpus
        for index in range(sim.nodes[node].gpu_count):
            if wanted > 0 and free[node, GPUS + index] == 1000:
                taken |= 1 << index
                wanted -= 1
        return taken
    chosen = gpu
    luck = -1.0
    for index in range(sim.nodes[node].gpu_count):
        left = free[node, GPUS + index]
        if left < part.gpu_milli or gpu >= 0:
            continue
        if gpu == RANDOM_GPU:
            other = uniform(sim.rules.seed, draw, len(sim.nodes) + index)
            if other > luck:
                luck = other
                chosen = index
        elif chosen < 0 or left < free[node, GPUS + chosen]:
            chosen = index
    return 1 << chosen


# ---------------------------------------------------------------- taking and giving back


@leaf
def note_change(node, held, sim):  # type: ignore[no-untyped-def]
    """Note that a node changed: that its jobs hold more, and what typical jobs cannot use there now."""
    changes = sim.counts[CHANGES]
    sim.changed[changes % len(sim.nodes)] = node
    sim.counts[CHANGES] = changes + 1
    if sim.nodes[node].gpu_count > 0:
        lost = 0.0
        own = sim.nodes[node]
        if own.down == 0:
            free = sim.free[node]
            lost = fragmentation(free[CPU], free[GPUS:], own.gpu_count, own.model, sim.typical)
        sim.now[0] += held
        sim.now[1] += lost - sim.nodes[node].lost
        sim.nodes[node].lost = lost


@leaf
def move(row, job, sign, free, sim):  # type: ignore[no-untyped-def]
    """Take (sign 1) or give back (-1) what a part holds, in free amounts of all nodes."""
    jobs = sim.jobs
    node = sim.parts[row].node
    free[node, CPU] -= sign * jobs[job].cpu
    free[node, MEMORY] -= sign * jobs[job].memory
    for gpu in range(sim.nodes[node].gpu_count if jobs[job].gpus > 0 else 0):
        if sim.parts[row].gpu_set >> gpu & 1:
            free[node, GPUS + gpu] -= sign * jobs[job].gpu_milli


@leaf
def hold(row, job, sign, sim):  # type: ignore[no-untyped-def]
    """Take (sign 1) or give back (-1) what a part holds on its node now."""
    jobs = sim.jobs
    node = sim.parts[row].node
    move(row, job, sign, sim.free, sim)
    if jobs[job].gpus > 0:
        sim.node_jobs[node, 0 if jobs[job].gpu_milli < 1000 else jobs[job].gpus] += sign
    note_change(node, sign * jobs[job].gpus * jobs[job].gpu_milli, sim)


@leaf
def hold_all(job, parts, sign, sim):  # type: ignore[no-untyped-def]
    """Take or give back what the first parts of a job hold."""
    for row in range(sim.jobs[job].first, sim.jobs[job].first + parts):
        hold(row, job, sign, sim)


@leaf
def try_place(job, place_of, sim):  # type: ignore[no-untyped-def]
    """Hold nodes for all parts of a job, or for none; return whether they fit."""
    jobs = sim.jobs
    if fitting_now(job, sim) < jobs[job].parts:
        return False
    part = part_of(job, jobs)
    for number in range(jobs[job].parts):
        row = jobs[job].first + number
        node = _best_node(job, row, place_of, sim)
        gpu = sim.scores[jobs[job].kind, node].gpu
        sim.parts[row].node = node
        sim.parts[row].gpu_set = accelerators(node, row, gpu, part, sim.free, sim)
        hold(row, job, 1, sim)
    return True


@leaf
def shift(job, sign, head, free, sim):  # type: ignore[no-untyped-def]
    """Let a job take (1) or give back (-1) in free amounts of later; return how many parts of a head fit more."""
    part = part_of(head, sim.jobs)
    more = 0
    for row in range(sim.jobs[job].first, sim.jobs[job].first + sim.jobs[job].parts):
        node = sim.parts[row].node
        more -= fitting_on(node, part, sim.nodes, free)
        move(row, job, sign, free, sim)
        more += fitting_on(node, part, sim.nodes, free)
    return more


@leaf
def copy_free(free, copy):  # type: ignore[no-untyped-def]
    """Copy free amounts without a new array."""
    for node in range(free.shape[0]):
        for column in range(free.shape[1]):
            copy[node, column] = free[node, column]
