"""Late binding against rules that decide at arrival, and against the lower bound on the mean latency.

    python -m studies.late_binding                            all cases, 20 seeds, some minutes on one core
    python -m studies.late_binding --traces FOLDER            also windows of the Alibaba and Azure traces
    python -m studies.late_binding --tune                     search of the coefficients, half an hour on one core
    python -m studies.late_binding --losses                   where learning costs most, and when; some minutes

Result: docs/results/late_binding.txt and .json. Every case runs on paired seeds. `mean` and `p99` are ratios to
`earliest_finish` on the same tasks, `÷ index` the same to `price_index`, `÷ bound` is the mean latency over
`mean_latency_bound`. `learned` is `hybrid_ml(binding=late)` with the shipped prior: over `late_binding`, which
knows durations, and over `hybrid_ml`, which decides at arrival. `worst` is the largest latency of a run. ± is the
95 % t-interval over seeds. The frontier shows the mean and the tail for several boosts, and with 0.92 % of the
tasks deferred; "mean alone" is shortest priced work first, and is compared with the bound seed by seed.
Coefficients were tuned with that deferral, on seeds 2000 to 2011 of these and other cases; the search below repeats
that with the cases of `TUNING`.

With `--losses` the result is docs/results/late_binding_losses.txt: the cases in which learned durations cost most,
on 200 seeds from 2000 on. All ratios are to `late_binding`. `first` are the first 200 tasks, `later` the others.
`control` is `late_binding` with another boost: the difference that a small change of the rule makes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster, mean_latency_bound
from hybrid_scheduler.compiled.late_binding import BOOST, COEFFICIENTS
from hybrid_scheduler.core import Floats, Workload
from hybrid_scheduler.core.platform import workstation
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.schedulers import LateBinding, create
from hybrid_scheduler.workload.scenarios import generate, scenario_named

from .agent_safety import all_cases
from .learning_cases import Case

_OUT = Path("docs/results/late_binding")
_FIRST_SEED = 3000
_BOOSTS = (0.0, 0.25, BOOST, 1.0, 2.0, 4.0, 8.0)
#: Boost of shortest priced work first, and the deferral with which the coefficients were tuned.
_MEAN_ALONE, _ALONE_BOOST = "mean alone", 1000.0
_SOME_DEFERRED, _TUNED_DEFERRED = "0.92% deferred", 0.0092
_FIGURES = ("mean", "p99", "p999", "worst")
_FRONTIER = ("mixed at 0.7", "mixed at 0.95", "mixed at 0.95, 10,000 tasks")
#: Names of the cases, and for each whether 10,000 tasks are run as well.
CASES = (
    "mixed at 0.5", "mixed at 0.7", "mixed at 0.95", "transfer at 0.85", "pareto at 0.9", "Pareto 1.2 at 0.9",
    "bimodal at 0.9", "bursty at 0.9", "laptop, mixed at 0.9", "mixed-gpus, mixed at 0.9", "1+8 unequal at 0.9",
    "8 kinds at 0.9", "Alibaba at 0.9", "Azure at 0.9", "small at 0.7", "mixed-gpus, mixed at 0.7",
    "noise 30 % at 0.9", "cliff at 0.9", "parts cost 40% at 0.9",
)  # fmt: skip
_LONG = ("mixed at 0.7", "mixed at 0.95")
_LONG_TASKS = 10_000


def _stream(scenario: str, load: float, tasks: int = 2000) -> Case:
    def make(seed: int) -> tuple[Cluster, Workload]:
        return Cluster(), generate(scenario_named(scenario), tasks, seed, platform=workstation(), utilisation=load)

    words = "" if tasks == 2000 else f", {tasks:,} tasks"
    return Case(f"{scenario} at {load}{words}", "streams", make)


def study_cases(traces: Path | None) -> list[Case]:
    """Return the cases in the order of the table."""
    known = {case.name: case for case in all_cases(traces)}
    known |= {case.name: case for case in (_stream("bursty", 0.9), _stream("pareto", 0.9))}
    rows = [known[name] for name in CASES if name in known]
    for name in _LONG:
        scenario, load = name.split(" at ")
        rows.append(_stream(scenario, float(load), _LONG_TASKS))
    return rows


# ------------------------------------------------------------------------------------------ the table


def _figures(cluster: Cluster, workload: Workload, scheduler: str | LateBinding) -> Floats:
    latency = cluster.run(workload, create(scheduler) if isinstance(scheduler, str) else scheduler).outcomes.latency
    return np.array([latency.mean(), *np.quantile(latency, (0.99, 0.999)), latency.max()])


def measure(name: str, first: int, seeds: int, traces: Path | None, *, bounded: bool = True) -> dict[str, Any]:
    """Return the row of one case, with the frontier where it has one."""
    case = next(case for case in study_cases(traces) if case.name == name)
    rules = {str(boost): (boost, 0.0) for boost in (_BOOSTS if name in _FRONTIER else (BOOST,))}
    if name in _FRONTIER:
        rules[_SOME_DEFERRED] = (BOOST, _TUNED_DEFERRED)
        rules[_MEAN_ALONE] = (_ALONE_BOOST, 0.0)
    found: dict[str, list[Floats]] = {rule: [] for rule in rules}
    index, bounds, learned, early = [], [], [], []
    for seed in range(first, first + seeds):
        cluster, workload = case.make(seed)
        reference = _figures(cluster, workload, "earliest_finish")
        index.append(_figures(cluster, workload, "price_index") / reference)
        for rule, order in rules.items():
            found[rule].append(_figures(cluster, workload, LateBinding(*order)) / reference)
        learned.append(_figures(cluster, workload, "hybrid_ml(binding=late)") / reference)
        early.append(_figures(cluster, workload, "hybrid_ml") / reference)
        if bounded:
            bounds.append(mean_latency_bound(workload, cluster.platform, cluster.physics) / reference[0])
    late = np.array(found[str(BOOST)])
    row: dict[str, Any] = {"case": name, "seeds": seeds}
    at_arrival = np.array(index)
    ratios = {
        "": late,
        "_over_index": late / at_arrival,
        "_of_index": at_arrival,
        "_learned_over_known": np.array(learned) / late,
        "_learned_over_early": np.array(learned) / np.array(early),
    }
    columns = {
        figure + suffix: values[:, number]
        for suffix, values in ratios.items()
        for number, figure in enumerate(_FIGURES)
    }
    if bounded:
        columns |= {"over_bound": late[:, 0] / bounds, "index_over_bound": at_arrival[:, 0] / bounds}
    for key, values in columns.items():
        row[key] = [round(float(values.mean()), 4), round(float(t_half_width(values)), 4) if seeds > 1 else None]
    row["frontier"] = {
        rule: np.mean(rows, axis=0).round(4).tolist() for rule, rows in found.items() if len(found) > 1
    }
    if bounded and name in _FRONTIER:
        alone = np.array(found[_MEAN_ALONE])[:, 0]
        row["by_seed"] = {"lower bound": np.round(bounds, 4).tolist(), _MEAN_ALONE: alone.round(4).tolist()}
    return row


def _cell(value: list[float | None] | None) -> str:
    if value is None:
        return "–"
    mean, half = value
    return f"{mean:.3f}" + ("" if half is None else f" ± {half:.3f}")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows and the frontiers as text."""
    bound = {"over_bound": "mean ÷ bound", "index_over_bound": "index ÷ bound"}
    lines = [
        *_part(rows, "", _headers("", "") | _headers("_over_index", " ÷ index") | bound),
        "",
        *_part(rows, "learned, ", _headers("_learned_over_known", " ÷ known")),
        "",
        *_part(rows, "learned, ", _headers("_learned_over_early", " ÷ arrival")),
    ]
    for row in rows:
        if row["frontier"]:
            lines += ["", f"{row['case']}: boost, then mean, p99, p99.9 and worst over earliest_finish"]
            lines += [
                f"{rule:>14}" + "".join(f"{v:7.3f}" for v in figures) for rule, figures in row["frontier"].items()
            ]
        for rule, means in row.get("by_seed", {}).items():
            lines += [f"{row['case']}: {rule}, mean over earliest_finish {np.mean(means):.3f}, by seed:"]
            lines += [" " * 6 + "".join(f"{v:7.3f}" for v in means[i : i + 10]) for i in range(0, len(means), 10)]
    return "\n".join(lines)


