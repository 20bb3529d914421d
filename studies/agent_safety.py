"""The agent against the rules that it adapts: machines, streams and seeds that it was not trained on.

    python -m studies.agent_safety                     200 random cells, and all cases; 20 minutes on two cores
    python -m studies.agent_safety --traces FOLDER     also windows of the Alibaba and Azure traces
    python -m studies.agent_safety --cells 20 --seeds 1 --only mixed       a quick look

Result: docs/results/learning/agent.txt and .json. Ratios of mean latency, p99 and p99.9 on the same 2,000 tasks:
`known` is rl_agent(known=True) over late_binding, both told the durations; `learned` is rl_agent over
hybrid_ml(binding=late), both told nothing. Cells are random machines of 1 to 16 GPUs with random streams, at loads
from 0.6 on, from a random stream of their own; their ratios are geometric means. `decided` is the share of tasks
that started under coefficients other than those of late binding. `differ` is the share whose device or share (by
0.01 and more) is another one than late binding would choose in the same situation. Intervals are 95 % t-intervals.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.cluster.queue_planner import WaitingTask
from hybrid_scheduler.core import Floats, Scheduler, Setting, Workload, workstation
from hybrid_scheduler.core.platform import platform_named
from hybrid_scheduler.learning.agent.model_file import SHIPPED_MODEL, load_model
from hybrid_scheduler.learning.agent.random_cells import draw_cell
from hybrid_scheduler.learning.agent.training import CHECK
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.physics.capacity import capacity
from hybrid_scheduler.schedulers import LateBinding, create
from hybrid_scheduler.schedulers.rl_agent import AGENT, KnownAgent
from hybrid_scheduler.workload.distributions import BoundedPareto
from hybrid_scheduler.workload.scenarios import generate, scenario_named
from hybrid_scheduler.workload.trace_formats import import_trace

from .learning_cases import RANDOM_PLATFORMS, TASKS, Case, cases, hard_cases

_PAIRS = {"known": ("rl_agent(known=True)", "late_binding"), "learned": ("rl_agent", "hybrid_ml(binding=late)")}
_FIGURES = ("mean", "p99", "p99.9")
_FIRST_SEED = 3000
#: First cell and seed of the check: training has checked itself on the cells before.
_FIRST_CELL = 50_000
_CELL_SEED = 9_000_000
_LEAST_LOAD, _HIGH_LOAD = 0.6, 0.85
#: Every how many cells are compared decision by decision, which takes longest.
_COMPARED_EVERY = 5
_OUT = Path("docs/results/learning/agent")
#: Trace files below the folder of traces, and the load at which their windows are replayed.
_TRACES = {
    "Alibaba": "alibaba_gpu_2023/openb_pod_list_default.csv",
    "Azure": "azure_llm_2023/AzureLLMInferenceTrace_code.csv",
}
_TRACE_LOADS = (0.7, 0.9)


def _laptop_case(load: float) -> Case:
    def make(seed: int) -> tuple[Cluster, Workload]:
        laptop = platform_named("laptop")
        return Cluster(laptop), generate(scenario_named("mixed"), TASKS, seed, platform=laptop, utilisation=load)

    return Case(f"laptop, mixed at {load}", "laptop", make)


def _heavy_case(load: float) -> Case:
    scenario = replace(scenario_named("mixed"), name="pareto-1.2", size=BoundedPareto(1.2, 400.0, 30_000.0))

    def make(seed: int) -> tuple[Cluster, Workload]:
        return Cluster(), generate(scenario, TASKS, seed, utilisation=load)

    return Case(f"Pareto 1.2 at {load}", "sizes", make)


def _bimodal_case(load: float) -> Case:
    """Nine of ten tasks are small, one is large."""

    def draw(count: int, seed: int) -> Workload:
        workload = generate(scenario_named("mixed"), count, seed, batch=True)
        rng = np.random.default_rng([seed, 9])
        size = np.where(rng.random(count) < 0.9, rng.uniform(100.0, 500.0, count), rng.uniform(5e3, 1e4, count))
        return Workload(
            task_id=workload.task_id, size=size, compute_intensity=workload.compute_intensity,
            memory_required=workload.memory_required, arrival_time=workload.arrival_time,
        )  # fmt: skip

    def make(seed: int) -> tuple[Cluster, Workload]:
        return Cluster(), _at_load(
            draw(TASKS, seed), load, np.random.default_rng([seed, 6]).exponential(size=TASKS)
        )

    return Case(f"bimodal at {load}", "sizes", make)


def _at_load(workload: Workload, load: float, gaps: Any) -> Workload:
    """Return the tasks with gaps in these proportions, so that they arrive at a share of the machine's capacity."""
    rate = load * capacity(workload, workstation(), AnalyticPhysics())
    return Workload(
        task_id=np.arange(len(workload)), size=workload.size, compute_intensity=workload.compute_intensity,
        memory_required=workload.memory_required, arrival_time=np.cumsum(gaps / gaps.mean() / rate),
    )  # fmt: skip


