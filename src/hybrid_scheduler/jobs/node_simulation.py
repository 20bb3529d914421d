"""Simulation of jobs on the nodes of a cluster: a queue policy orders, a placement policy places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled
from ..compiled.row_heap import empty_heap
from ..core import Floats, Ints, InvalidInputError, UnknownNameError
from .cluster_nodes import WHOLE_GPU, Nodes
from .job_demand import JobDemand
from .job_log import JobLog
from .node_loop import LOOP_SIGNATURE, ClusterState, JobColumns, Rules, RunState, node_loop
from .placement_policies import PlacementPolicy, placement_policy_named
from .placement_policies.placement_policy import PLACEMENT_SIGNATURE, TypicalJobs
from .queue_policies import QueuePolicy, queue_policy_named
from .slowdown import bounded_slowdown
from .waiting_queue import SCORE_SIGNATURE

#: Backfillings of jobs on nodes.
NODE_BACKFILLING = ("none", "easy")
#: Most kept scores: classes of demand times nodes.
_MAX_SCORES = 4_000_000
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
        Start of each job in seconds; NaN for a refused one, and for one that is larger than the empty cluster.
    node
        Node of each part, in the order of the jobs; -1 where it was not placed.
    order
        Rows of the jobs that fit on the empty cluster, in the order of the decisions about them.
    held, fragmented
        Thousandths of accelerators that jobs hold, and that typical jobs cannot use, after each decision.
    impossible
        Rows of jobs that do not fit on the empty cluster.
    """

    log: JobLog
    nodes: Nodes
    start: Floats
    node: Ints
    order: Ints
    held: Floats
    fragmented: Floats
    impossible: Ints

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Whether each job was placed."""
        return np.isfinite(self.start)

    @property
    def wait(self) -> Floats:
        """Seconds from submission to start of the placed jobs."""
        waited: Floats = (self.start - self.log.submit)[self.placed]
        return waited

    def summary(self) -> dict[str, float]:
        """Return the figures of a table: waits and slowdowns of the placed jobs, and use of accelerators."""
        placed = self.placed
        waited = self.wait
        slowed = bounded_slowdown(waited, self.log.run_time[placed])
        began = self.log.submit[0]
        ended = (self.start + self.log.run_time)[placed].max()
        gpus = WHOLE_GPU * int(self.nodes.gpus.sum())
        milli = 0 if self.log.demand is None else self.log.demand.total_gpu_milli[placed]
        busy = float(np.sum(milli * self.log.run_time[placed]))
        idle = gpus - self.held
        return {
            "mean_wait": float(waited.mean()),
            "p99_wait": float(np.quantile(waited, 0.99)),
            "max_wait": float(waited.max()),
            "mean_bounded_slowdown": float(slowed.mean()),
            "p99_bounded_slowdown": float(np.quantile(slowed, 0.99)),
            "gpu_utilization": busy / (gpus * (ended - began)) if gpus and ended > began else 0.0,
            "fragmentation": float(np.mean(self.fragmented / np.maximum(idle, 1.0))) if gpus else 0.0,
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
    fill: bool = False,
    seed: int = 0,
) -> NodeResult:
    """Run a log on the nodes of a cluster.

    Parameters
    ----------
    log
        The jobs. Without a demand of its own, a job is one part that holds its processors.
    nodes
        The nodes.
    placement
        Placement policy: a name or an entry of the registry.
    queue
        Order of the queue: a name or an entry of the registry.
    backfilling
        ``"none"`` or ``"easy"``.
    fill
        Whether jobs never end, and one that fits nowhere is refused: how full does the cluster get?
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
    placed_by = placement_policy_named(placement) if isinstance(placement, str) else placement
    ordered_by = queue_policy_named(queue) if isinstance(queue, str) else queue
    if backfilling not in NODE_BACKFILLING:
        raise UnknownNameError("backfilling", backfilling, NODE_BACKFILLING)
    demand = log.demand or _processors_only(log)
    models = demand.model_bits(nodes.models)
    table = np.column_stack((demand.cpu_milli, demand.memory_mib, demand.gpus, demand.gpu_milli, models))
    kinds, kind = np.unique(table, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    cluster = _empty_cluster(nodes, kinds, kind)
    fitting = _fitting_parts(kinds, cluster)[kind]
    possible = np.flatnonzero(fitting >= demand.parts)
    if len(possible) == 0:
        raise InvalidInputError("jobs", "at least one that fits on the empty cluster", f"{len(log)} that do not")
    kept = cluster.scored.shape[0] - 1
    jobs = _columns(log, demand, models, _frequent(kind, kept), possible)
    run = _empty_run(jobs)
    rules = Rules(ordered_by.ages, backfilling == "easy", fill, placed_by.random_ties, seed)
    typical = _typical_jobs(table)
    compiled(node_loop, LOOP_SIGNATURE)(
        compiled(ordered_by.score, SCORE_SIGNATURE), compiled(placed_by.score, PLACEMENT_SIGNATURE),
        rules, typical, jobs, cluster, run, np.zeros(3, np.int64),
    )  # fmt: skip
    start = np.full(len(log), np.nan)
    start[possible] = run.start
    node = np.full(int(demand.parts.sum()), -1)
    owner = np.repeat(np.arange(len(log)), demand.parts)
    node[np.isin(owner, possible)] = run.node
    return NodeResult(
        log, nodes, start, node, possible[run.order], run.held, run.lost, np.flatnonzero(fitting < demand.parts)
    )


def _typical_jobs(table: NDArray[np.int64]) -> TypicalJobs:
    """Return the most frequent demands, which cover 95 % of the jobs; memory does not distinguish them.

    Parameters
    ----------
    table
        Processors, memory, accelerators, thousandths of each, and bits of models, one row per job.
    """
    demands, counts = np.unique(table[:, [0, 3, 2, 4]], axis=0, return_counts=True)
    order = np.lexsort((*demands.T[::-1], counts))[::-1]
    covered = np.cumsum(counts[order])
    chosen = order[: int(np.searchsorted(covered, _TYPICAL_SHARE * len(table))) + 1]
    cpu, milli, gpus, bits = (np.ascontiguousarray(column) for column in demands[chosen].T)
    return TypicalJobs(cpu, gpus, milli, bits, counts[chosen] / counts[chosen].sum())


def _processors_only(log: JobLog) -> JobDemand:
    none = np.zeros(len(log), np.int64)
    return JobDemand(log.processors * 1000, none, none, none)


def _empty_cluster(nodes: Nodes, kinds: NDArray[np.int64], kind: Ints) -> ClusterState:
    """Return the nodes without jobs, and space for the scores of as many classes as may be kept."""
    rows = len(nodes)
    width = max(int(nodes.gpus.max()), 1)
    kept = min(len(kinds), _MAX_SCORES // rows)
    gpus = np.where(np.arange(width) < nodes.gpus[:, None], WHOLE_GPU, 0).astype(np.int64)
    bit = {model: 1 << position for position, model in enumerate(nodes.models)}
    widest = max(width, int(kinds[:, 2].max()))
    return ClusterState(
        cpu=nodes.cpu_milli.copy(),
        memory=nodes.memory_mib.copy(),
        gpus=gpus,
        gpu_count=nodes.gpus.copy(),
        jobs=np.zeros((rows, widest + 1), np.int64),
        model=np.array([bit.get(model, 0) for model in nodes.model], np.int64),
        changes=np.zeros(rows, np.int64),
        scored=np.full((kept + 1, rows), -1),
        score=np.zeros((kept + 1, rows), np.int64),
        gpu=np.zeros((kept + 1, rows), np.int64),
        notes=np.zeros(width, np.int64),
        lost=np.zeros(rows),
    )


def _fitting_parts(kinds: NDArray[np.int64], cluster: ClusterState) -> Ints:
    """Return how many parts of each class of demand fit on the empty cluster."""
    fitting = np.zeros(len(kinds), np.int64)
    for row, (cpu, memory, gpus, milli, models) in enumerate(kinds.tolist()):
        fits = np.full(len(cluster.cpu), np.iinfo(np.int64).max // (2 * len(cluster.cpu)))
        for needed, free in ((cpu, cluster.cpu), (memory, cluster.memory)):
            if needed:
                fits = np.minimum(fits, free // needed)
        if gpus:
            whole = cluster.gpu_count // gpus if milli == WHOLE_GPU else cluster.gpu_count * (WHOLE_GPU // milli)
            fits = np.minimum(fits, np.where((models == 0) | (cluster.model & models != 0), whole, 0))
        fitting[row] = fits.sum()
    return fitting


def _frequent(kind: Ints, kept: int) -> Ints:
    """Return the classes of the jobs, the most frequent ones first; all beyond those that are kept are the last."""
    counts = np.bincount(kind)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank, kept)[kind]


def _columns(log: JobLog, demand: JobDemand, models: Ints, kind: Ints, rows: Ints) -> JobColumns:
    parts = demand.parts[rows]
    return JobColumns(
        log.submit[rows], log.run_time[rows], log.requested_time[rows], log.processors[rows],
        demand.cpu_milli[rows], demand.memory_mib[rows], demand.gpus[rows], demand.gpu_milli[rows], models[rows],
        parts, np.cumsum(parts) - parts, kind[rows],
    )  # fmt: skip


def _empty_run(jobs: JobColumns) -> RunState:
    rows = len(jobs.submit)
    parts = int(jobs.parts.sum())
    return RunState(
        start=np.full(rows, np.nan),
        expected=np.empty(rows),
        waits=np.zeros(rows, np.bool_),
        queue=np.empty(rows, np.int64),
        score=np.empty(rows),
        running=empty_heap(rows),
        node=np.full(parts, -1),
        gpu_set=np.zeros(parts, np.int64),
        order=np.empty(rows, np.int64),
        now=np.zeros(2),
        held=np.empty(rows),
        lost=np.empty(rows),
    )
