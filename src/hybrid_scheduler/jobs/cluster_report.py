"""Report of a cluster over time: nodes, accelerators of a node, fragmentation, queue by user, and policies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Ints, InvalidInputError
from .cluster_nodes import WHOLE_GPU, Nodes
from .job_demand import JobDemand
from .job_log import JobLog
from .job_log_file import read_job_log
from .node_simulation import NodeResult, processors_only, simulate_nodes
from .scheduler_configuration import SYSTEMS, configuration
from .start_forecast import forecast_start

#: Columns of the time axis, and the most rows of nodes and users that are told apart.
_BINS = 120
_ROWS = 64
_USERS = 5
#: Runs of one node that are listed.
_MAX_RUNS = 2000
#: Nodes of a log that does not state its own.
_NODES = 32
_MAX_JOBS = 200_000
#: Orders that are compared beside the chosen one.
_COMPARED = ("fcfs", "sjf", "saf", "wfp3", "fair_share")
#: Jobs, users, seconds between submissions, and processors of the log that is made up as an example.
_EXAMPLE = 600, ("vision", "speech", "protein", "climate", "robotics", "others"), 280.0, 256
_LEVELS = tuple(level / 20 for level in range(1, 20))


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Policies and nodes of a simulated cluster; sizes that are None follow from the log."""

    form: str | None = None
    policy: str = "fcfs"
    backfilling: str = "easy"
    placement: str = "best_fit"
    nodes: int | None = None
    processors_per_node: int | None = None
    gpus_per_node: int | None = None
    gpu_model: str = ""
    #: Node whose accelerators are listed.
    node: int = 0


def cluster_report(file: Path, settings: ClusterSettings) -> dict[str, Any]:
    """Return what a log does on a cluster under a policy, and under others.

    Raises
    ------
    InvalidInputError
        If the log cannot be read, or nothing of it fits on the cluster.
    """
    report, nodes = _read(file, settings)
    log = report.log
    result = _simulate(log, nodes, settings, settings.policy)
    gpus = int(nodes.gpus.sum())
    begin = float(log.submit[0])
    edges = np.linspace(0.0, max(result.makespan, 1.0), _BINS + 1)
    policies = []
    for name in dict.fromkeys((settings.policy, *_COMPARED)):
        other = result if name == settings.policy else _simulate(log, nodes, settings, name)
        policies.append({"policy": name, **other.summary()})
    larger = log.job_id[result.impossible]
    return {
        "jobs": report.jobs_in_file,
        "left_out": report.rejections.count,
        "larger_than_the_cluster": larger[:_BINS].tolist(),
        "larger_count": len(larger),
        "nodes": len(nodes),
        "processors": int(nodes.cpu_milli.sum()) // 1000,
        "gpus": gpus,
        "processor_seconds_in_file": report.processor_seconds_in_file,
        "processor_seconds": log.processor_seconds,
        "seconds": edges.tolist(),
        "allocation": _allocation(result, begin, edges),
        "fragmentation": _fragmentation(result, begin, edges) if gpus else None,
        "queue": _queue(result, begin, edges),
        "node": _node_runs(result, begin, settings.node),
        "policies": policies,
        "configuration": {
            name: configuration(name, settings.policy, settings.backfilling, nodes, quotas={}) for name in SYSTEMS
        },
    }


