"""Compiled loop of jobs on nodes: events, decisions and what nodes hold.

Events are submissions, ends of jobs, and failures and repairs of nodes. At one time ends come first, then failures,
then submissions, then one decision: waiting jobs start in the order of the queue until one does not fit. What
happens to those behind it says `backfilling`:

none
    They wait.
easy
    One that fits passes if it does not delay the head beyond its reservation (Lifka 1995): the time at which the
    head fits once running jobs have ended at their requested times. It ends before, or leaves enough for the head.

With `preempts`, the head takes the place of running jobs that the queue would put behind it. A job that is stopped,
or whose node fails, waits again and repeats what it did after its last checkpoint.

All parts of a job start together or not at all. Scores of nodes are kept for the frequent demands, and computed
again only for nodes that have changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, from_dtype, int64, types, void
from numpy.typing import NDArray

from ..compiled import uniform
from ..compiled.jit_cache import allocating, helper, leaf, loop_entry
from ..compiled.row_heap import ROW_HEAP, RowHeap, pop_row, push_row
from ..core import Floats, Ints
from .placement_policies.fgd import fragmentation
from .placement_policies.placement_policy import (
    PLACEMENT_SIGNATURE,
    RANDOM_GPU,
    TYPICAL_TYPE,
    NodeState,
    PartDemand,
    TypicalJobs,
)
from .waiting_queue import (
    BACKFILL_DEPTH,
    SCORE_SIGNATURE,
    STARTED,
    WAITING,
    WAITING_QUEUE,
    WaitingQueue,
    admit_job,
    drop_started,
    next_event,
    order_queue,
)

#: Places in `counts` of the numbers of runs, of their parts, and of submitted jobs, after those of the queue.
RUNS = 3
RUN_PARTS = 4
_ARRIVED = 5
COUNTS = 6
#: Values of `Rules.service`: the fourth argument of a queue policy is the wait, or the processor seconds that the
#: job or its user has had.
SERVICE = {"": 0, "job": 1, "user": 2}
_OF_USER = 2


class Rules(NamedTuple):
    """How a run goes on."""

    #: Whether the order of the queue must be computed at every decision, and whether jobs may pass its head.
    sorts: bool
    easy: bool
    #: Whether jobs never end, and one that fits nowhere when it is considered is refused.
    fills: bool
    preempts: bool
    random_ties: bool
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
#: A node: free thousandths of processors and free MiB, model, reasons why it does not work, number of its last
#: change, and thousandths of its accelerators that typical jobs cannot use.
NODE = _fields(f8="lost", i8="cpu memory gpu_count model down changes")
#: Score of a node for a class of demands at the node's change `scored`, and the accelerator.
SCORE = _fields(i8="scored score gpu")
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

Rows = NDArray[Any]


class Simulation(NamedTuple):
    """All that the loop works on: rows of the types above, the queue, and the accelerators of the nodes."""

    rules: Rules
    typical: TypicalJobs
    jobs: Rows
    children: Ints
    parts: Rows
    nodes: Rows
    gpus: NDArray[np.int64]
    #: Jobs of each node by number of whole accelerators.
    node_jobs: NDArray[np.int64]
    scores: Rows
    notes: Ints
    events: Rows
    users: Rows
    queue: WaitingQueue
    running: RowHeap
    #: Thousandths of accelerators that jobs hold, and that typical jobs cannot use, now.
    now: Floats
    decisions: Rows
    runs: Rows
    run_parts: Rows
    counts: Ints


def _rows_of(kind: np.dtype[Any], dimensions: int = 1) -> Any:
    return types.Array(from_dtype(kind), dimensions, "C")


_F = float64[::1]
_I = int64[::1]
_M = int64[:, ::1]
_SIMULATION = types.NamedTuple(
    (
        types.NamedTuple((*(boolean,) * 5, int64, float64, float64, int64), Rules), TYPICAL_TYPE,
        _rows_of(JOB), _I, _rows_of(PART), _rows_of(NODE), _M, _M, _rows_of(SCORE, 2), _I, _rows_of(EVENT),
        _rows_of(USER), WAITING_QUEUE, ROW_HEAP, _F, _rows_of(DECISION), _rows_of(RUN),
        _rows_of(PART), _I,
    ),
    Simulation,
)  # fmt: skip
LOOP_SIGNATURE = void(types.FunctionType(SCORE_SIGNATURE), types.FunctionType(PLACEMENT_SIGNATURE), _SIMULATION)

#: Mark of a node on which a part does not fit, in place of its accelerator.
_DOES_NOT_FIT = -9


@leaf
def _part_of(job, jobs):  # type: ignore[no-untyped-def]
    return PartDemand(jobs[job].cpu, jobs[job].memory, jobs[job].gpus, jobs[job].gpu_milli, jobs[job].models)


@leaf
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


@leaf
def _fitting_on(node, part, nodes, gpus):  # type: ignore[no-untyped-def]
    """Return how many parts fit on a node with these free amounts."""
    own = nodes[node]
    if own.down > 0:
        return 0
    return _parts_that_fit(own.cpu, own.memory, gpus[node], own.gpu_count, own.model, part)


@leaf
def _fitting_now(head, sim):  # type: ignore[no-untyped-def]
    """Return how many parts of a job fit on the nodes as they are."""
    part = _part_of(head, sim.jobs)
    fitting = 0
    for node in range(len(sim.nodes)):
        fitting += _fitting_on(node, part, sim.nodes, sim.gpus)
    return fitting


@helper
def _score_node(kind, node, part, place_of, sim):  # type: ignore[no-untyped-def]
    """Score a node for a class of demands, if a part fits there."""
    sim.scores[kind, node].scored = sim.nodes[node].changes
    sim.scores[kind, node].gpu = _DOES_NOT_FIT
    if _fitting_on(node, part, sim.nodes, sim.gpus) > 0:
        own = sim.nodes[node]
        state = NodeState(own.cpu, own.memory, sim.gpus[node], own.gpu_count, sim.node_jobs[node], own.model)
        sim.scores[kind, node].score, sim.scores[kind, node].gpu = place_of(state, part, sim.typical, sim.notes)


@helper
def _best_node(job, draw, place_of, sim):  # type: ignore[no-untyped-def]
    """Return the node of largest score on which a part fits, or -1."""
    random_ties = sim.rules.random_ties
    kind = sim.jobs[job].kind
    part = _part_of(job, sim.jobs)
    if kind == sim.scores.shape[0] - 1:
        for node in range(len(sim.nodes)):
            sim.scores[kind, node].scored = -1
    best = 0
    chosen = -1
    luck = 0.0
    for node in range(len(sim.nodes)):
        if sim.scores[kind, node].scored != sim.nodes[node].changes:
            _score_node(kind, node, part, place_of, sim)
        if sim.scores[kind, node].gpu == _DOES_NOT_FIT:
            continue
        score = sim.scores[kind, node].score
        if chosen < 0 or score > best:
            best = score
            chosen = node
            luck = uniform(sim.rules.seed, draw, node) if random_ties else 0.0
        elif random_ties and score == best:
            other = uniform(sim.rules.seed, draw, node)
            if other > luck:
                chosen = node
                luck = other
    return chosen


@helper
def _accelerators(node, draw, gpu, part, sim):  # type: ignore[no-untyped-def]
    """Return the set of accelerators of a node that a part gets."""
    if part.gpus == 0:
        return 0
    taken = 0
    if part.gpu_milli == 1000:
        wanted = part.gpus
        for index in range(sim.nodes[node].gpu_count):
            if wanted > 0 and sim.gpus[node, index] == 1000:
                taken |= 1 << index
                wanted -= 1
        return taken
    chosen = gpu
    luck = -1.0
    for index in range(sim.nodes[node].gpu_count):
        free = sim.gpus[node, index]
        if free < part.gpu_milli or gpu >= 0:
            continue
        if gpu == RANDOM_GPU:
            other = uniform(sim.rules.seed, draw, len(sim.nodes) + index)
            if other > luck:
                luck = other
                chosen = index
        elif chosen < 0 or free < sim.gpus[node, chosen]:
            chosen = index
    return 1 << chosen


@leaf
def _account(node, held, sim):  # type: ignore[no-untyped-def]
    """Note what a node's jobs hold more, and what typical jobs cannot use there now."""
    lost = 0.0
    if sim.nodes[node].down == 0:
        own = sim.nodes[node]
        lost = fragmentation(own.cpu, sim.gpus[node], own.gpu_count, own.model, sim.typical)
    sim.now[0] += held
    sim.now[1] += lost - sim.nodes[node].lost
    sim.nodes[node].lost = lost


