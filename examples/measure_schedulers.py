"""Measurements of every scheduler on the same tasks: the numbers on the guide's scheduler pages.

    OMP_NUM_THREADS=1 python examples/measure_schedulers.py --out docs/guide/schedulers/measured.json
    python examples/measure_schedulers.py --seeds 2 --tasks 200         a quick run
    python examples/measure_schedulers.py --only dqn --out FILE         measures one anew, keeps the file's others

Seeds start at 3000: training, tuning and development used seeds below that. Every scheduler of a seed sees the
same tasks, so ratios to `earliest_finish` are taken seed by seed; ± is the 95 % interval of their mean.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from hybrid_scheduler import Platform, Workload, compare, platform_named, workstation
from hybrid_scheduler.schedulers import schedulers
from hybrid_scheduler.workload import cholesky, fork_join, generate, layered, scenario_named

FIRST_SEED = 3000
#: Title, platform, tasks by (seed, number of tasks), and the schedulers that can run it.
Case = tuple[str, Callable[[], Platform], Callable[[int, int], Workload], str]


def _stream(
    name: str, load: float, machine: Callable[[], Platform] = workstation
) -> Callable[[int, int], Workload]:
    return lambda seed, tasks: generate(scenario_named(name), tasks, seed, utilisation=load, platform=machine())


def _nodes() -> Platform:
    return platform_named("cluster-16")


CASES: dict[str, Case] = {
    "calm": ("default tasks, load 0.1", workstation, _stream("default", 0.1), "streams"),
    "busy": ("mixed tasks, load 0.7", workstation, _stream("mixed", 0.7), "streams"),
    "full": ("mixed tasks, load 0.95", workstation, _stream("mixed", 0.95), "streams"),
    "data": ("transfer tasks, load 0.85", workstation, _stream("transfer", 0.85), "streams"),
    "batch": (
        "mixed tasks, all at time 0",
        workstation,
        lambda seed, tasks: generate(scenario_named("mixed"), tasks // 2, seed, batch=True),
        "all",
    ),
    "nodes": ("mixed tasks, 16 nodes, load 0.7", _nodes, _stream("mixed", 0.7, _nodes), "streams"),
    "layers": (
        "random layers, 200 tasks",
        workstation,
        lambda seed, _: layered(200, 20, seed),
        "all",
    ),
    "fork-join": ("fork-join, 5 stages of 8", workstation, lambda seed, _: fork_join(5, 8, seed), "all"),
    "cholesky": ("tiled Cholesky, 8 tiles, one graph", workstation, lambda *_: cholesky(8), "graph"),
}
MEASURES = ("mean_latency", "p99_latency", "makespan_over_bound", "energy_per_task", "load_balance")


def seeds_of(key: str, seeds: int) -> range:
    """Return the seeds of a case; a graph that is always the same has one."""
    return range(FIRST_SEED, FIRST_SEED + (1 if CASES[key][3] == "graph" else seeds))


def measure_seed(key: str, seed: int, tasks: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """Return the measures of every scheduler, or of some and the reference, on the tasks of one seed."""
    _, machine, make, who = CASES[key]
    names = [
        name
        for name, info in schedulers().items()
        if (who != "streams" or info.protocol != "static") and (not only or name in {*only, "earliest_finish"})
    ]
    workload = make(seed, tasks)
    rows = {}
    for name, summary in compare(workload, names, platform=machine(), seed=seed).summaries.items():
        flat = {**summary.as_dict(), "energy_per_task": summary.energy / summary.tasks}
        rows[name] = {one: float(flat[one]) for one in MEASURES}
    return {"tasks": len(workload), "schedulers": rows}


def summarise(found: dict[str, list[dict[str, Any]]], seeds: int, tasks: int) -> dict[str, Any]:
    """Return, per case and scheduler, means over seeds with intervals, and ratios to earliest finish."""
    document: dict[str, Any] = {"first_seed": FIRST_SEED, "seeds": seeds, "tasks": tasks, "cases": {}}
    for key, (title, machine, _, _) in CASES.items():
        runs = found[key]
        rows = {
            name: {one: [run["schedulers"][name][one] for run in runs] for one in MEASURES}
            for name in runs[0]["schedulers"]
        }
        document["cases"][key] = {
            "title": title,
            "platform": machine().name,
            "tasks": runs[0]["tasks"],
            "seeds": len(runs),
            "schedulers": {name: _summary(row, rows["earliest_finish"]) for name, row in rows.items()},
        }
    return document


def measure(seeds: int, tasks: int, say: Callable[[str], None], only: Sequence[str] = ()) -> dict[str, Any]:
    """Measure all cases, one after the other."""
    found: dict[str, list[dict[str, Any]]] = {}
    for key in CASES:
        for seed in seeds_of(key, seeds):
            found.setdefault(key, []).append(measure_seed(key, seed, tasks, only))
            say(f"{key}, seed {seed}")
    return summarise(found, seeds, tasks)


def add_to(document: dict[str, Any], measured: dict[str, Any], only: Sequence[str]) -> dict[str, Any]:
    """Return a document with the schedulers that were measured anew in place of its own."""
    for key, case in document["cases"].items():
        rows = measured["cases"][key]["schedulers"]
        case["schedulers"] = dict(sorted((case["schedulers"] | {name: rows[name] for name in only}).items()))
    return document


def as_text(document: dict[str, Any]) -> str:
    """Return the document as JSON, with a pair of numbers on one line."""
    return re.sub(r"\[\s+([^\[\]]*?),\s+([^\[\]]*?)\s+\]", r"[\1, \2]", json.dumps(document, indent=1)) + "\n"


def _summary(row: dict[str, list[float]], reference: dict[str, list[float]]) -> dict[str, list[float | None]]:
    """Return [mean, half width of its 95 % interval] of each measure, and of the ratios to earliest finish."""
    found = {one: _interval(values) for one, values in row.items()}
    for one in ("mean_latency", "p99_latency"):
        ratios = np.array(row[one]) / np.array(reference[one])
        found[f"{one}_ratio"] = _interval(ratios.tolist())
    return found


def _interval(values: list[float]) -> list[float | None]:
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return [_short(mean), None]
    return [_short(mean), _short(float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n)))]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--out", type=Path, help="file for the JSON; stdout by default")
    parser.add_argument("--only", help="names of schedulers, with commas; the others in the file of --out stay")
    chosen = parser.parse_args(arguments)
    only = chosen.only.split(",") if chosen.only else []
    document = measure(chosen.seeds, chosen.tasks, lambda words: print(words, file=sys.stderr), only)
    if only and chosen.out is not None:
        document = add_to(json.loads(chosen.out.read_text(encoding="utf-8")), document, only)
    text = as_text(document)
    if chosen.out is None:
        print(text, end="")
    else:
        chosen.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