def _headers(suffix: str, words: str) -> dict[str, str]:
    """Return the headers of mean, tail and worst, by their keys in a row."""
    return {figure + suffix: figure.replace("p999", "p99.9") + words for figure in _FIGURES}


def _part(rows: list[dict[str, Any]], prefix: str, keys: dict[str, str]) -> list[str]:
    lines = [f"{prefix + 'case':<37}" + "".join(f"{name:>17}" for name in keys.values())]
    return lines + [f"{prefix + r['case']:<37}" + "".join(f"{_cell(r.get(key)):>17}" for key in keys) for r in rows]


# ------------------------------------------------------------------------------------------ tuning

#: Cases and numbers of seeds from 2000 on; the limits are of the ratios to `price_index`: mean and p99.
TUNING = (
    ("mixed at 0.95", 16, 0.67, 1.08),
    ("mixed at 0.95, 10,000 tasks", 3, 0.67, 1.08),
    ("mixed at 0.7", 6, 0.90, 1.02),
    ("transfer at 0.85", 5, 0.97, 0.99),
    ("pareto at 0.9", 6, 0.97, 0.99),
    ("bursty at 0.9", 5, 0.97, 0.99),
    ("laptop, mixed at 0.9", 5, 0.97, 0.99),
    ("1+8 unequal at 0.9", 4, 0.97, 0.99),
    ("bimodal at 0.9", 5, 0.97, 0.99),
    ("Pareto 1.2 at 0.9", 6, 0.97, 0.99),
    ("Alibaba at 0.9", 5, 0.97, 0.99),
    ("Azure at 0.9", 4, 0.97, 0.99),
)
_TUNING_SEED = 2000