@leaf
def _move(row, job, sign, nodes, gpus, sim):  # type: ignore[no-untyped-def]
    """Take (sign 1) or give back (-1) what a part holds, in the free amounts of all nodes."""
    jobs = sim.jobs
    node = sim.parts[row].node
    nodes[node].cpu -= sign * jobs[job].cpu
    nodes[node].memory -= sign * jobs[job].memory
    for gpu in range(sim.nodes[node].gpu_count if jobs[job].gpus > 0 else 0):
        if sim.parts[row].gpu_set >> gpu & 1:
            gpus[node, gpu] -= sign * jobs[job].gpu_milli


@helper
def _hold(row, job, sign, sim):  # type: ignore[no-untyped-def]
    """Take (sign 1) or give back (-1) what a part holds on its node."""
    jobs = sim.jobs
    node = sim.parts[row].node
    _move(row, job, sign, sim.nodes, sim.gpus, sim)
    sim.nodes[node].changes += 1
    if jobs[job].gpus > 0:
        sim.node_jobs[node, 0 if jobs[job].gpu_milli < 1000 else jobs[job].gpus] += sign
    _account(node, sign * jobs[job].gpus * jobs[job].gpu_milli, sim)


@leaf
def _hold_all(job, parts, sign, sim):  # type: ignore[no-untyped-def]
    """Take or give back what the first parts of a job hold."""
    for row in range(sim.jobs[job].first, sim.jobs[job].first + parts):
        _hold(row, job, sign, sim)


