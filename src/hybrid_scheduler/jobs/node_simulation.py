"""Simulation of jobs on the nodes of a cluster: a queue policy orders, a placement policy places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled
from ..compiled.row_heap import empty_heap
from ..core import Floats, Ints, InvalidInputError, UnknownNameError
from .cluster_nodes import WHOLE_GPU, Nodes
from .cluster_operation import UNDISTURBED, ClusterOperation, user_states
from .job_demand import JobDemand
from .job_log import JobLog
from .job_runs import BACKFILLING, SERVICE
from .node_loop import LOOP_SIGNATURE, node_loop
from .node_state import (
    COUNTS,
    DECISION,
    GPUS,
    JOB,
    KIND,
    NODE,
    PART,
    RESERVATION,
    RUN,
    RUN_PARTS,
    RUNS,
    SCORE,
    Rows,
    Rules,
    Simulation,
)
from .placement_policies import PlacementPolicy, placement_policy_named
from .placement_policies.placement_policy import PLACEMENT_SIGNATURE, TypicalJobs
from .queue_policies import QueuePolicy, queue_policy_named
from .slowdown import SLOWDOWN_BOUND_S, bounded_slowdown
from .waiting_queue import BACKFILL_DEPTH, SCORE_SIGNATURE, STARTED, empty_queue

#: Most kept scores: classes of demand times nodes.
_MAX_SCORES = 2_000_000
#: Part of a workload that its typical jobs cover.
_TYPICAL_SHARE = 0.95


@dataclass(frozen=True)
class NodeResult:
    """Starts and places of the jobs of a log on the nodes of a cluster.

    Parameters
    ----------
    log, nodes
        The jobs and the nodes.
    start
        First start of each job in seconds; NaN for one that never started.
    finish
        End of each job in seconds; NaN for one that did not end.
    node
        Node of each part, in the order of the jobs; -1 where it was not placed.
    order
        Rows of the jobs that fit on the empty cluster, in the order of the decisions about them.
    held, fragmented
        Thousandths of accelerators that jobs hold, and that typical jobs cannot use, after each decision.
    impossible
        Rows of jobs that do not fit on the empty cluster or within their quota, or wait for one that does not.
    runs, run_parts
        Every run of a job from a start to its end or stop, in the order of their ends (fields `job`, `begin`, `end`
        and `first`, the first of its parts), and the places of the parts (`node`, `gpu_set` as bits).
    stops
        How often each job was stopped by a failure or by another job.
    """

    log: JobLog
    nodes: Nodes
    start: Floats
    finish: Floats
    node: Ints
    order: Ints
    held: Floats
    fragmented: Floats
    impossible: Ints
    runs: Rows
    run_parts: Rows
    stops: Ints

    @property
    def lost_seconds(self) -> float:
        """Processor seconds of runs beyond the run times of the jobs that ended: repeated work and restarts."""
        processors = self.log.processors
        held = float(np.sum((self.runs["end"] - self.runs["begin"]) * processors[self.runs["job"]]))
        ended = np.isfinite(self.finish)
        return held - float(np.sum((self.log.run_time * processors)[ended]))

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Whether each job was placed."""
        return np.isfinite(self.start)

    @property
    def wait(self) -> Floats:
        """Seconds from submission to start of the placed jobs."""
        waited: Floats = (self.start - self.log.submit)[self.placed]
        return waited

    @property
    def ended(self) -> Floats:
        """End of each placed job in seconds; one that did not end is taken to run on."""
        placed = self.placed
        return np.where(np.isfinite(self.finish), self.finish, self.start + self.log.run_time)[placed]

    @property
    def makespan(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.ended.max() - self.log.submit[0])

    @property
    def utilization(self) -> float:
        """Busy share of the processors over the makespan, by the run times of the placed jobs."""
        span = self.makespan
        total = float(np.sum((self.log.run_time * self.log.processors)[self.placed]))
        return 1000 * total / (span * float(self.nodes.cpu_milli.sum())) if span > 0 else 0.0

    def bounded_slowdown(self, bound: float = SLOWDOWN_BOUND_S) -> Floats:
        """Return max(1, (wait + run) / max(run, bound)) of each placed job; stops count as waiting."""
        placed = self.placed
        run = self.log.run_time[placed]
        return bounded_slowdown(self.ended - self.log.submit[placed] - run, run, bound)

    def summary(self) -> dict[str, float]:
        """Return the figures of a table: waits and slowdowns of the placed jobs, and use of the cluster."""
        waited = self.wait
        slowed = self.bounded_slowdown()
        gpus = WHOLE_GPU * int(self.nodes.gpus.sum())
        milli = 0 if self.log.demand is None else self.log.demand.total_gpu_milli[self.placed]
        busy = float(np.sum(milli * self.log.run_time[self.placed]))
        span = self.makespan
        return {
            "mean_wait": float(waited.mean()),
            "p99_wait": float(np.quantile(waited, 0.99)),
            "max_wait": float(waited.max()),
            "mean_bounded_slowdown": float(slowed.mean()),
            "p99_bounded_slowdown": float(np.quantile(slowed, 0.99)),
            "utilization": self.utilization,
            "makespan": span,
            "gpu_utilization": busy / (gpus * span) if gpus and span > 0 else 0.0,
            "fragmentation": float(np.mean(self.fragmented / np.maximum(gpus - self.held, 1.0))) if gpus else 0.0,
        }

    @property
    def allocation(self) -> Floats:
        """Share of the cluster's accelerators that jobs hold after each decision."""
        share: Floats = self.held / (WHOLE_GPU * max(int(self.nodes.gpus.sum()), 1))
        return share