def forecast_report(
    file: Path, settings: ClusterSettings, processors: int, requested_time: float, user: str | None
) -> dict[str, Any]:
    """Return the forecast of one job behind the queue at the end of a log.

    Where the log has no waits, those of the simulated cluster stand in for them.
    """
    report, nodes = _read(file, settings, unfinished=True)
    log = replace(report.log, demand=None)
    pool = int(nodes.cpu_milli.sum()) // 1000
    if not processors <= pool:
        raise InvalidInputError("processors", f"1 to {pool:,}, the cluster's", processors)
    # A log without any wait reads as one of jobs that all still wait.
    simulated = log.start is None or not (log.start < log.submit[-1]).any()
    if simulated:
        log = read_job_log(file, settings.form).log
        log = replace(log, demand=None).rows(np.flatnonzero(log.processors <= pool))
        log = replace(log, start=simulate_nodes(log, nodes, queue=settings.policy, backfilling="easy").start)
    job = JobLog(
        np.zeros(1, np.int64), np.zeros(1), np.zeros(1), np.array([requested_time]), np.array([processors]),
        [user or ""],
    )  # fmt: skip
    past = int(np.sum(log.submit < log.submit[-1]))
    result = forecast_start(
        log, pool, job, policy=settings.policy, backfilling=settings.backfilling, samples=50,
        moments=min(60, past // 4),
    )  # fmt: skip
    record = result.record
    return {
        "now": result.now,
        "running": result.running,
        "waiting": result.waiting,
        "simulated_waits": simulated,
        "levels": list(_LEVELS),
        "quantiles": np.quantile(result.waits, _LEVELS).tolist(),
        "median_wait": result.median,
        "interval": [float(result.low), float(result.high)],
        "moments": record.moments,
        "coverage": record.coverage,
        "median_error": record.median_error,
        "median_error_of_requests": record.median_error_of_requests,
    }


def _read(file: Path, settings: ClusterSettings, *, unfinished: bool = False) -> tuple[Any, Nodes]:
    report = read_job_log(file, settings.form, unfinished=unfinished)
    if len(report.log) > _MAX_JOBS:
        raise InvalidInputError(
            "file", f"at most {_MAX_JOBS:,} jobs", len(report.log), hint="hybrid-scheduler jobs"
        )
    demand = report.log.demand
    count = settings.nodes or (_NODES if report.processors >= _NODES else report.processors)
    each = settings.processors_per_node or -(-report.processors // count)
    column = np.ones(count, np.int64)
    names = [f"node {row}" for row in range(count)]
    models = [settings.gpu_model] * count
    if demand is not None and demand.gpus.any():
        gpus = 8 if settings.gpus_per_node is None else settings.gpus_per_node
        cpu = 1000 * max(each, int(demand.cpu_milli.max()) // 1000 + 1)
        memory = int(demand.memory_mib.max()) * gpus
        return report, Nodes(names, cpu * column, memory * column, gpus * column, models)
    gpus = settings.gpus_per_node or 0
    nodes = Nodes(names, 1000 * (gpus or each) * column, 0 * column, gpus * column, models)
    demand = processors_only(report.log, nodes) if gpus else None
    if demand is not None:
        # A log of processors on nodes with accelerators: its processors are these.
        size = demand.cpu_milli // 1000
        whole = np.full(len(size), WHOLE_GPU)
        demand = JobDemand(demand.cpu_milli, demand.memory_mib, size, whole, parts=demand.parts)
    return replace(report, log=replace(report.log, demand=demand)), nodes


def _simulate(log: JobLog, nodes: Nodes, settings: ClusterSettings, policy: str) -> NodeResult:
    return simulate_nodes(log, nodes, settings.placement, policy, backfilling=settings.backfilling)


def _means(
    group: Ints, groups: int, span: tuple[Floats, Floats], amount: Any, edges: Floats
) -> NDArray[np.float64]:
    """Return the mean of amounts that are held over spans, for each group and column of the time axis, exactly."""
    total = np.zeros((groups, len(edges)))
    size = groups * (len(edges) + 1)
    for time, sign in zip(span, (1.0, -1.0), strict=True):
        place = group * (len(edges) + 1) + np.searchsorted(edges, time)
        sums = [np.bincount(place, sign * amount * factor, size) for factor in (1.0, time)]
        held, moment = (each.reshape(groups, -1)[:, :-1].cumsum(axis=1) for each in sums)
        total += held * edges - moment
    return np.diff(total, axis=1) / np.diff(edges)


def _parts(result: NodeResult) -> tuple[Ints, Any]:
    """Return the run of each part, and the places of the parts."""
    first = result.runs["first"]
    return np.repeat(np.arange(len(first)), np.diff(first, append=len(result.run_parts))), result.run_parts


def _amounts(result: NodeResult, job: Ints) -> tuple[Any, int]:
    """Return what each part holds, in accelerators or processors, and what a node has."""
    demand = result.log.demand
    if demand is not None and result.nodes.gpus.any():
        return demand.gpus[job] * demand.gpu_milli[job] / WHOLE_GPU, int(result.nodes.gpus.max())
    own = result.log.processors if demand is None else demand.cpu_milli / 1000
    parts = np.bincount(_parts(result)[0], minlength=len(result.runs))
    of_job = np.ones(len(result.log))
    of_job[result.runs["job"]] = parts
    return (own / (of_job if demand is None else 1.0))[job], int(result.nodes.cpu_milli.max()) // 1000


def _allocation(result: NodeResult, begin: float, edges: Floats) -> dict[str, Any]:
    """Return the share of each node that jobs hold over time; many nodes are grouped into rows."""
    run, parts = _parts(result)
    span = result.runs["begin"][run] - begin, result.runs["end"][run] - begin
    amount, capacity = _amounts(result, result.runs["job"][run])
    each = -(-len(result.nodes) // _ROWS)
    rows = -(-len(result.nodes) // each)
    means = _means(parts["node"] // each, rows, span, amount, edges)
    nodes = np.bincount(np.arange(len(result.nodes)) // each)
    shares = means / np.maximum(nodes[:, None] * capacity, 1)
    return {"nodes_per_row": each, "rows": np.round(np.clip(shares, 0.0, 1.0), 3).tolist()}


def _fragmentation(result: NodeResult, begin: float, edges: Floats) -> dict[str, Any]:
    """Return the free accelerators, those that typical jobs cannot use, and as many if they were packed perfectly.

    The bound takes all that is free as one node: whole accelerators, and one with the rest.
    """
    demand = result.log.demand
    time = np.maximum.accumulate(result.start[result.order]) - begin
    place = np.searchsorted(time, edges[1:], side="right") - 1
    capacity = WHOLE_GPU * int(result.nodes.gpus.sum())
    free = np.where(place < 0, capacity, capacity - result.held[np.maximum(place, 0)])
    lost = np.where(place < 0, 0.0, result.fragmented[np.maximum(place, 0)])
    bound = np.zeros(len(free))
    if demand is not None:
        kinds, counts = np.unique(np.column_stack((demand.gpus, demand.gpu_milli)), axis=0, return_counts=True)
        rest = free % WHOLE_GPU
        for (gpus, milli), count in zip(kinds.tolist(), counts.tolist(), strict=True):
            usable = (free // WHOLE_GPU) + (rest >= milli)
            lost_to_it = np.where((gpus > 0) & (usable >= gpus), np.where(rest < milli, rest, 0), free)
            bound += count / counts.sum() * lost_to_it
    return {
        "free": (free / WHOLE_GPU).tolist(),
        "lost": (lost / WHOLE_GPU).tolist(),
        "bound": (np.minimum(bound, lost) / WHOLE_GPU).tolist(),
    }


def _queue(result: NodeResult, begin: float, edges: Floats) -> dict[str, Any]:
    """Return what waiting jobs ask for over time, for the users who ask for most and all others."""
    log = result.log
    until = np.where(result.placed, result.start, begin + edges[-1])
    asked = log.processors if not result.nodes.gpus.any() else log.demand.total_gpu_milli / WHOLE_GPU  # type: ignore[union-attr]
    users = list(log.user) or ["all"] * len(log)
    names, number = np.unique(users, return_inverse=True)
    most = np.argsort(-np.bincount(number, (until - log.submit) * asked), kind="stable")
    group = np.full(len(names), min(len(names), _USERS))
    group[most[:_USERS]] = np.arange(min(len(names), _USERS))
    shown = [str(names[row]) for row in most[:_USERS]] + (["others"] if len(names) > _USERS else [])
    means = _means(group[number], len(shown), (log.submit - begin, until - begin), asked, edges)
    return {"users": shown, "asked": np.round(np.maximum(means, 0.0), 3).tolist()}


def _node_runs(result: NodeResult, begin: float, node: int) -> dict[str, Any]:
    """Return the runs on one node, with the accelerators that each holds."""
    node = min(node, len(result.nodes) - 1)
    run, parts = _parts(result)
    chosen = np.flatnonzero(parts["node"] == node)[:_MAX_RUNS]
    rows = result.runs[run[chosen]]
    user = result.log.user
    sets = parts["gpu_set"][chosen].tolist()
    return {
        "index": node,
        "name": result.nodes.name[node],
        "gpus": int(result.nodes.gpus[node]),
        "begin": (rows["begin"] - begin).tolist(),
        "end": (rows["end"] - begin).tolist(),
        "job": result.log.job_id[rows["job"]].tolist(),
        "user": [user[row] if user else "" for row in rows["job"].tolist()],
        "held": [[gpu for gpu in range(int(result.nodes.gpus[node])) if taken >> gpu & 1] for taken in sets],
    }


def example_log() -> str:
    """Return a made-up log of two days, in the Standard Workload Format."""
    jobs, users, gap, processors = _EXAMPLE
    random = np.random.Generator(np.random.PCG64(7))
    submit = np.cumsum(random.exponential(gap, jobs))
    width = random.choice([1, 1, 2, 4, 8, 8, 16, 32, 64], jobs)
    run = np.clip(random.lognormal(7.6, 1.3, jobs), 60.0, 40_000.0)
    asked = np.ceil(run * random.uniform(1.1, 4.0, jobs) / 600) * 600
    user = random.choice(len(users), jobs, p=[0.3, 0.2, 0.15, 0.15, 0.1, 0.1])
    lines = [f"; A made-up log of {len(users)} users", f"; MaxProcs: {processors}"]
    for row in range(jobs):
        own = [row + 1, submit[row], -1, run[row], width[row], -1, -1, width[row], asked[row], -1, 1, user[row]]
        lines.append(" ".join(f"{value:.0f}" for value in [*own, 1, 1, 1, 1, -1, -1]))
    return "\n".join(lines) + "\n"
