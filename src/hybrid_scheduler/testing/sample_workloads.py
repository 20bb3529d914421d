"""Small seeded workloads with edge cases, for checks."""

from __future__ import annotations

import numpy as np

from ..core import Workload


def small_workload(num_tasks: int = 60, seed: int = 0, *, rate: float = 8.0, max_memory: float = 500.0) -> Workload:
    """Return mixed tasks with Poisson arrivals, ties in arrival time and ids that do not start at 0."""
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
    """Return stages of parallel tasks between joins; every edge hands over some data."""
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