@lru_cache(maxsize=4)
def _trace(path: Path) -> Workload:
    return import_trace(path, skip_bad=True)[0]


def _trace_case(name: str, path: Path, load: float) -> Case:
    """Windows of a trace, one for each seed, sped up or slowed down to the load."""

    def make(seed: int) -> tuple[Cluster, Workload]:
        trace = _trace(path)
        count = min(TASKS, len(trace))
        begin = int(np.random.default_rng([seed, 10]).integers(0, len(trace) - count + 1))
        rows = trace.rows(begin, begin + count)
        return Cluster(), _at_load(rows, load, np.diff(rows.arrival_time, prepend=rows.arrival_time[0]) + 1e-9)

    return Case(f"{name} at {load}", "traces", make)


def all_cases(traces: Path | None = None) -> list[Case]:
    """Return the cases whose objective is latency."""
    rows = [case for case in cases() if not case.name.startswith("laptop")]
    rows = [case for case in rows if case.group != RANDOM_PLATFORMS] + [
        *(_laptop_case(load) for load in (0.5, 0.7, 0.9, 0.98)),
        *(_heavy_case(load) for load in (0.7, 0.9)),
        *(_bimodal_case(load) for load in (0.7, 0.9)),
        *(
            _trace_case(name, traces / file, load)
            for name, file in _TRACES.items()
            for load in _TRACE_LOADS
            if traces is not None
        ),
        *(case for case in rows if case.group == RANDOM_PLATFORMS),
    ]
    return rows


# ------------------------------------------------------------------------------------------ measuring


class _Compared(KnownAgent):
    """The agent that also asks, at each start, what late binding would have chosen in the same situation."""

    compiled_loop = None  # type: ignore[assignment]

    def start(self, setting: Setting) -> None:
        super().start(setting)
        self.rule = LateBinding()
        self.rule.start(setting)
        self.starts_of: list[bool] = []

    def plan(
        self, entry: WaitingTask, now: float, planned: Floats, behind: float
    ) -> tuple[int, float, bool, float]:
        """Plan by the agent, and by the rule with copies of all that it would change."""
        arrays = self.queue_arrays
        own = self.rule.queue_arrays
        for name in ("prices", "totals", "classes"):
            getattr(own, name)[:] = getattr(arrays, name)
        other = self.rule.plan(entry, now, planned.copy(), behind)
        found = super().plan(entry, now, planned, behind)
        if found[2]:
            same = found[0] == other[0] and abs(found[1] - other[1]) < 0.01 and other[2]
            self.starts_of.append(not same)
        return found


def _latency(cluster: Cluster, workload: Workload, scheduler: Scheduler, seed: int) -> Floats:
    latency = cluster.run(workload, scheduler, seed=seed).outcomes.latency
    return np.array([latency.mean(), *np.quantile(latency, (0.99, 0.999))])


def _pair(
    cluster: Cluster, workload: Workload, seed: int, pairs: Iterable[str] = _PAIRS
) -> tuple[dict[str, Floats], float]:
    """Return the ratios of pairs on one workload, and the share of decisions that the agent made."""
    ratios = {}
    decided = 0.0
    for name in pairs:
        agent, rule = _PAIRS[name]
        scheduler = create(agent)
        ratios[name] = _latency(cluster, workload, scheduler, seed) / _latency(
            cluster, workload, create(rule), seed
        )
        counts = scheduler.decision_counts()
        decided = counts.get(AGENT, 0) / len(workload) if counts else decided
    return ratios, decided


def measure_cell(number: int, *, known_only: bool = False) -> dict[str, Any] | None:
    """Return the ratios of one random cell, and for some cells the share of decisions that differ from the rule.

    None for a cell at a low load.
    """
    cell = draw_cell(CHECK, number)
    if cell.load < _LEAST_LOAD:
        return None
    cluster = Cluster(cell.platform, cell.physics)
    workload = cell.workload(_CELL_SEED + number)
    ratios, decided = _pair(cluster, workload, number, ["known"] if known_only else _PAIRS)
    row: dict[str, Any] = {
        "cell": number, "scenario": cell.scenario.name, "gpus": len(cell.platform) - 1, "load": cell.load,
        "decided": decided,
    }  # fmt: skip
    if number % _COMPARED_EVERY == 0 and not known_only:
        compared = _Compared(load_model(SHIPPED_MODEL).policy.numbers)
        cluster.run(workload.rows(0, 300), compared)
        row["differ"] = float(np.mean(compared.starts_of))
    return row | {name: values.tolist() for name, values in ratios.items()}


def measure(name: str, first: int, seeds: int, traces: Path | None) -> dict[str, Any]:
    """Return the ratios of a case on paired seeds."""
    case = next(case for case in [*all_cases(traces), *hard_cases()] if case.name == name)
    found: dict[str, list[Floats]] = {name: [] for name in _PAIRS}
    shares = []
    for seed in range(first, first + seeds):
        ratios, decided = _pair(*case.make(seed), seed)
        shares.append(decided)
        for pair, values in ratios.items():
            found[pair].append(values)
    row: dict[str, Any] = {"case": name, "group": case.group, "seeds": seeds, "decided": float(np.mean(shares))}
    for pair, rows in found.items():
        table = np.array(rows)
        half = t_half_width(table[:, 0]) if seeds > 1 else float("nan")
        row[pair] = {
            **{figure: float(table[:, k].mean()) for k, figure in enumerate(_FIGURES)}, "half": float(half),
            "worst": float(table[:, 0].max()),
        }  # fmt: skip
    return row