def simulate_nodes(
    log: JobLog,
    nodes: Nodes,
    placement: str | PlacementPolicy = "best_fit",
    queue: str | QueuePolicy = "fcfs",
    *,
    backfilling: str = "none",
    depth: int = BACKFILL_DEPTH,
    fill: bool = False,
    operation: ClusterOperation = UNDISTURBED,
    seed: int = 0,
) -> NodeResult:
    """Run a log on the nodes of a cluster.

    Parameters
    ----------
    log
        The jobs. Without a demand of its own, a job is spread over as few nodes as hold equal parts of it.
    nodes
        The nodes.
    placement
        Placement policy: a name or an entry of the registry.
    queue
        Order of the queue: a name or an entry of the registry. Jobs of higher priority go first in any case.
    backfilling
        ``"none"``, ``"easy"`` or ``"conservative"``.
    depth
        Largest number of waiting jobs behind the head that may pass it in one decision.
    fill
        Whether jobs never end, and one that fits nowhere is refused: how full does the cluster get?
    operation
        Preemption, checkpoints, failures and quotas.
    seed
        Seed of policies that draw nodes or accelerators.

    Raises
    ------
    InvalidInputError
        If no job fits on the empty cluster, or an argument is out of range.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import JobDemand, JobLog, Nodes, simulate_nodes
    >>> nodes = Nodes(["a"], [8000], [1024], [2], ["A10"])
    >>> demand = JobDemand([1000, 1000, 1000], [0, 0, 0], [1, 2, 1], [500, 1000, 500])
    >>> log = JobLog([1, 2, 3], [0, 1, 2], [10, 10, 3], [10, 10, 3], [1, 1, 1], demand=demand)
    >>> simulate_nodes(log, nodes).start.tolist()
    [0.0, 10.0, 20.0]
    >>> simulate_nodes(log, nodes, backfilling="easy").start.tolist()
    [0.0, 10.0, 2.0]
    """
    prepared = PreparedSimulation.of(
        log,
        nodes,
        placement,
        queue,
        backfilling,
        depth=depth,
        fill=fill,
        operation=operation,
        seed=seed,
    )
    return _result(log, nodes, prepared.demand, prepared.possible, prepared.run())


def _rules(
    queue: QueuePolicy,
    placement: PlacementPolicy,
    operation: ClusterOperation,
    jobs: Rows,
    backfilling: str,
    depth: int,
    *,
    fills: bool,
    seed: int,
) -> Rules:
    return Rules(
        sorts=queue.ages or bool(queue.service) or len(np.unique(jobs["priority"])) > 1,
        backfilling=BACKFILLING[backfilling],
        depth=depth,
        fills=fills,
        preempts=operation.preempt,
        random_ties=placement.random_ties,
        service=SERVICE[queue.service],
        checkpoint=float(operation.checkpoint),
        restart=float(operation.restart),
        seed=seed,
    )


