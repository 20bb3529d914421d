"""Stability limits of the queue-blind schedulers, as shares of the machine's capacity.

    python -m studies.stability_limits          a few seconds

Result: printed; quoted in README.md and in the guide's page on capacity.
"""

from __future__ import annotations

from hybrid_scheduler.core import workstation
from hybrid_scheduler.engine.stability import QUEUE_BLIND, stability_limit
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.workload.scenarios import scenario_named

TASKS = 200_000


def main() -> None:
    """Run the study from the command line."""
    print(f"{'scenario':12s}" + "".join(f"{name:>14s}" for name in QUEUE_BLIND))
    for name in ("default", "mixed", "small", "transfer"):
        scenario, platform, physics = scenario_named(name), workstation(), AnalyticPhysics()
        limits = (stability_limit(spec, scenario, platform, physics, tasks=TASKS) for spec in QUEUE_BLIND)
        print(f"{name:12s}" + "".join(f"{limit:14.3f}" for limit in limits), flush=True)


if __name__ == "__main__":
    main()
