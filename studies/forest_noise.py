"""Cost of noisy labels for the forest, and of a start without a model for a learned scheduler.

    python -m studies.forest_noise          a few minutes on one core

Result: docs/results/learning/forest_noise.txt. First table: a random forest on isolated tasks whose measured
seconds are exact, or have log-normal noise of 10 %. R² is on held-out tasks, against their exact labels and against
the measured ones, which cannot be predicted better than the noise allows. Regret is how much longer those tasks
take with the predicted share than with the best one. Second table: a batch of 1,000 mixed tasks, with and without
the shipped models. No outcome arrives before all decisions are made, so a scheduler without a model stays as it
began.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from hybrid_scheduler.cluster import Noise
from hybrid_scheduler.core import Floats, workstation
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.learning.duration.features import features
from hybrid_scheduler.learning.offline_trainer import TRAINING_TARGETS, implied_fraction, labels_for, regret
from hybrid_scheduler.learning.predictors import RandomForestPredictor
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.workload.scenarios import generate, scenario_named

from .learned_quality import COLUMNS, QualityCase, interval
from .learned_quality import study as quality_study

SIGMAS = (0.0, 0.1)
FIGURES = ("R², exact", "R², as measured", "regret, %")
COLD_BATCH = QualityCase(
    "mixed",
    None,
    1000,
    (
        "greedy",
        "hybrid_ml(model=None)",
        "hybrid_ml",
        "rl_agent",
    ),
)


def figures(target: str, sigma: float, tasks: int, seed: int) -> Floats:
    """Return `FIGURES` of one forest, on a fifth of the tasks that it was not trained on."""
    from sklearn.metrics import r2_score

    platform, physics = workstation(), AnalyticPhysics()
    workload = generate(scenario_named("mixed"), tasks, seed, batch=True)
    columns = physics.columns(platform)[[0, int(platform.accelerators[0])]]
    exact = physics.times(workload, platform)[:, columns, 0]
    measured = exact * Noise(sigma, seed).factors(workload.task_id, exact.shape[1])
    inputs, labels = features(workload), labels_for(target, measured)
    forest = RandomForestPredictor(seed=seed)
    as_measured = forest.fit(inputs, labels)["test_r2"]
    _, test = forest.split_
    predicted = forest.predict(inputs[test])
    return np.array(
        [
            r2_score(labels_for(target, exact)[test], predicted),
            as_measured,
            100.0 * regret(implied_fraction(target, predicted), exact[test]),
        ]
    )


def study(tasks: int, seeds: Sequence[int]) -> dict[tuple[str, float], tuple[Floats, Floats]]:
    """Return mean and half width of the 95 % interval of every figure, by target and noise."""
    return {
        (target, sigma): interval(np.array([figures(target, sigma, tasks, seed) for seed in seeds]))
        for target in TRAINING_TARGETS
        for sigma in SIGMAS
    }


def cold_batch(case: QualityCase, seeds: Sequence[int]) -> dict[str, tuple[float, float]]:
    """Return makespan over the lower bound, with the half width of its interval."""
    which = COLUMNS.index("makespan / bound")
    return {name: (mean[which], half[which]) for name, (mean, half) in quality_study(case, seeds).items()}


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3000, help="labelled; four fifths train")
    parser.add_argument("--seeds", type=int, default=10, help=f"from {FIRST_REPORTED_SEED} on; at least 2")
    options = parser.parse_args()
    seeds = range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + options.seeds)
    print(f"random forest, mixed, {options.tasks:,} labelled tasks, {options.seeds} seeds")
    print(f"  {'target':12s}{'noise':>8s}" + "".join(f"{name:>20s}" for name in FIGURES))
    for (target, sigma), (mean, half) in study(options.tasks, seeds).items():
        cells = "".join(f"{value:>11.4f} ± {width:.4f}" for value, width in zip(mean, half, strict=True))
        print(f"  {target:12s}{sigma:>8.0%}{cells}", flush=True)
    print(f"\nmixed batch, {COLD_BATCH.tasks:,} tasks, {options.seeds} seeds: makespan / bound")
    for name, (value, width) in cold_batch(COLD_BATCH, seeds).items():
        print(f"  {name:28s}{value:>12.3f} ± {width:.3f}")


if __name__ == "__main__":
    main()
