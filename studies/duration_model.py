"""Hybrid ML against rules that know durations, on machines and kinds of tasks that it has not seen.

    python -m studies.duration_model                            from nothing: all cases, 20 seeds, 15 minutes
    python -m studies.duration_model --learner prior            with the prior that ships with the package
    python -m studies.duration_model --jobs 16                  cases in 16 processes
    python -m studies.duration_model --first 7000 --out PATH    another block of seeds
    python -m studies.duration_model --seeds 2 --draws 5        a quick look
    python -m studies.duration_model --ablations --jobs 16      some cases, with parts of the scheduler left out
    python -m studies.duration_model --hard                     every kind has a speed of its own on every device
    python -m studies.duration_model --hard --only noise        the cases with this word in their names

Result: docs/results/learning/duration_model.txt and .json. Every case runs on paired seeds, 2,000 tasks each; the
learner sees executed parts only. A ratio is its mean (or 99th percentile) latency over that
of the better of `price_index` and `min_completion`, which know durations, on the same tasks. The better one has the
lower mean over all seeds of a case. "Late" leaves out the first 200 tasks. Intervals are 95 % t-intervals.

"Known to 1 %" is `price_index` with durations 1 % off on each class of device. With noise of σ = 1 its mean
ratio is above 1 as well: another placement meets other noise, and the mean of ratios of numbers of one distribution
is above 1. "Of means" is the ratio of the means over all seeds, which has no such bias.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hybrid_scheduler.core import Floats, Ints, Links, Scheduler, Setting, Task, TimeModel, TimeTable, Workload
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.schedulers import HybridML, PriceIndex, create

from .learning_cases import RANDOM_PLATFORMS, Case, cases, hard_cases

#: Variants of the scheduler. "own machine" has run other tasks of the same case before.
LEARNERS = {
    "nothing": "hybrid_ml(model=None)",
    "prior": "hybrid_ml",
    "own machine": "hybrid_ml(model={path!r})",
    "no guard": "hybrid_ml(guard=False)",
    "no prices": "hybrid_ml(prices=False)",
    "late": "hybrid_ml(binding=late)",
    "late from nothing": "hybrid_ml(binding=late, model=None)",
    "published": "random_forest",
    "known to 1 %": "price_index",
}
#: Cases of the ablations.
ABLATED = (
    "mixed at 0.7", "mixed at 0.95", "1+8 unequal at 0.5", "1+8 unequal at 0.9", "4 kinds at 0.5", "4 kinds at 0.9",
    "cliff at 0.9", "noise 30 % at 0.9", "GPUs 3x slower at 0.5", "h200 at 0.7, real features",
    "starpu_sirocco at 0.7, real features",
)  # fmt: skip
#: Variants on the hard cases.
_ON_HARD_CASES = ("nothing", "prior", "late from nothing", "late", "known to 1 %")
#: Added to a seed for the tasks that a learner has seen before, on its own machine.
_EARLIER = 100_000
REFERENCES = ("price_index", "min_completion")
_FIRST_SEED, _LATE = 3000, 200
_OUT = Path("docs/results/learning/duration_model")


class _SlightlyWrong(TimeModel):
    """Durations that are 1 % off on each class of device."""

    def __init__(self, known: TimeModel, seed: int) -> None:
        self.known = known
        self.factor = np.exp(0.01 * np.random.default_rng(seed).standard_normal(int(known.columns.max()) + 1))

    @property
    def columns(self) -> Ints:
        return self.known.columns

    @property
    def links(self) -> Links:
        return self.known.links

    def table(self, workload: Workload) -> TimeTable:
        table: TimeTable = self.known.table(workload) * self.factor[:, None]
        return table

    def row(self, task: Task) -> Floats:
        row: Floats = self.known.row(task) * self.factor[:, None]
        return row


class _NearlyKnown(PriceIndex):
    """`price_index` with durations that are slightly wrong."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def start(self, setting: Setting) -> None:
        assert setting.times is not None
        super().start(replace(setting, times=_SlightlyWrong(setting.times, self.seed)))


def _figures(latency: Floats) -> dict[str, float]:
    return {
        "mean": float(latency.mean()),
        "p99": float(np.quantile(latency, 0.99)),
        "late": float(latency[_LATE:].mean()),
    }


def _learner(variant: str, case: Case, seed: int, folder: str) -> Scheduler:
    """Return a variant of the scheduler for one seed of a case."""
    if variant == "known to 1 %":
        return _NearlyKnown(seed)
    spec = LEARNERS[variant]
    path = str(Path(folder) / "learned.safetensors")
    if "{path" in spec:
        cluster, _ = case.make(seed)
        _, earlier = case.make(seed + _EARLIER)
        teacher = HybridML(model=None)
        cluster.run(earlier, teacher)
        teacher.save_model(path)
    return create(spec.format(path=path))


