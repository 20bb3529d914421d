"""Contract check for schedulers, of this package or of others, and the small workloads that it runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cluster import Cluster, Noise
from ..compiled import FastRule
from ..core import Central, Online, Outcomes, Platform, Scheduler, Static, Workload, platform_named, workstation

#: CPU alone, one GPU, the default machine, unequal accelerators, several nodes.
_PLATFORMS: tuple[Callable[[], Platform], ...] = (
    lambda: workstation(0),
    lambda: platform_named("laptop"),
    workstation,
    lambda: platform_named("accelerators"),
    lambda: platform_named("cluster-16"),
)


def check_scheduler(make: Callable[[], Scheduler]) -> None:
    """Check that a scheduler keeps the contract.

    Every task runs exactly once and never before its arrival, its parents or their data. The same seed gives the
    same schedule, also when one object is used twice. The workload is not changed. A compiled rule gives the same
    numbers task by task as in the compiled loop. Tasks that do not fit into memory are handled.

    Parameters
    ----------
    make
        Function that returns a new scheduler.

    Raises
    ------
    AssertionError
        If the scheduler breaks the contract; the message gives the reason.

    Examples
    --------
    >>> from hybrid_scheduler import check_scheduler, create
    >>> check_scheduler(lambda: create("cpu_only"))
    """
    scheduler = make()
    assert isinstance(scheduler, Online | Central | Static), "must be an Online, Central or Static scheduler"
    for platform in (make_platform() for make_platform in _PLATFORMS):
        for workload in (small_workload(), small_workload(max_memory=20000.0), small_workload(num_tasks=1)):
            _check_run(make, platform, workload)
        _check_run(make, platform, fork_join_workload())
    _check_run(make, workstation(), small_workload(), Noise(0.3, seed=5))
    if isinstance(scheduler, FastRule):
        _check_both_paths(make, workstation(), small_workload(200))


def _check_run(
    make: Callable[[], Scheduler], platform: Platform, workload: Workload, noise: Noise | None = None
) -> None:
    before = {name: column.copy() for name, column in workload.columns().items()}
    scheduler = make()
    cluster = Cluster(platform, noise=noise)
    first = cluster.run(workload, scheduler, seed=3).outcomes
    where = f"on {platform.name} with {len(workload)} tasks"
    assert first.completed.all(), f"not every task ran {where}"
    ready = workload.arrival_time.copy()
    for row in range(len(workload)):
        if len(workload.parents(row)):
            ready[row] = max(ready[row], _data_arrival(workload, row, first, cluster))
    assert (first.start >= ready - 1e-9).all(), f"a task started before it was released {where}"
    _check_no_overlap(first, platform, where)
    again = cluster.run(workload, scheduler, seed=3).outcomes
    _assert_same(first, again, f"the same object gave another schedule the second time {where}")
    fresh = Cluster(platform, noise=noise).run(workload, make(), seed=3).outcomes
    _assert_same(first, fresh, f"the same seed gave another schedule {where}")
    for name, column in workload.columns().items():
        assert np.array_equal(column, before[name]), f"the workload's {name} was changed {where}"


def _data_arrival(workload: Workload, row: int, outcomes: Outcomes, cluster: Cluster) -> float:
    """Return the earliest time at which the parents of a task have ended and their data can be there.

    Data of a split task, or for one, may move in parts; only that between whole tasks is counted.
    """
    links = cluster.physics.links(cluster.platform)
    node = cluster.platform.node
    parents = workload.parents(row)
    edges = slice(workload.parent_start[row], workload.parent_start[row + 1])
    source = outcomes.device[parents]
    target = int(outcomes.device[row])
    moved = workload.parent_data[edges] * links.seconds_per_mb(node)[source, target]
    moved += links.startup_seconds(node)[source, target]
    whole = np.isin(outcomes.fraction, (0.0, 1.0))
    return float((outcomes.finish[parents] + np.where(whole[parents] & whole[row], moved, 0.0)).max())


def _check_no_overlap(outcomes: Outcomes, platform: Platform, where: str) -> None:
    _, device, start, end = outcomes.intervals(platform.cpu_of)
    order = np.lexsort((start, device))
    same = device[order][1:] == device[order][:-1]
    gap = start[order][1:] - end[order][:-1]
    assert (gap[same] >= -1e-9).all(), f"a device worked on two tasks at once {where}"


def _check_both_paths(make: Callable[[], Scheduler], platform: Platform, workload: Workload) -> None:
    class TaskByTask(type(make())):  # type: ignore[misc]
        """Same scheduler with `observe`, so that it does not use the compiled loop."""

        def observe(self, outcome: object) -> None:
            pass

    slow = make()
    slow.__class__ = TaskByTask
    fast = Cluster(platform).run(workload, make(), seed=3).outcomes
    _assert_same(fast, Cluster(platform).run(workload, slow, seed=3).outcomes, "the two paths disagree")


def _assert_same(a: Outcomes, b: Outcomes, message: str) -> None:
    for name in ("device", "fraction", "cpu_start", "cpu_time", "accelerator_start", "accelerator_time", "status"):
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), f"{message}: {name}"


def small_workload(num_tasks: int = 60, seed: int = 0, *, rate: float = 8.0, max_memory: float = 500.0) -> Workload:
    """Return mixed tasks with Poisson arrivals, ties in arrival time and ids that do not start at 0.

    Parameters
    ----------
    num_tasks : int, optional
        Number of tasks.
    seed : int, optional
        Random seed; equal seeds give equal tasks.
    rate : float, optional
        Mean number of arrivals per second.
    max_memory : float, optional
        Largest memory of a task in megabytes.

    Returns
    -------
    Workload
        The tasks.

    Examples
    --------
    >>> from hybrid_scheduler.testing import small_workload
    >>> len(small_workload(10))
    10
    """
    draw = np.random.default_rng(seed)
    arrival = np.cumsum(draw.exponential(1.0 / rate, num_tasks))
    arrival[1::7] = arrival[0::7][: len(arrival[1::7])]
    return Workload(
        task_id=np.arange(100, 100 + num_tasks),
        size=draw.uniform(100, 5000, num_tasks),
        compute_intensity=draw.uniform(0, 1, num_tasks),
        memory_required=draw.uniform(10, max_memory, num_tasks),
        arrival_time=np.sort(arrival),
    )


def fork_join_workload(width: int = 4, stages: int = 3, seed: int = 0) -> Workload:
    """Return stages of parallel tasks between joins; every edge hands over some data.

    Parameters
    ----------
    width : int, optional
        Parallel tasks of each stage.
    stages : int, optional
        Number of stages; each begins with a join of the one before.
    seed : int, optional
        Random seed; equal seeds give equal tasks.

    Returns
    -------
    Workload
        The tasks with their dependencies.

    Examples
    --------
    >>> from hybrid_scheduler.testing import fork_join_workload
    >>> len(fork_join_workload(width=4, stages=3))
    15
    """
    draw = np.random.default_rng(seed)
    dependencies: list[list[int]] = []
    previous: list[int] = []
    for _ in range(stages):
        join = len(dependencies)
        dependencies.append(previous)
        previous = list(range(join + 1, join + 1 + width))
        dependencies.extend([join] for _ in previous)
    n = len(dependencies)
    return Workload(
        task_id=np.arange(n),
        size=draw.uniform(100, 3000, n),
        compute_intensity=draw.uniform(0, 1, n),
        memory_required=draw.uniform(10, 500, n),
        arrival_time=np.zeros(n),
        dependencies=dependencies,
        dependency_data=[[100.0] * len(parents) for parents in dependencies],
    )