def tune(traces: Path | None, generations: int, population: int) -> Floats:
    """Search coefficients and boost that keep the limits of `TUNING`; return the best found."""
    known = {case.name: case for case in study_cases(traces)}
    cases = []
    for name, seeds, mean, p99 in TUNING:
        if name not in known:
            continue
        for seed in range(_TUNING_SEED, _TUNING_SEED + seeds):
            cluster, workload = known[name].make(seed)
            index = _figures(cluster, workload, "price_index")
            cases.append((cluster, workload, index, np.array([mean, p99]), 1.0 / seeds))

    def loss(point: Floats) -> float:
        numbers = np.exp(point)
        total = 0.0
        for cluster, workload, index, limits, weight in cases:
            late = LateBinding(float(numbers[-1]), _TUNED_DEFERRED, tuple(numbers[:-1].tolist()))
            ratios = (_figures(cluster, workload, late) / index)[:2]
            total += weight * (0.2 * np.log(ratios[0]) + 8.0 * np.maximum(0.0, ratios - limits).sum())
        return total

    rng = np.random.default_rng(0)
    centre = np.log([*COEFFICIENTS, BOOST])
    spread, best, best_loss = np.full(len(centre), 0.3), centre, loss(centre)
    for generation in range(generations):
        candidates = centre + spread * rng.standard_normal((population, len(centre)))
        losses = np.array([loss(point) for point in candidates])
        elite = candidates[np.argsort(losses)[: population // 4]]
        centre, spread = elite.mean(axis=0), np.maximum(elite.std(axis=0), 0.02)
        if losses.min() < best_loss:
            best, best_loss = candidates[np.argmin(losses)], float(losses.min())
        print(f"generation {generation + 1:3d}: loss {losses.min():.4f}, best {best_loss:.4f}", flush=True)
    return np.exp(best)


# ------------------------------------------------------------------------------------------ losses

#: Cases in which learned durations cost most, the tasks that are counted as first, and the boost of the control.
LOSSES = ("noise 30 % at 0.9", "pareto at 0.9", "parts cost 40% at 0.9", "cliff at 0.9")
_FIRST_TASKS, _CONTROL_BOOST, _LOSS_SEEDS = 200, 0.5, 200


def losses(name: str, first: int, seeds: int) -> str:
    """Return a line with the ratios of one case to `late_binding`, early and late in the run."""
    case = next(case for case in study_cases(None) if case.name == name)
    ratios = []
    for seed in range(first, first + seeds):
        cluster, workload = case.make(seed)
        known, learned, control = (
            cluster.run(workload, scheduler).outcomes.latency
            for scheduler in (LateBinding(), create("hybrid_ml(binding=late)"), LateBinding(_CONTROL_BOOST))
        )
        parts = (slice(None), slice(_FIRST_TASKS), slice(_FIRST_TASKS, None))
        ratios.append(
            [learned[part].mean() / known[part].mean() for part in parts] + [control.mean() / known.mean()]
        )
    columns = np.array(ratios).T
    cells = [_cell([float(column.mean()), float(t_half_width(column))]) for column in columns]
    ranges = [f"{column.min():.2f} to {column.max():.2f}" for column in columns[[0, 3]]]
    return f"{name:<24}" + "".join(f"{cell:>17}" for cell in (*cells, *ranges))


def _write_losses() -> None:
    names = ("all", "first", "later", "control", "range", "range of control")
    lines = [f"{'case':<24}" + "".join(f"{name:>17}" for name in names)]
    for name in LOSSES:
        lines.append(losses(name, _TUNING_SEED, _LOSS_SEEDS))
        print(lines[-1], flush=True)
    text = "\n".join(["python -m studies.late_binding --losses", "", *lines, ""])
    _OUT.with_name(_OUT.name + "_losses.txt").write_text(text, encoding="utf-8")


def _rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    names = [case.name for case in study_cases(options.traces)]
    arguments = ([options.first] * len(names), [options.seeds] * len(names), [options.traces] * len(names))
    if options.jobs == 1:
        yield from map(measure, names, *arguments)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        yield from pool.map(measure, names, *arguments)


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="paired seeds of each case")
    parser.add_argument("--first", type=int, default=_FIRST_SEED, help="first seed")
    parser.add_argument("--traces", type=Path, help="folder with the Alibaba and Azure traces")
    parser.add_argument("--jobs", type=int, default=1, help="cases that run at once")
    parser.add_argument("--out", type=Path, default=_OUT, help="files to write, without suffix")
    parser.add_argument("--tune", action="store_true", help="search the coefficients instead")
    parser.add_argument("--losses", action="store_true", help="measure when learning costs most instead")
    parser.add_argument("--generations", type=int, default=60, help="of the search")
    options = parser.parse_args()
    if options.tune:
        best = tune(options.traces, options.generations, population=24)
        print("COEFFICIENTS =", tuple(round(float(number), 4) for number in best[:-1]))
        print("BOOST =", round(float(best[-1]), 3))
        return
    if options.losses:
        _write_losses()
        return
    rows = []
    for row in _rows(options):
        rows.append(row)
        print(row["case"], _cell(row["mean"]), _cell(row["p99"]), flush=True)
    command = f"python -m studies.late_binding --seeds {options.seeds} --first {options.first}"
    command += " --traces FOLDER" if options.traces else ""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    setting = f"boost {BOOST}, none deferred, ratios to earliest_finish on the same tasks"
    text = f"{command}\n{setting}\n\n{table(rows)}\n"
    options.out.with_suffix(".txt").write_text(text, encoding="utf-8")
    document = {"command": command, "first_seed": options.first, "rows": rows}
    options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
