"""Learned schedulers beside earliest finish, which knows durations, on the same tasks.

    python -m studies.learned_quality              all cases, 20 seeds, about half an hour on one core
    python -m studies.learned_quality --seeds 3    a quick look

Result: docs/results/learning/quality.txt. Ratios to `earliest_finish`, means over seeds that no tuning has used,
with 95 % t-intervals of the pairs. Learned schedulers start from the shipped models, or without one (`model=None`),
and keep learning.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hybrid_scheduler.core import Floats
from hybrid_scheduler.engine import compare
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.workload.scenarios import generate, scenario_named

LEARNED = ("hybrid_ml", "rl_agent")
REFERENCE = "earliest_finish"


@dataclass(frozen=True, slots=True)
class QualityCase:
    """A workload and its schedulers; utilisation None is a batch."""

    scenario: str
    utilisation: float | None
    tasks: int
    schedulers: tuple[str, ...] = ("price_index", *LEARNED)


CASES = (
    QualityCase("mixed", 0.1, 2000),
    QualityCase(
        "mixed",
        0.7,
        2000,
        (
            "price_index",
            *LEARNED,
            "hybrid_ml(model=None)",
            "hybrid_ml(prices=False)",
            "rl_agent(model=None)",
        ),
    ),
    QualityCase("mixed", 0.95, 2000),
    QualityCase("mixed", 0.95, 10_000, ("price_index", "hybrid_ml")),
    QualityCase("transfer", 0.85, 10_000, ("price_index", "hybrid_ml")),
    QualityCase("mixed", None, 1000),
)
COLUMNS = ("mean latency", "p99 latency", "makespan / bound", "load balance")


def figures(case: QualityCase, seed: int) -> dict[str, Floats]:
    """Return one row of `COLUMNS` for each scheduler, latencies as ratios to the reference."""
    workload = generate(
        scenario_named(case.scenario), case.tasks, seed,
        utilisation=case.utilisation, batch=case.utilisation is None,
    )  # fmt: skip
    summaries = compare(workload, [REFERENCE, *case.schedulers], seed=seed).summaries
    reference = summaries[REFERENCE]
    return {
        name: np.array(
            [
                summary.latency.mean / reference.latency.mean,
                summary.latency.p99 / reference.latency.p99,
                summary.makespan_over_bound or np.nan,
                summary.load_balance,
            ]
        )
        for name, summary in summaries.items()
    }


def study(case: QualityCase, seeds: Sequence[int]) -> dict[str, tuple[Floats, Floats]]:
    """Return mean and half width of the 95 % interval of every figure."""
    rows: dict[str, list[Floats]] = {}
    for seed in seeds:
        for name, row in figures(case, seed).items():
            rows.setdefault(name, []).append(row)
    return {name: interval(np.array(table)) for name, table in rows.items()}


def interval(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean over the first dimension, the seeds, and the half width of its 95 % t-interval."""
    return values.mean(axis=0), t_half_width(values)


def table_text(case: QualityCase, seeds: int, found: dict[str, tuple[Floats, Floats]]) -> str:
    """Return the table of one case as text."""
    load = "batch" if case.utilisation is None else f"load {case.utilisation:g}"
    lines = [f"\n{case.scenario}, {load}, {case.tasks:,} tasks, {seeds} seeds"]
    lines.append(f"  {'':28s}" + "".join(f"{name:>20s}" for name in COLUMNS))
    for name, (mean, half) in found.items():
        cells = "".join(f"{value:>12.3f} ± {width:.3f}" for value, width in zip(mean, half, strict=True))
        lines.append(f"  {name:28s}{cells}")
    return "\n".join(lines)


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seeds", type=int, default=20, help=f"paired seeds, from {FIRST_REPORTED_SEED} on; at least 2"
    )
    parser.add_argument("--only", help="only schedulers whose name contains this")
    options = parser.parse_args()
    for case in CASES:
        schedulers = tuple(name for name in case.schedulers if not options.only or options.only in name)
        chosen = QualityCase(case.scenario, case.utilisation, case.tasks, schedulers)
        found = study(chosen, range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + options.seeds))
        print(table_text(chosen, options.seeds, found), flush=True)


if __name__ == "__main__":
    main()