class _Start(NamedTuple):
    """All that a simulation starts from."""

    rules: Rules
    typical: TypicalJobs
    jobs: Rows
    children: Ints
    nodes: Rows
    gpus: Ints
    #: Thousandths of processors and MiB of each node.
    amounts: NDArray[np.int64]
    events: Rows
    users: Rows

    def simulation(self, kept: int, spare: int) -> Simulation:
        """Return the state before the first event, with kept scores of classes and space for spare runs."""
        jobs = len(self.jobs)
        rows = len(self.nodes)
        parts = int(self.jobs["parts"].sum())
        width = int(self.gpus.max())
        free = np.zeros((rows, GPUS + width), np.int64)
        free[:, :GPUS] = self.amounts
        free[:, GPUS:] = np.where(np.arange(width) < self.gpus[:, None], WHOLE_GPU, 0)
        leaves = 1 << (rows - 1).bit_length()
        classes = np.zeros(kept + 1, KIND)
        # As if all nodes had changed more often than the log of changes can tell.
        classes["fits_seen"] = classes["scores_seen"] = -rows - 1
        classes["job"] = -1
        reservation = np.zeros(1, RESERVATION)
        reservation["job"] = -1
        conservative = self.rules.backfilling == BACKFILLING["conservative"]
        return Simulation(
            rules=self.rules,
            typical=self.typical,
            jobs=self.jobs.copy(),
            children=self.children,
            parts=np.full(parts, -1, PART),
            nodes=self.nodes.copy(),
            free=free,
            later=free.copy(),
            copies=np.zeros((3 if conservative else 0, *free.shape), np.int64),
            node_jobs=np.zeros((rows, max(width, int(self.jobs["gpus"].max())) + 1), np.int64),
            changed=np.zeros(rows, np.int64),
            kinds=classes,
            fits=np.zeros((kept + 1, rows), np.int64),
            scores=np.zeros((kept + 1, rows), SCORE),
            best=np.full((kept + 1, 2 * leaves), -1, np.int64),
            notes=np.zeros(max(width, 1), np.int64),
            windows=np.zeros((3 if conservative else 0, rows), np.int64),
            events=self.events,
            users=self.users.copy(),
            queue=empty_queue(jobs),
            running=empty_heap(jobs),
            by_end=empty_heap(jobs),
            line=empty_heap(3 * jobs if conservative else 0),
            reservation=reservation,
            now=np.zeros(2),
            decisions=np.zeros(jobs, DECISION),
            runs=np.zeros(spare * jobs, RUN),
            run_parts=np.zeros(spare * parts, PART),
            counts=np.zeros(COUNTS, np.int64),
        )