@leaf
def _try_place(job, place_of, sim):  # type: ignore[no-untyped-def]
    """Hold nodes for all parts of a job, or for none; return whether they fit."""
    jobs = sim.jobs
    # Counting takes one pass over the nodes, placing one for each part.
    if jobs[job].parts > 1 and _fitting_now(job, sim) < jobs[job].parts:
        return False
    for number in range(jobs[job].parts):
        row = jobs[job].first + number
        node = _best_node(job, row, place_of, sim)
        sim.parts[row].node = node
        if node < 0:
            _hold_all(job, number, -1, sim)
            return False
        gpu = sim.scores[jobs[job].kind, node].gpu
        sim.parts[row].gpu_set = _accelerators(node, row, gpu, _part_of(job, jobs), sim)
        _hold(row, job, 1, sim)
    return True


# ---------------------------------------------------------------- runs of jobs


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
def _within_quota(job, sim):  # type: ignore[no-untyped-def]
    """Return whether the job's user may hold it as well."""
    users = sim.users
    jobs = sim.jobs
    user = jobs[job].user
    gpu = jobs[job].gpus * jobs[job].gpu_milli * jobs[job].parts
    fits = users[user].cpu + jobs[job].cpu * jobs[job].parts <= users[user].most_cpu
    return fits and users[user].gpu + gpu <= users[user].most_gpu


