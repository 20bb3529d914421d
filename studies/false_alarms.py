"""False drift alarms of Hybrid ML in long stationary streams, and the cost of learning there.

    python -m studies.false_alarms          a few minutes on one core

Result: docs/results/learning/false_alarms.txt. Every alarm in these streams is false. The last column is the mean
latency with learning over that without, on the same tasks and from the same model.
"""

from __future__ import annotations

import argparse

from hybrid_scheduler.cluster import Cluster, Noise
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.schedulers import HybridML
from hybrid_scheduler.workload.scenarios import generate, scenario_named

STREAM_TASKS = 20_000
#: (scenario, utilisation, sigma of the execution noise)
STREAMS = (
    ("mixed", 0.7, 0.0),
    ("mixed", 0.7, 0.1),
    ("transfer", 0.7, 0.1),
    ("lognormal", 0.5, 0.1),
)


def alarms(scenario: str, utilisation: float, sigma: float, tasks: int, seed: int) -> int:
    """Return the number of alarms in one stream."""
    learning = HybridML()
    workload = generate(scenario_named(scenario), tasks, seed, utilisation=utilisation)
    Cluster(noise=Noise(sigma, seed)).run(workload, learning, seed=seed)
    return sum(event.kind == "drift" for event in learning.take_events())


def alarms_and_cost(scenario: str, utilisation: float, sigma: float, tasks: int, seed: int) -> tuple[int, float]:
    """Return the number of alarms, and mean latency with learning over that without."""
    workload = generate(scenario_named(scenario), tasks, seed, utilisation=utilisation)
    noise = Noise(sigma, seed)
    learning, settled = (HybridML(learn=learn) for learn in (True, False))
    learned = Cluster(noise=noise).run(workload, learning, seed=seed).outcomes.latency.mean()
    plain = Cluster(noise=noise).run(workload, settled, seed=seed).outcomes.latency.mean()
    return sum(event.kind == "drift" for event in learning.take_events()), float(learned / plain)


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=STREAM_TASKS)
    parser.add_argument(
        "--seeds", type=int, default=2, help=f"streams per case, seeds from {FIRST_REPORTED_SEED} on"
    )
    options = parser.parse_args()
    print(f"{'scenario':12s}{'load':>6s}{'noise':>7s}{'seed':>7s}{'alarms':>8s}{'learning / settled':>20s}")
    for scenario, utilisation, sigma in STREAMS:
        for seed in range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + options.seeds):
            alarms, cost = alarms_and_cost(scenario, utilisation, sigma, options.tasks, seed)
            print(f"{scenario:12s}{utilisation:>6.2f}{sigma:>7.2f}{seed:>7d}{alarms:>8d}{cost:>20.4f}", flush=True)


if __name__ == "__main__":
    main()
