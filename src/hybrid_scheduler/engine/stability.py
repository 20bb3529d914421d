"""Stability limit of schedulers whose decisions do not depend on the queues."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ..cluster import Cluster, Machine
from ..core import Platform
from ..physics import Physics, full_speed
from ..schedulers import create
from ..workload import Scenario, capacity_of, generate
from ..workload.argument_checks import parse_spec

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

    Parameters
    ----------
    spec
        The scheduler's specification.
    scenario, platform, physics, memory_policy
        The tasks, and what they run on.
    tasks, seed
        Length and seed of the run.
    """
    workload = generate(scenario, tasks, seed, platform=platform, physics=physics, utilisation=0.1)
    busy = Cluster(platform, physics, memory_policy=memory_policy).run(workload, create(spec)).busy
    return float(tasks / busy.max() / capacity_of(scenario, platform, physics))


def instability_warnings(schedulers: Iterable[str], scenario: Scenario, machine: Machine, load: float) -> list[str]:
    """Return one sentence for each scheduler whose queues grow without end at this load.

    Parameters
    ----------
    schedulers
        Specifications: ``name`` or ``name(parameter=value)``.
    scenario, machine
        The tasks, and what they run on.
    load
        Offered load, as a share of the machine's capacity.
    """
    warnings = []
    if load >= 1.0:
        warnings.append(f"the load is {load:.2f} of the machine's capacity: every queue grows without end")
    for spec in schedulers:
        if parse_spec(spec)[0] in QUEUE_BLIND:
            physics = full_speed(machine.physics)
            limit = stability_limit(spec, scenario, machine.platform, physics, machine.memory_policy)
            if load > limit:
                warnings.append(f"{spec} is unstable above about {limit:.2f} of capacity")
    return warnings
