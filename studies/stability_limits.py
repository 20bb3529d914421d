"""At which share of the machine's capacity does each naive strategy collapse? A few seconds:

    python -m hybrid_scheduler.experiments.stability

Strategies whose shares do not depend on the queues load each device in proportion to the arrival rate: they are
stable as long as the busiest device keeps up. One long run says how many seconds a task takes of each device, and
with that the rate at which the busiest is full, as a share of the capacity.
"""

from __future__ import annotations

from ..cluster import Cluster
from ..core import workstation
from ..physics import AnalyticPhysics
from ..schedulers import create
from ..workload.scenarios import capacity_of, generate, scenario_named

STRATEGIES = ("cpu_only", "round_robin", "greedy", "random", "gpu_only")


def stability_limit(scenario: str, strategy: str, tasks: int = 200_000, seed: int = 1000) -> float:
    """The largest stable load, as a share of capacity."""
    machine, physics = workstation(), AnalyticPhysics()
    mix = scenario_named(scenario)
    workload = generate(mix, tasks, seed, platform=machine, physics=physics, utilisation=0.1)
    busy = Cluster(machine, physics).run(workload, create(strategy)).busy
    return float(tasks / busy.max() / capacity_of(mix, machine, physics))


def main() -> None:
    print(f"{'scenario':12s}" + "".join(f"{name:>14s}" for name in STRATEGIES))
    for scenario in ("default", "mixed", "small", "transfer"):
        limits = "".join(f"{stability_limit(scenario, name):14.3f}" for name in STRATEGIES)
        print(f"{scenario:12s}{limits}", flush=True)


if __name__ == "__main__":
    main()
