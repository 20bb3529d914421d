"""Hierarchical learner against rules that know durations, on machines and kinds of tasks that it has not seen.

    python -m studies.duration_model                          all cases, 20 seeds, about ten minutes on one core
    python -m studies.duration_model --first 7000 --out PATH  another block of seeds
    python -m studies.duration_model --seeds 2 --draws 5      a quick look

Result: docs/results/learning/duration_model.txt and .json. Every case runs on paired seeds, 2,000 tasks each; the
learner starts from nothing and sees executed parts only. A ratio is its mean (or 99th percentile) latency over that
of the better of `price_index` and `min_completion`, which know durations, on the same tasks. The better one has the
lower mean over all seeds of a case. "Late" leaves out the first 200 tasks. Intervals are 95 % t-intervals.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.core import Floats
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.schedulers import create

from .learning_cases import RANDOM_PLATFORMS, cases

LEARNER = "hybrid_ml(durations=hierarchical)"
REFERENCES = ("price_index", "min_completion")
_FIRST_SEED, _LATE = 3000, 200
_OUT = Path("docs/results/learning/duration_model")


def _figures(latency: Floats) -> dict[str, float]:
    return {
        "mean": float(latency.mean()),
        "p99": float(np.quantile(latency, 0.99)),
        "late": float(latency[_LATE:].mean()),
    }


def measure(name: str, first: int, seeds: int) -> dict[str, Any]:
    """Return all ratios of one case.

    Parameters
    ----------
    name
        Name of the case.
    first, seeds
        First seed and number of seeds.
    """
    case = next(case for case in cases() if case.name == name)
    references: dict[str, list[dict[str, float]]] = {reference: [] for reference in REFERENCES}
    learned: list[dict[str, float]] = []
    cpu_seconds, tasks = 0.0, 0
    learner = create(LEARNER)
    for seed in range(first, first + seeds):
        cluster, workload = case.make(seed)
        for reference, runs in references.items():
            runs.append(_figures(cluster.run(workload, create(reference)).outcomes.latency))
        if seed == first:  # compile, or load what was compiled before, outside the measured time
            cluster.run(workload.rows(0, 1), learner)
        begin = time.process_time()
        latency = cluster.run(workload, learner).outcomes.latency
        cpu_seconds += time.process_time() - begin
        tasks += len(workload)
        learned.append(_figures(latency))
    reference = min(references, key=lambda one: float(np.mean([run["mean"] for run in references[one]])))
    row: dict[str, Any] = {
        "case": case.name, "group": case.group, "seeds": seeds, "reference": reference,
        "tasks_per_cpu_second": round(tasks / max(cpu_seconds, 1e-9)),
    }  # fmt: skip
    for key in ("mean", "p99", "late"):
        ratios = np.array(
            [run[key] / known[key] for run, known in zip(learned, references[reference], strict=True)]
        )
        half = float(t_half_width(ratios)) if seeds > 1 else None
        row[key] = {"ratio": float(ratios.mean()), "half": half, "worst": float(ratios.max())}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text."""
    lines = [f"{'case':<40}{'reference':<16}{'mean':>16}{'worst':>8}{'p99':>16}{'late':>16}{'tasks/CPU-s':>13}"]
    lines += [
        f"{row['case']:<40}{row['reference']:<16}{_cell(row['mean']):>16}{row['mean']['worst']:>8.3f}"
        f"{_cell(row['p99']):>16}{_cell(row['late']):>16}{row['tasks_per_cpu_second']:>13,}"
        for row in rows
    ]
    draws = [row for row in rows if row["group"] == RANDOM_PLATFORMS]
    if draws:
        means, tails = (np.array([row[key]["ratio"] for row in draws]) for key in ("mean", "p99"))
        lines.append(
            f"{len(draws)} random platforms: mean ratio at most {means.max():.3f} "
            f"({(means <= 1.05).sum()} within 1.05), p99 ratio at most {tails.max():.3f} "
            f"({(tails <= 1.25).sum()} within 1.25)"
        )
    return "\n".join(lines)


def _cell(number: dict[str, float | None]) -> str:
    return f"{number['ratio']:.3f}" + ("" if number["half"] is None else f" ± {number['half']:.3f}")


def _all_rows(first: int, seeds: int, draws: int, processes: int) -> Iterator[dict[str, Any]]:
    """Yield a row for every case, in order; random platforms have one seed each."""
    every = cases()
    chosen = [(case.name, seeds) for case in every if case.group != RANDOM_PLATFORMS]
    chosen += [(case.name, 1) for case in every if case.group == RANDOM_PLATFORMS][:draws]
    if processes == 1:
        yield from (measure(name, first, count) for name, count in chosen)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(measure, *zip(*((name, first, count) for name, count in chosen), strict=True))


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="paired seeds of each case")
    parser.add_argument("--first", type=int, default=_FIRST_SEED, help="first seed")
    parser.add_argument("--draws", type=int, default=50, help="random platforms, one seed each")
    parser.add_argument("--processes", type=int, default=1, help="cases that run at once")
    parser.add_argument("--out", type=Path, default=_OUT, help="where .txt and .json go")
    options = parser.parse_args()
    rows = []
    for row in _all_rows(options.first, options.seeds, options.draws, options.processes):
        rows.append(row)
        print(row["case"], _cell(row["mean"]), flush=True)
    command = f"python -m studies.duration_model --seeds {options.seeds} --first {options.first}"
    command += f" --draws {options.draws}"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".txt").write_text(f"{command}\n\n{table(rows)}\n", encoding="utf-8")
    document = {"command": command, "first_seed": options.first, "rows": rows}
    options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
