"""Tuning of the coefficients of `price_index` by evolution.

    python -m studies.tune_prices          three minutes on one core

Result: printed; it is PRICE_COEFFICIENTS in hybrid_scheduler/compiled/device_prices.py. Candidates are drawn in
logarithms of the coefficients; the best quarter sets mean and spread of the next generation. A candidate is scored
by mean latency, p99 and makespan as ratios to earliest finish on the same tasks. The cases are loads from nearly
idle to nearly full, and batches, so that no single case improves at the others' cost.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.compiled import PRICE_COEFFICIENTS
from hybrid_scheduler.core import Floats, Outcomes, Scheduler, Workload, workstation
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers.earliest_finish import EarliestFinish
from hybrid_scheduler.schedulers.price_index import PriceIndex
from hybrid_scheduler.workload.scenarios import generate, scenario_named

#: Where the search begins: round numbers from the meaning of the coefficients.
START = (0.25, 1.1, 0.15, 1.0, 1.0, 0.01, 0.1)
#: (scenario, utilisation or None for a batch, tasks)
CASES = (
    ("mixed", 0.1, 1000),
    ("mixed", 0.4, 1000),
    ("mixed", 0.7, 2000),
    ("mixed", 0.95, 4000),
    ("transfer", 0.85, 4000),
    ("default", 0.9, 2000),
    ("lognormal", 0.9, 2000),
    ("low-intensity", 0.8, 2000),
    ("mixed", None, 1000),
    ("lognormal", None, 1000),
)


@dataclass(frozen=True)
class TuningCase:
    """One workload and the figures of earliest finish on it: mean latency, p99, makespan."""

    workload: Workload
    reference: Floats


def make_cases(seeds: range) -> list[TuningCase]:
    """Return the tuning cases."""
    platform, physics = workstation(), AnalyticPhysics()
    cases = []
    for name, load, tasks in CASES:
        # The makespan of a batch depends on its last few tasks: a difference shows only over more draws.
        for seed in seeds if load else range(4 * len(seeds)):
            workload = generate(
                scenario_named(name), tasks, seed,
                platform=platform, physics=physics, utilisation=load, batch=load is None,
            )  # fmt: skip
            cases.append(TuningCase(workload, _figures(workload, EarliestFinish())))
    return cases


def loss(coefficients: Floats, cases: list[TuningCase]) -> float:
    """Return the mean over the cases of log mean + 0.3 log p99 + 10 log makespan, each against earliest finish.

    Makespan changes only in batches and only by per cents there, hence its weight. A tail worse than earliest
    finish's counts ten times: the mean must not improve at the cost of large tasks' latency.
    """
    scheduler = PriceIndex(tuple(coefficients))
    total = 0.0
    for case in cases:
        mean, p99, makespan = np.log(_figures(case.workload, scheduler) / case.reference)
        total += mean + 0.3 * p99 + 10.0 * makespan + 3.0 * max(0.0, p99)
    return total / len(cases)


def evolve(cases: list[TuningCase], *, population: int, generations: int, seed: int) -> tuple[Floats, float]:
    """Return the best coefficients found and their loss."""
    rng = np.random.default_rng(seed)
    centre, spread = np.log(np.array(START)), np.full(len(START), 0.5)
    best, best_loss = np.exp(centre), loss(np.exp(centre), cases)
    for generation in range(generations):
        candidates = centre + spread * rng.standard_normal((population, len(centre)))
        losses = np.array([loss(np.exp(point), cases) for point in candidates])
        elite = candidates[np.argsort(losses)[: population // 4]]
        centre, spread = elite.mean(axis=0), np.maximum(elite.std(axis=0), 0.02)
        if losses.min() < best_loss:
            best, best_loss = np.exp(candidates[np.argmin(losses)]), float(losses.min())
        print(f"generation {generation + 1:3d}: loss {losses.min():.4f}, best {best_loss:.4f}", flush=True)
    return best, best_loss


def _figures(workload: Workload, scheduler: Scheduler) -> Floats:
    outcomes: Outcomes = Cluster().run(workload, scheduler).outcomes
    latency = outcomes.latency
    return np.array([latency.mean(), np.quantile(latency, 0.99), outcomes.finish.max() - workload.arrival_time[0]])


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--population", type=int, default=24)
    parser.add_argument("--generations", type=int, default=25)
    parser.add_argument("--seeds", type=int, default=3, help="workloads per case, seeds 0, 1, ...")
    parser.add_argument("--seed", type=int, default=0, help="of the evolution itself")
    options = parser.parse_args()
    cases = make_cases(range(options.seeds))
    print(f"coefficients in use: loss {loss(np.array(PRICE_COEFFICIENTS), cases):.4f}")
    best, value = evolve(cases, population=options.population, generations=options.generations, seed=options.seed)
    print(f"loss {value:.4f}")
    print("PRICE_COEFFICIENTS = (" + ", ".join(f"{number:.4g}" for number in best) + ")")


if __name__ == "__main__":
    main()