def measure(name: str, first: int, seeds: int, variant: str = "nothing") -> dict[str, Any]:
    """Return all ratios of one case.

    Parameters
    ----------
    name
        Name of the case.
    first, seeds
        First seed and number of seeds.
    variant
        Key of `LEARNERS`.
    """
    case = next(case for case in (*cases(), *hard_cases()) if case.name == name)
    references: dict[str, list[dict[str, float]]] = {reference: [] for reference in REFERENCES}
    learned: list[dict[str, float]] = []
    cpu_seconds, tasks = 0.0, 0
    with TemporaryDirectory() as folder:
        for seed in range(first, first + seeds):
            cluster, workload = case.make(seed)
            for reference, runs in references.items():
                runs.append(_figures(cluster.run(workload, create(reference)).outcomes.latency))
            learner = _learner(variant, case, seed, folder)
            if seed == first:  # compile, or load what was compiled before, outside the measured time
                cluster.run(workload.rows(0, 1), learner)
            begin = time.process_time()
            latency = cluster.run(workload, learner).outcomes.latency
            cpu_seconds += time.process_time() - begin
            tasks += len(workload)
            learned.append(_figures(latency))
    reference = min(references, key=lambda one: float(np.mean([run["mean"] for run in references[one]])))
    row: dict[str, Any] = {
        "case": case.name, "group": case.group, "learner": variant, "seeds": seeds, "reference": reference,
        "tasks_per_cpu_second": round(tasks / max(cpu_seconds, 1e-9)),
    }  # fmt: skip
    for key in ("mean", "p99", "late"):
        ratios = np.array(
            [run[key] / known[key] for run, known in zip(learned, references[reference], strict=True)]
        )
        half = float(t_half_width(ratios)) if seeds > 1 else None
        of_means = sum(run[key] for run in learned) / sum(run[key] for run in references[reference])
        row[key] = {
            "ratio": float(ratios.mean()), "half": half, "worst": float(ratios.max()), "of_means": of_means
        }  # fmt: skip
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


def ablation_table(rows: list[dict[str, Any]]) -> str:
    """Return the mean ratio of every case and variant as text, with that of the tail below."""
    variants = list(dict.fromkeys(row["learner"] for row in rows))
    lines = [f"{'case':<40}{'ratio':<6}" + "".join(f"{name:>21}" for name in variants)]
    for case in dict.fromkeys(row["case"] for row in rows):
        own = {row["learner"]: row for row in rows if row["case"] == case}
        lines += [
            f"{case:<40}{key:<6}" + "".join(f"{_cell(own[name][key]):>21}" for name in variants)
            for key in ("mean", "p99")
        ]
        of_means = "".join(f"{own[name]['mean']['of_means']:>21.3f}" for name in variants)
        lines.append(f"{case:<40}{'of means':<9}{of_means[3:]}")
    return "\n".join(lines)


def _cell(number: dict[str, float | None]) -> str:
    return f"{number['ratio']:.3f}" + ("" if number["half"] is None else f" ± {number['half']:.3f}")


def _all_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for every case and variant, in order; random platforms have one seed each."""
    every, first, seeds = cases(), options.first, options.seeds
    chosen = [(case.name, first, seeds, options.learner) for case in every if case.group != RANDOM_PLATFORMS]
    draws = [case.name for case in every if case.group == RANDOM_PLATFORMS]
    chosen += [(name, first, 1, options.learner) for name in draws[: options.draws]]
    if options.ablations:
        chosen = [(name, first, seeds, variant) for name in ABLATED for variant in LEARNERS]
    if options.hard:
        chosen = [(case.name, first, seeds, variant) for case in hard_cases() for variant in _ON_HARD_CASES]
    chosen = [one for one in chosen if options.only in one[0]]
    if options.jobs == 1:
        yield from (measure(*one) for one in chosen)
        return
    measure(*chosen[0][:2], 1)  # compiles once; the others load what was compiled
    with ProcessPoolExecutor(options.jobs) as pool:
        yield from pool.map(measure, *zip(*chosen, strict=True))


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="paired seeds of each case")
    parser.add_argument("--first", type=int, default=_FIRST_SEED, help="first seed")
    parser.add_argument("--draws", type=int, default=50, help="random platforms, one seed each")
    parser.add_argument("--learner", choices=LEARNERS, default="nothing", help="variant of the scheduler")
    parser.add_argument("--ablations", action="store_true", help="all variants, on some cases")
    parser.add_argument("--hard", action="store_true", help="some variants, where nothing carries over")
    parser.add_argument("--only", default="", help="cases whose names hold this text")
    parser.add_argument("--jobs", type=int, default=1, help="cases that run at once")
    parser.add_argument("--out", type=Path, help="where .txt and .json go")
    options = parser.parse_args()
    rows = []
    for row in _all_rows(options):
        rows.append(row)
        print(row["case"], row["learner"], _cell(row["mean"]), flush=True)
    command = f"python -m studies.duration_model --seeds {options.seeds} --first {options.first}"
    suffix = "" if options.learner == "nothing" else f"_{options.learner}"
    more, text = f" --draws {options.draws} --learner {options.learner!r}", table(rows)
    for special in ("ablations", "hard"):
        if getattr(options, special):
            suffix, more, text = f"_{special}", f" --{special}", ablation_table(rows)
    if options.only:
        more += f" --only {options.only!r}"
        suffix += f"_{options.only}"
    command += more
    options.out = options.out or _OUT.with_name(_OUT.name + suffix.replace(" ", "_"))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".txt").write_text(f"{command}\n\n{text}\n", encoding="utf-8")
    document = {"command": command, "first_seed": options.first, "rows": rows}
    options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