# ------------------------------------------------------------------------------------------ tables


def cell_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the figures of the random cells as lines of text."""
    groups: dict[str, Callable[[dict[str, Any]], bool]] = {
        "all": lambda row: True,
        f"load of at least {_HIGH_LOAD}": lambda row: row["load"] >= _HIGH_LOAD,
        "without tasks beyond the memory": lambda row: row["scenario"] != "oom",
    }
    lines = [f"{'random cells':<46}{'cells':>6}{'mean':>16}{'p99':>8}{'p99.9':>8}{'worst':>8}{'above 1.01':>12}"]
    for pair in _PAIRS:
        for title, belongs in groups.items():
            ratios = [row[pair] for row in rows if pair in row and belongs(row)]
            if len(ratios) < 2:
                continue
            table = np.log(ratios)
            mean = np.exp(table.mean(axis=0))
            half = float(mean[0] * t_half_width(table[:, 0]))
            above = (table[:, 0] > np.log(1.01)).mean()
            tails = f"{mean[1]:>8.3f}{mean[2]:>8.3f}{np.exp(table[:, 0].max()):>8.3f}{above:>12.1%}"
            lines.append(f"{pair + ', ' + title:<46}{len(table):>6}{mean[0]:>8.3f} ± {half:.3f}{tails}")
    compared = [row["differ"] for row in rows if "differ" in row]
    if not compared:
        return lines
    decided = np.mean([row["decided"] for row in rows])
    differ = np.mean(compared)
    lines.append(f"decisions under the agent's coefficients {decided:.1%}; other device or share than the rule's "
                 f"{differ:.1%}")  # fmt: skip
    return lines


def case_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the figures of the cases as lines of text."""
    title = "".join(f"{pair:>16}{'p99':>8}{'p99.9':>8}{'worst':>8}" for pair in _PAIRS)
    lines = [f"{'case':<46}{title}{'decided':>9}"]
    for row in rows:
        cells = ""
        for pair in _PAIRS:
            own = row[pair]
            cells += f"{own['mean']:>8.3f} ± {own['half']:.3f}{own['p99']:>8.3f}{own['p99.9']:>8.3f}"
            cells += f"{own['worst']:>8.3f}"
        lines.append(f"{row['case']:<46}{cells}{row['decided']:>9.0%}")
    for pair in _PAIRS:
        means = np.array([row[pair]["mean"] for row in rows])
        tails = np.array([row[pair]["p99"] for row in rows])
        lines.append(
            f"{pair}, {len(rows)} cases: mean at most {means.max():.3f}, above 1.01 in {(means > 1.01).sum()}; "
            f"p99 at most {tails.max():.3f}, above 1.03 in {(tails > 1.03).sum()}"
        )
    return lines


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", action="store_true", help="only known durations in the random cells, no cases")
    parser.add_argument("--cells", type=int, default=200, help="random cells")
    parser.add_argument("--seeds", type=int, default=10, help="paired seeds of each case")
    parser.add_argument("--first", type=int, default=_FIRST_SEED, help="first seed")
    parser.add_argument("--traces", type=Path, help="folder with the Alibaba and Azure traces")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--out", type=Path, default=_OUT, help="where .txt and .json go")
    options = parser.parse_args()
    chosen = [case.name for case in [*all_cases(options.traces), *hard_cases()] if options.only in case.name]
    chosen = [name for name in chosen if not name.startswith("random ")]
    measure_cell(_FIRST_CELL, known_only=options.known)  # compiles here, so that the processes need not
    with ProcessPoolExecutor(options.jobs) as pool:
        numbers = range(_FIRST_CELL, _FIRST_CELL + 4 * options.cells // 3)
        drawn = pool.map(partial(measure_cell, known_only=options.known), numbers)
        cells = [row for row in drawn if row is not None]
        _write(options, cells, [])
        if options.known:
            return
        arguments = zip(*((name, options.first, options.seeds, options.traces) for name in chosen), strict=True)
        _write(options, cells, list(pool.map(measure, *arguments)))


def _write(options: argparse.Namespace, cells: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    """Write and print the tables, first without the cases, which take longer."""
    command = f"python -m studies.agent_safety --cells {options.cells}"
    command += " --known" if options.known else f" --seeds {options.seeds}"
    command += f' --only "{options.only}"' if options.only else ""
    text = "\n".join([command, "", *cell_table(cells), "", *(case_table(rows) if rows else ()), ""])
    print(text, flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".txt").write_text(text, encoding="utf-8")
    document = {"command": command, "first_seed": options.first, "cells": cells, "cases": rows}
    options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
