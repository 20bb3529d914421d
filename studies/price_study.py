"""Gain of the price index over earliest finish, by load.

    python -m studies.price_study          a few seconds

Result: docs/results/prices.txt. Ratios of `price_index` to `earliest_finish` on the same tasks, means over seeds
that no tuning has used, with 95 % t-intervals of the paired ratios.
"""

from __future__ import annotations

import argparse

import numpy as np

from hybrid_scheduler.cluster import Cluster, makespan_bound
from hybrid_scheduler.core import Floats, workstation
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers import EarliestFinish, PriceIndex
from hybrid_scheduler.workload.scenarios import generate, scenario_named

#: (scenario, utilisation or None for a batch, tasks)
CASES = (
    ("mixed", 0.1, 2000),
    ("mixed", 0.3, 2000),
    ("mixed", 0.7, 2000),
    ("mixed", 0.95, 2000),
    ("mixed", 0.95, 10_000),
    ("transfer", 0.85, 10_000),
    ("default", 0.9, 2000),
    ("lognormal", 0.9, 2000),
    ("pareto", 0.9, 2000),
    ("mixed", None, 1000),
    ("lognormal", None, 1000),
    ("pareto", None, 1000),
)
COLUMNS = ("mean latency", "p99 latency", "makespan", "EFT / bound", "prices / bound")


def ratios(scenario: str, load: float | None, tasks: int, seed: int) -> Floats:
    """Return one row of `COLUMNS`."""
    platform, physics = workstation(), AnalyticPhysics()
    workload = generate(
        scenario_named(scenario), tasks, seed,
        platform=platform, physics=physics, utilisation=load, batch=load is None,
    )  # fmt: skip
    bound = makespan_bound(workload, platform, physics)
    rows = []
    for scheduler in (EarliestFinish(), PriceIndex()):
        outcomes = Cluster(platform, physics).run(workload, scheduler).outcomes
        makespan = outcomes.finish.max() - workload.arrival_time[0]
        rows.append((outcomes.latency.mean(), np.quantile(outcomes.latency, 0.99), makespan))
    reference, priced = np.array(rows)
    return np.concatenate([priced / reference, [reference[2] / bound, priced[2] / bound]])


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help=f"paired seeds, from {FIRST_REPORTED_SEED} on")
    options = parser.parse_args()
    print(f"{'scenario':12s}{'load':>6s}{'tasks':>8s}" + "".join(f"{name:>18s}" for name in COLUMNS))
    for scenario, load, tasks in CASES:
        table = np.array([ratios(scenario, load, tasks, FIRST_REPORTED_SEED + i) for i in range(options.seeds)])
        half = t_half_width(table)
        cells = "".join(
            f"{mean:>10.3f} ± {width:.3f}" for mean, width in zip(table.mean(axis=0), half, strict=True)
        )
        print(f"{scenario:12s}{load or 'batch':>6}{tasks:>8d}{cells}", flush=True)


if __name__ == "__main__":
    main()