@leaf
def _start(job, now, sim):  # type: ignore[no-untyped-def]
    """Start a job whose parts are placed."""
    if sim.jobs[job].stops == 0:
        sim.jobs[job].start = now
    sim.jobs[job].began = now
    sim.queue.waits[job] = False
    if not sim.rules.fills:
        again = sim.rules.restart if sim.jobs[job].stops > 0 else 0.0
        sim.jobs[job].expected = now + again + max(sim.jobs[job].requested - sim.jobs[job].done, 0.0)
        push_row(sim.running, now + again + sim.jobs[job].run_time - sim.jobs[job].done, job)
        _share_of_user(job, 1, now, sim)
    _decided(job, sim)


@helper
def _decided(job, sim):  # type: ignore[no-untyped-def]
    """Note a job that was started for the first time, or refused."""
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
    _hold_all(job, sim.jobs[job].parts, -1, sim)
    _share_of_user(job, -1, now, sim)


@helper
def _end_first(now, score_of, limit, sim):  # type: ignore[no-untyped-def]
    """End the running job that is first to end, and let the jobs that wait for it alone enter the queue."""
    job = pop_row(sim.running)
    _leave(job, now, sim)
    sim.jobs[job].done = sim.jobs[job].run_time
    for at in range(sim.jobs[job].child, sim.jobs[job].last_child):
        child = sim.children[at]
        sim.jobs[child].left -= 1
        if sim.jobs[child].left == 0 and child < sim.counts[_ARRIVED]:
            _enter(child, now, score_of, limit, sim)


@leaf
def _enter(job, now, score_of, limit, sim):  # type: ignore[no-untyped-def]
    admit_job(job, _score(job, now, score_of, sim), not sim.rules.sorts, limit, sim.queue, sim.counts)


@leaf
def _stop(job, now, score_of, limit, sim):  # type: ignore[no-untyped-def]
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
    sim.jobs[job].done += worked
    sim.jobs[job].stops += 1
    _enter(job, now, score_of, limit, sim)


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
            _stop(job, now, score_of, limit, sim)
            place = 0
        else:
            place += 1
    if gpu >= 0:
        sim.gpus[node, gpu] -= 1000 * change
    sim.nodes[node].changes += 1
    _account(node, 0, sim)


# ---------------------------------------------------------------- decisions


@leaf
def _score(job, now, score_of, sim):  # type: ignore[no-untyped-def]
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


@allocating
def _sort(now, score_of, sim):  # type: ignore[no-untyped-def]
    """Order the queue by priority, then by the scores as they are now."""
    waiting = sim.counts[WAITING]
    for place in range(waiting):
        sim.queue.score[place] = _score(sim.queue.row[place], now, score_of, sim)
    order_queue(sim.queue, sim.counts)
    order = np.argsort(-sim.jobs.priority[sim.queue.row[:waiting]], kind="mergesort")
    sim.queue.row[:waiting] = sim.queue.row[:waiting][order]
    sim.queue.score[:waiting] = sim.queue.score[:waiting][order]


@leaf
def _shift(job, sign, head, nodes, gpus, sim):  # type: ignore[no-untyped-def]
    """Let a job take (1) or give back (-1) in copies of the free amounts; return how many parts fit more."""
    part = _part_of(head, sim.jobs)
    more = 0
    for row in range(sim.jobs[job].first, sim.jobs[job].first + sim.jobs[job].parts):
        node = sim.parts[row].node
        more -= _fitting_on(node, part, nodes, gpus)
        _move(row, job, sign, nodes, gpus, sim)
        more += _fitting_on(node, part, nodes, gpus)
    return more


@leaf
def _head(sim):  # type: ignore[no-untyped-def]
    """Return the place of the first waiting job within its user's quota; the end of the queue if none is."""
    place = 0
    while place < sim.counts[WAITING] and not _within_quota(sim.queue.row[place], sim):
        place += 1
    return place


