"""What a person should know about a load before judging a scheduler by it."""

from __future__ import annotations

from functools import lru_cache

from ..cluster import Cluster
from ..core import Platform
from ..physics import Physics
from ..schedulers import create
from ..schedulers.registry import parse_spec
from ..workload import Scenario, capacity_of, generate
from .course import Course

#: Strategies whose shares do not depend on the queues: they load each device in proportion to the arrivals.
_BLIND = ("cpu_only", "gpu_only", "greedy", "random", "round_robin")
_TASKS, _SEED = 20_000, 1000


def notes(course: Course, scenario: Scenario, load: float) -> list[str]:
    """One sentence for each scheduler whose queues grow without end at this load; none if all keep up."""
    said = []
    if load >= 1.0:
        said.append(f"the load is {load:.2f} of the machine's capacity: every queue grows without end")
    for spec in course.schedulers:
        if parse_spec(spec)[0] in _BLIND:
            limit = stability_limit(spec, scenario, course.platform, course.physics, course.memory_policy)
            if load > limit:
                said.append(f"{spec} is unstable above about {limit:.2f} of capacity")
    return said


@lru_cache(maxsize=256)
def stability_limit(
    spec: str, scenario: Scenario, platform: Platform, physics: Physics, memory_policy: str
) -> float:
    """The largest load, as a share of capacity, at which the busiest device keeps up."""
    tasks = generate(scenario, _TASKS, _SEED, platform=platform, physics=physics, utilisation=0.1)
    busy = Cluster(platform, physics, memory_policy=memory_policy).run(tasks, create(spec)).busy
    return float(_TASKS / busy.max() / capacity_of(scenario, platform, physics))
