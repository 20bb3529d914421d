"""Makespan of static plans over the lower bound: batches of 10 and 100 tasks, and task graphs.

    python -m studies.static_plans             20 seeds from 3000 on, about two minutes on one core
    python -m studies.static_plans --noise     the same with durations that differ from the known ones by 30 %

Result: docs/results/static_plans.txt and .json, with noise static_plans_noise.txt and .json. The machine has one
CPU and four GPUs. Cholesky, LU and QR are fixed graphs of 8 tiles and have one value. `list` is `split_search`
without its search. Graphs are also run by schedulers that place tasks online, when they are released or later: a
transfer then begins when the task is placed, in a plan when the parent ends. With noise the bound knows the
durations as they will be, which no planner does; `replan` plans the tasks that have not started again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster, Noise, makespan_bound
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
#: Schedulers that run graphs online.
ONLINE = {name: name for name in ("late_binding", "price_index", "earliest_finish", "min_completion")}
#: With noise: standard deviation of the log seconds, cases and planners.
_SIGMA = 0.3
_NOISY_CASES = ("batch of 100", "fork-join, 5 stages of 8", "layers, 100 tasks")
_NOISY_PLANNERS = {
    "fixed plan": "split_search",
    "replan above 1.2": "split_search(replan=1.2)",
    "late_binding": "late_binding",
}


def measure(case: str, seeds: int, planners: dict[str, str], sigma: float) -> dict[str, Any]:
    """Return mean, half width and worst of makespan over bound for every planner."""
    make, drawn = CASES[case]
    ratios: dict[str, list[float]] = {name: [] for name in planners}
    for seed in range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + (seeds if drawn else 1)):
        workload, cluster = make(seed), Cluster(noise=Noise(sigma, seed))
        bound = makespan_bound(workload, cluster.platform, cluster.physics, cluster.noise)
        for name, spec in planners.items():
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
    names = next(iter(found.values()))
    lines = [f"{'makespan / bound':<26}" + "".join(f"{name:>22}" for name in names)]
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
    parser.add_argument("--noise", action="store_true", help="durations differ from the known ones")
    options = parser.parse_args()
    seeds, noisy = options.seeds, options.noise
    found: dict[str, dict[str, Any]] = {}
    for case in _NOISY_CASES if noisy else CASES:
        planners = _NOISY_PLANNERS if noisy else PLANNERS if "batch" in case else {**PLANNERS, **ONLINE}
        found[case] = measure(case, seeds, planners, _SIGMA if noisy else 0.0)
        print(table({case: found[case]}), flush=True)
    out = _OUT.with_name(f"{_OUT.name}_noise") if noisy else _OUT
    out.with_suffix(".json").write_text(json.dumps({"seeds": seeds, "cases": found}, indent=1) + "\n")
    title = (
        f"Makespan over the lower bound, mean ± 95 % (worst) over {seeds} seeds from {FIRST_REPORTED_SEED} on\n\n"
    )
    batches = {case: row for case, row in found.items() if "batch" in case}
    graphs = {case: row for case, row in found.items() if "batch" not in case}
    out.with_suffix(".txt").write_text(f"{title}{table(batches)}\n{table(graphs)}", encoding="utf-8")


if __name__ == "__main__":
    main()