@dataclass(frozen=True)
class PreparedSimulation:
    """Simulation of a log on nodes before its first event, which can be run with other run times of its jobs."""

    demand: JobDemand
    #: Rows of the jobs that fit on the empty cluster.
    possible: Ints
    start: _Start
    #: Number of classes of demands whose scores are kept.
    kept: int
    policies: tuple[QueuePolicy, PlacementPolicy]

    @classmethod
    def of(
        cls,
        log: JobLog,
        nodes: Nodes,
        placement: str | PlacementPolicy,
        queue: str | QueuePolicy,
        backfilling: str,
        *,
        depth: int = BACKFILL_DEPTH,
        operation: ClusterOperation = UNDISTURBED,
        fill: bool = False,
        seed: int = 0,
    ) -> PreparedSimulation:
        """Return the simulation; the parameters are those of `simulate_nodes`."""
        placed_by = placement_policy_named(placement) if isinstance(placement, str) else placement
        ordered_by = queue_policy_named(queue) if isinstance(queue, str) else queue
        if backfilling not in BACKFILLING:
            raise UnknownNameError("backfilling", backfilling, BACKFILLING)
        if depth < 1:
            raise InvalidInputError("depth", "at least 1", depth)
        demand = log.demand or processors_only(log, nodes)
        models = demand.model_bits(nodes.models)
        table = np.column_stack((demand.cpu_milli, demand.memory_mib, demand.gpus, demand.gpu_milli, models))
        kinds, kind = _classes(table)
        empty = _nodes(nodes)
        users, user = user_states(log, operation.quotas)
        fits = _fitting_parts(kinds, nodes, empty)[kind] >= demand.parts
        fits &= demand.cpu_milli * demand.parts <= users["most_cpu"][user]
        fits &= demand.total_gpu_milli <= users["most_gpu"][user]
        possible = log.without_descendants(fits)
        if len(possible) == 0:
            raise InvalidInputError(
                "jobs", "at least one that fits on the empty cluster", f"{len(log)} that do not"
            )
        kept = min(len(kinds), _MAX_SCORES // len(nodes))
        jobs, children = _jobs(log, demand, possible)
        jobs["models"] = models[possible]
        jobs["user"] = user[possible]
        jobs["kind"] = _frequent(kind, kept)[possible]
        rules = _rules(ordered_by, placed_by, operation, jobs, backfilling, depth, fills=fill, seed=seed)
        events = operation.failure_events(nodes)
        amounts = np.column_stack((nodes.cpu_milli, nodes.memory_mib))
        typical = _typical_jobs(kinds, np.bincount(kind))
        start = _Start(rules, typical, jobs, children, empty, nodes.gpus, amounts, events, users)
        return cls(demand, possible, start, kept, (ordered_by, placed_by))

    def run(self) -> Simulation:
        """Run the simulation and return its state after the last event."""
        fills = self.start.rules.fills
        ordered_by, placed_by = self.policies
        spare = 0 if fills else 1
        while True:
            # Stops are not known beforehand, so that a record that was too short is made again, twice as long.
            sim = self.start.simulation(self.kept, spare)
            compiled(node_loop, LOOP_SIGNATURE)(
                compiled(ordered_by.score, SCORE_SIGNATURE), compiled(placed_by.score, PLACEMENT_SIGNATURE), sim
            )
            if fills or (sim.counts[RUNS] <= len(sim.runs) and sim.counts[RUN_PARTS] <= len(sim.run_parts)):
                return sim
            spare *= 2

    def starts(self, run_time: Floats) -> Floats:
        """Return the start of every job that fits if the jobs of the log run for other times."""
        self.start.jobs["run_time"] = run_time[self.possible]
        return np.array(self.run().jobs["start"])


def _result(log: JobLog, nodes: Nodes, demand: JobDemand, possible: Ints, sim: Simulation) -> NodeResult:
    start = np.full(len(log), np.nan)
    finish = start.copy()
    stops = np.zeros(len(log), np.int64)
    start[possible] = sim.jobs["start"]
    stops[possible] = sim.jobs["stops"]
    runs = sim.runs[: sim.counts[RUNS]]
    runs["job"] = possible[runs["job"]]
    # The last run of a job is the one that ended, if it did.
    finish[runs["job"]] = runs["end"]
    finish[possible[sim.jobs["done"] < sim.jobs["run_time"]]] = np.nan
    node = np.full(int(demand.parts.sum()), -1)
    fits = np.zeros(len(log), np.bool_)
    fits[possible] = True
    node[np.repeat(fits, demand.parts)] = sim.parts["node"]
    decisions = sim.decisions[: sim.counts[STARTED]]
    return NodeResult(
        log, nodes, start, finish, node, possible[decisions["job"]], decisions["held"], decisions["lost"],
        np.flatnonzero(~fits), runs, sim.run_parts[: sim.counts[RUN_PARTS]], stops,
    )  # fmt: skip


def _classes(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ints]:
    """Return the different rows of a table in order, and the number of each row's; few columns of a log vary."""
    code = np.zeros(len(table), np.int64)
    for column in table.T:
        if (column != column[0]).any():
            values, which = np.unique(column, return_inverse=True)
            _, code = np.unique(code * len(values) + which, return_inverse=True)
    _, first, kind = np.unique(code, return_index=True, return_inverse=True)
    return table[first], kind


def _typical_jobs(kinds: NDArray[np.int64], counts: Ints) -> TypicalJobs:
    """Return the most frequent demands, which cover 95 % of the jobs; memory does not distinguish them.

    Parameters
    ----------
    kinds
        Processors, memory, accelerators, thousandths of each, and bits of models, one row per class of demands.
    counts
        Jobs of each class.
    """
    demands, which = np.unique(kinds[:, [0, 3, 2, 4]], axis=0, return_inverse=True)
    jobs = np.bincount(which.reshape(-1), counts)
    order = np.lexsort((*demands.T[::-1], jobs))[::-1]
    covered = np.cumsum(jobs[order])
    chosen = order[: int(np.searchsorted(covered, _TYPICAL_SHARE * counts.sum())) + 1]
    cpu, milli, gpus, bits = (np.ascontiguousarray(column) for column in demands[chosen].T)
    return TypicalJobs(cpu, gpus, milli, bits, jobs[chosen] / jobs[chosen].sum())


def processors_only(log: JobLog, nodes: Nodes) -> JobDemand:
    """Return jobs as equal parts: the fewest that each fit on the largest node."""
    largest = max(int(nodes.cpu_milli.max()) // 1000, 1)
    widths, which = np.unique(log.processors, return_inverse=True)
    sizes = [next(size for size in range(min(width, largest), 0, -1) if width % size == 0) for width in widths]
    size = np.array(sizes, np.int64)[which.reshape(-1)]
    none = np.zeros(len(log), np.int64)
    return JobDemand(size * 1000, none, none, none, parts=log.processors // size)


def _nodes(nodes: Nodes) -> Rows:
    """Return the nodes without jobs."""
    bit = {model: 1 << position for position, model in enumerate(nodes.models)}
    rows = np.zeros(len(nodes), NODE)
    rows["gpu_count"] = nodes.gpus
    rows["model"] = [bit.get(model, 0) for model in nodes.model]
    return rows


def _fitting_parts(kinds: NDArray[np.int64], nodes: Nodes, rows: Rows) -> Ints:
    """Return how many parts of each class of demand fit on the empty cluster."""
    fitting = np.zeros(len(kinds), np.int64)
    for row, (cpu, memory, gpus, milli, models) in enumerate(kinds.tolist()):
        fits = np.full(len(nodes), np.iinfo(np.int64).max // (2 * len(nodes)))
        for needed, free in ((cpu, nodes.cpu_milli), (memory, nodes.memory_mib)):
            if needed:
                fits = np.minimum(fits, free // needed)
        if gpus:
            whole = nodes.gpus // gpus if milli == WHOLE_GPU else nodes.gpus * (WHOLE_GPU // milli)
            fits = np.minimum(fits, np.where((models == 0) | (rows["model"] & models != 0), whole, 0))
        fitting[row] = fits.sum()
    return fitting


def _frequent(kind: Ints, kept: int) -> Ints:
    """Return the classes of the jobs, the most frequent ones first; all beyond those that are kept are the last."""
    counts = np.bincount(kind)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank, kept)[kind]


def _jobs(log: JobLog, demand: JobDemand, rows: Ints) -> tuple[Rows, Ints]:
    """Return jobs of the log that have not started, and the rows of those that wait for others."""
    jobs = np.zeros(len(rows), JOB)
    for name in ("submit", "run_time", "processors"):
        jobs[name] = getattr(log, name)[rows]
    jobs["requested"] = log.requested_time[rows]
    for name, field in (("cpu", "cpu_milli"), ("memory", "memory_mib")):
        jobs[name] = getattr(demand, field)[rows]
    for name in ("gpus", "gpu_milli", "parts"):
        jobs[name] = getattr(demand, name)[rows]
    jobs["first"] = np.cumsum(jobs["parts"]) - jobs["parts"]
    jobs["start"] = np.nan
    if log.priority is not None:
        jobs["priority"] = log.priority[rows]
    if not log.after:
        return jobs, np.empty(0, np.int64)
    jobs["left"], begins, children = log.rows(rows).children()
    jobs["child"] = begins[:-1]
    jobs["last_child"] = begins[1:]
    return jobs, children
