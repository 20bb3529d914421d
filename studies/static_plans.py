"""Makespan of static plans over the lower bound: batches of 10 and 100 tasks, and task graphs.

    python -m studies.static_plans             20 seeds from 3000 on, about two minutes on one core

Result: docs/results/static_plans.txt and .json. The machine has one CPU and four GPUs. Cholesky, LU and QR are
fixed graphs of 8 tiles and have one value. `list` is `split_search` without its search.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster, makespan_bound
from hybrid_scheduler.core import Workload
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.schedulers import create
from hybrid_scheduler.workload.scenarios import generate, scenario_named
from hybrid_scheduler.workload.task_graphs import cholesky, fork_join, layered, lu, qr

_OUT = Path("docs/results/static_plans")
#: Tasks of each case by seed, and whether seeds differ.
CASES: dict[str, tuple[Callable[[int], Workload], bool]] = {
    "batch of 10": (lambda seed: generate(scenario_named("mixed"), 10, seed, batch=True), True),
    "batch of 100": (lambda seed: generate(scenario_named("mixed"), 100, seed, batch=True), True),
    "transfer, batch of 100": (lambda seed: generate(scenario_named("transfer"), 100, seed, batch=True), True),
    "fork-join, 5 stages of 8": (lambda seed: fork_join(5, 8, seed), True),
    "layers, 100 tasks": (lambda seed: layered(100, 10, seed), True),
    "cholesky, 8 tiles": (lambda _: cholesky(8), False),
    "lu, 8 tiles": (lambda _: lu(8), False),
    "qr, 8 tiles": (lambda _: qr(8), False),
}
PLANNERS = {
    "split_search": "split_search",
    "list": "split_search(iterations=0)",
    **{name: name for name in ("fluid_plan", "heft", "peft", "lpt", "min_min", "max_min")},
}


def measure(case: str, seeds: int) -> dict[str, Any]:
    """Return mean, half width and worst of makespan over bound for every planner."""
    make, drawn = CASES[case]
    ratios: dict[str, list[float]] = {name: [] for name in PLANNERS}
    for seed in range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + (seeds if drawn else 1)):
        workload, cluster = make(seed), Cluster()
        bound = makespan_bound(workload, cluster.platform, cluster.physics)
        for name, spec in PLANNERS.items():
            ratios[name].append(float(cluster.run(workload, create(spec)).outcomes.finish.max() / bound))
    return {
        name: {
            "mean": round(float(np.mean(values)), 4),
            "half_width": round(float(t_half_width(np.array(values))), 4) if len(values) > 1 else None,
            "worst": round(max(values), 4),
        }
        for name, values in ratios.items()
    }


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return the cases as text, the worst seed of the search in brackets."""
    lines = [f"{'makespan / bound':<26}" + "".join(f"{name:>22}" for name in PLANNERS)]
    for case, row in found.items():
        cells = []
        for one in row.values():
            half = "" if one["half_width"] is None else f" ± {one['half_width']:.3f} ({one['worst']:.2f})"
            cells.append(f"{one['mean']:.3f}{half}")
        lines.append(f"{case:<26}" + "".join(f"{cell:>22}" for cell in cells))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    found: dict[str, dict[str, Any]] = {}
    for case in CASES:
        found[case] = measure(case, seeds)
        print(table({case: found[case]}), flush=True)
    _OUT.with_suffix(".json").write_text(json.dumps({"seeds": seeds, "cases": found}, indent=1) + "\n")
    title = (
        f"Makespan over the lower bound, mean ± 95 % (worst) over {seeds} seeds from {FIRST_REPORTED_SEED} on\n\n"
    )
    _OUT.with_suffix(".txt").write_text(title + table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
