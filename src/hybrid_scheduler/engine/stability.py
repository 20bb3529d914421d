"""Stability limit of schedulers whose decisions do not depend on the queues."""

from __future__ import annotations

from functools import lru_cache

from ..cluster import Cluster
from ..core import Platform
from ..physics import Physics
from ..schedulers import create
from ..workload import Scenario, capacity_of, generate

#: Schedulers that ignore the queues: they load each device in proportion to the arrival rate.
QUEUE_BLIND = ("cpu_only", "gpu_only", "greedy", "random", "round_robin")


@lru_cache(maxsize=256)
def stability_limit(
    spec: str,
    scenario: Scenario,
    platform: Platform,
    physics: Physics,
    memory_policy: str = "clip",
    *,
    tasks: int = 20_000,
    seed: int = 1000,
) -> float:
    """Return the largest load, as a share of capacity, at which the busiest device keeps up.

    One long run at a low load gives the seconds that a task takes of each device, and with that the arrival rate at
    which the busiest device is full.
    """
    workload = generate(scenario, tasks, seed, platform=platform, physics=physics, utilisation=0.1)
    busy = Cluster(platform, physics, memory_policy=memory_policy).run(workload, create(spec)).busy
    return float(tasks / busy.max() / capacity_of(scenario, platform, physics))
