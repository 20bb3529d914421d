"""Trade-off of latency and energy: the objective's weight swept from latency alone to energy alone.

    python -m studies.time_energy_pareto          a minute or two on one core

Result: docs/results/pareto.txt. Mixed tasks at a tenth of capacity, where queues do not restrict the choice; means
over 10 seeds with 95 % t-intervals. `w` is the weight of energy, 1 - w that of latency, each in units of its payoff
range, so that equal weights count equally. At w = 1 queues are ignored: near capacity that overloads the CPU.
"""

from __future__ import annotations

import argparse

import numpy as np

from hybrid_scheduler.core import Floats, Objective
from hybrid_scheduler.engine import compare
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.workload.scenarios import generate, scenario_named

SCHEDULERS = ("earliest_finish", "hybrid_ml", "rl_agent")
WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
COLUMNS = ("mean latency, s", "energy per task, J", "tasks on the CPU alone")


def figures(weight: float, seed: int, tasks: int) -> dict[str, Floats]:
    """Return one row of `COLUMNS` per scheduler."""
    workload = generate(scenario_named("mixed"), tasks, seed, utilisation=0.1)
    goal = Objective(latency=1.0 - weight, energy=weight)
    summaries = compare(workload, SCHEDULERS, objective=goal, seed=seed).summaries
    return {
        name: np.array([summary.latency.mean, summary.energy / tasks, summary.cpu_only_share])
        for name, summary in summaries.items()
    }


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help=f"from {FIRST_REPORTED_SEED} on; at least 2")
    parser.add_argument("--tasks", type=int, default=1000)
    options = parser.parse_args()
    print(f"{'':18s}{'w':>6s}" + "".join(f"{name:>26s}" for name in COLUMNS))
    rows: dict[tuple[str, float], list[Floats]] = {}
    for weight in WEIGHTS:
        for seed in range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + options.seeds):
            for name, row in figures(weight, seed, options.tasks).items():
                rows.setdefault((name, weight), []).append(row)
    for name, weight in sorted(rows, key=lambda key: (SCHEDULERS.index(key[0]), key[1])):
        values = np.array(rows[name, weight])
        half = t_half_width(values)
        cells = "".join(f"{m:>18.3f} ± {h:.3f}" for m, h in zip(values.mean(axis=0), half, strict=True))
        print(f"{name:18s}{weight:>6.2f}{cells}")


if __name__ == "__main__":
    main()