@allocating
def _backfill(now, place_of, sim):  # type: ignore[no-untyped-def]
    """Start jobs behind the head that do not delay it."""
    jobs = sim.jobs
    first = _head(sim)
    if first == sim.counts[WAITING]:
        return
    head = sim.queue.row[first]
    nodes = sim.nodes.copy()
    gpus = sim.gpus.copy()
    fitting = _fitting_now(head, sim)
    ends = np.empty(sim.running.length[0])
    for place in range(len(ends)):
        ends[place] = max(sim.jobs[sim.running.row[place]].expected, now)
    at = now
    for place in np.argsort(ends, kind="mergesort"):
        if fitting >= jobs[head].parts:
            break
        fitting += _shift(sim.running.row[place], -1, head, nodes, gpus, sim)
        at = ends[place]
    if fitting < jobs[head].parts:
        # A head that waits for a repair has no reservation: all that fits may pass.
        at = np.inf
    for place in range(first + 1, min(sim.counts[WAITING], BACKFILL_DEPTH + 1)):
        job = sim.queue.row[place]
        if not _within_quota(job, sim) or not _try_place(job, place_of, sim):
            continue
        if now + jobs[job].requested - sim.jobs[job].done > at:
            less = _shift(job, 1, head, nodes, gpus, sim)
            if fitting + less < jobs[head].parts:
                _shift(job, -1, head, nodes, gpus, sim)
                _hold_all(job, jobs[job].parts, -1, sim)
                continue
            fitting += less
        _start(job, now, sim)


@allocating
def _preempt(now, score_of, limit, sim):  # type: ignore[no-untyped-def]
    """Stop the running jobs that come last in the queue's order until its head fits; return whether it does."""
    jobs = sim.jobs
    head = sim.queue.row[_head(sim)]
    own = _score(head, now, score_of, sim)
    running = sim.running.row[: sim.running.length[0]].copy()
    score = np.empty(len(running))
    for place in range(len(running)):
        score[place] = -_score(running[place], now, score_of, sim)
    order = np.argsort(score, kind="mergesort")
    order = order[np.argsort(jobs.priority[running[order]], kind="mergesort")]
    nodes = sim.nodes.copy()
    gpus = sim.gpus.copy()
    fitting = _fitting_now(head, sim)
    needed = 0
    while fitting < jobs[head].parts and needed < len(order):
        job = running[order[needed]]
        ahead = jobs[job].priority > jobs[head].priority
        if ahead or (jobs[job].priority == jobs[head].priority and -score[order[needed]] <= own):
            break
        fitting += _shift(job, -1, head, nodes, gpus, sim)
        needed += 1
    if fitting < jobs[head].parts or needed == 0:
        return False
    for place in range(needed):
        _stop(running[order[place]], now, score_of, limit, sim)
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
            if not _within_quota(job, sim):
                continue
            if _try_place(job, place_of, sim):
                _start(job, now, sim)
                again = True
            elif sim.rules.fills:
                _decided(job, sim)
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
    limit = len(jobs) if sim.rules.sorts else BACKFILL_DEPTH + 1
    for node in range(len(sim.nodes)):
        _account(node, 0, sim)
    changed = 0
    while True:
        now = next_event(counts[_ARRIVED], jobs, sim.running)
        if changed < len(sim.events) and (now < np.inf or counts[WAITING] > 0):
            now = min(now, sim.events[changed].time)
        if now == np.inf:
            break
        while sim.running.length[0] > 0 and sim.running.key[0] <= now:
            _end_first(now, score_of, limit, sim)
        while changed < len(sim.events) and sim.events[changed].time <= now:
            _fail_or_repair(changed, now, score_of, limit, sim)
            changed += 1
        while counts[_ARRIVED] < len(jobs) and jobs[counts[_ARRIVED]].submit <= now:
            if jobs[counts[_ARRIVED]].left == 0:
                _enter(counts[_ARRIVED], now, score_of, limit, sim)
            counts[_ARRIVED] += 1
        if sim.rules.sorts:
            _sort(now, score_of, sim)
        _start_in_order(now, score_of, place_of, limit, sim)
        if sim.rules.easy and counts[WAITING] > 1:
            _backfill(now, place_of, sim)
            drop_started(limit, sim.queue, counts)
