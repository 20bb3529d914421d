"""The agent against the rules that it adapts: machines, streams and seeds that it was not trained on.

    python -m studies.agent_safety --known             200 random cells, 40 seeds each; two minutes on two cores
    python -m studies.agent_safety --grid              13 scenarios, 4 machines, 5 loads, and hard cases, learning
    python -m studies.agent_safety --cases             the cases of other studies; --traces FOLDER for traces
    python -m studies.agent_safety --known --also linear=FILE     policies to compare with, as ablations

Result: docs/results/learning/agent.txt, agent_grid.txt and agent_cases.txt, with .json. Ratios of mean latency, p99
and p99.9 on the same 2,000 tasks: `known` is rl_agent(known=True) over late_binding, both told the durations;
`learned` is rl_agent over hybrid_ml(binding=late), both told nothing. Cells are random machines of 1 to 16 GPUs
with random streams, at loads from 0.6 on, from a random stream of their own; their ratios are geometric means over
seeds and cells, and a cell is above 1.01 by the mean over its seeds. In the grid, `rules` is rl_agent over the
better of late_binding and price_index, which know durations; hard cases are compared with the better of price_index
and min_completion, as in `studies.duration_model`. The better rule has the lower geometric mean over the seeds of a
case. `decided` is the share of tasks that started under coefficients other than those of late binding. Intervals
are 95 % t-intervals.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.core import Floats, Platform, Scheduler, Workload, workstation
from hybrid_scheduler.core.platform import platform_named
from hybrid_scheduler.learning.agent.model_file import SHIPPED_MODEL, load_model
from hybrid_scheduler.learning.agent.random_cells import CHECK, draw_cell
from hybrid_scheduler.learning.agent.training import HIGH_LOAD, ratios
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.physics.capacity import capacity
from hybrid_scheduler.schedulers import create
from hybrid_scheduler.schedulers.rl_agent import AGENT, KnownAgent
from hybrid_scheduler.workload.distributions import BoundedPareto
from hybrid_scheduler.workload.scenarios import SCENARIOS, generate, scenario_named
from hybrid_scheduler.workload.trace_formats import import_trace

from .learning_cases import RANDOM_PLATFORMS, TASKS, Case, cases, hard_cases, unequal_gpus

#: Parts of the study with the names of their files.
_PARTS = {"known": "agent", "grid": "agent_grid", "cases": "agent_cases"}
_ADAPTED = "hybrid_ml(binding=late)"
_RATIOS = ("learned", "rules")
_FIGURES = ("mean", "p99", "p99.9")
_FIRST_SEED = 3000
#: First cell and seed of the check: training and selection draw from other random streams. The shares of the two
#: policies that are mixed were chosen on cells from 50,000 on.
_FIRST_CELL = 60_000
_CELL_SEED = 9_000_000
_LEAST_LOAD = 0.6
_LOADS = (0.1, 0.5, 0.7, 0.9, 0.95)
_BUSY = 0.7
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


def _latency(cluster: Cluster, workload: Workload, scheduler: Scheduler, seed: int) -> Floats:
    latency = cluster.run(workload, scheduler, seed=seed).outcomes.latency
    return np.log([latency.mean(), *np.quantile(latency, (0.99, 0.999))])


def measure_cell(number: int, seeds: int, policies: dict[str, Floats]) -> dict[str, Any] | None:
    """Return the logarithms of the ratios of policies on one random cell; None for a cell at a low load."""
    cell = draw_cell(CHECK, number)
    if cell.load < _LEAST_LOAD:
        return None
    first = _CELL_SEED + seeds * number
    found = ratios(KnownAgent, cell, range(first, first + seeds), list(policies.values()))
    row: dict[str, Any] = {
        "cell": number, "scenario": cell.scenario.name, "gpus": len(cell.platform) - 1, "load": cell.load,
    }  # fmt: skip
    return row | {name: found[:, k].mean(axis=0).round(5).tolist() for k, name in enumerate(policies)}


def measure(case: Case, first: int, seeds: int, rules: tuple[str, ...]) -> dict[str, Any]:
    """Return the ratios of a case on paired seeds: to the rule that the agent adapts, and to the better of some."""
    specs = ("rl_agent", _ADAPTED, *rules)
    found = []
    shares = []
    for seed in range(first, first + seeds):
        cluster, workload = case.make(seed)
        schedulers = [create(spec) for spec in specs]
        found.append([_latency(cluster, workload, scheduler, seed) for scheduler in schedulers])
        shares.append(schedulers[0].decision_counts().get(AGENT, 0) / len(workload))
    table = np.array(found)
    row: dict[str, Any] = {
        "case": case.name,
        "group": case.group,
        "seeds": seeds,
        "decided": float(np.mean(shares)),
    }
    others = {"learned": 1, "rules": 2 + int(np.argmin(table[:, 2:, 0].mean(axis=0)))}
    for name, other in others.items():
        logs = table[:, 0] - table[:, other]
        half = t_half_width(logs[:, 0]) if seeds > 1 else float("nan")
        means = np.exp(logs.mean(axis=0))
        row[name] = {
            "rule": specs[other], **dict(zip(_FIGURES, means.round(5).tolist(), strict=True)),
            "half": round(float(means[0] * half), 5), "worst": round(float(np.exp(logs[:, 0].max())), 5),
        }  # fmt: skip
    return row


def _grid_case(scenario: str, platform: Platform, load: float) -> Case:
    def make(seed: int) -> tuple[Cluster, Workload]:
        return Cluster(platform), generate(
            scenario_named(scenario), TASKS, seed, platform=platform, utilisation=load
        )

    return Case(f"{platform.name}, {scenario} at {load}", "grid", make)


def grid() -> list[Case]:
    """Return every built-in scenario on four machines at five loads."""
    machines = [*(platform_named(name) for name in ("workstation", "laptop", "mixed-gpus")), unequal_gpus()]
    return [_grid_case(name, machine, load) for machine in machines for name in SCENARIOS for load in _LOADS]


def _measure_named(part: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    case = next(case for case in _cases_of(part, options) if case.name == name)
    rules = ("price_index", "min_completion") if case.group == "hard" else ("late_binding", "price_index")
    return measure(case, options.first, options.seeds, rules)


def _cases_of(part: str, options: argparse.Namespace) -> list[Case]:
    rows = [*grid(), *hard_cases()] if part == "grid" else all_cases(options.traces)
    return [row for row in rows if options.only in row.name and row.group != RANDOM_PLATFORMS]


# ------------------------------------------------------------------------------------------ tables


def cell_table(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return the figures of the random cells as lines of text."""
    groups: dict[str, Callable[[dict[str, Any]], bool]] = {
        "all": lambda row: True,
        f"load of at least {HIGH_LOAD}": lambda row: row["load"] >= HIGH_LOAD,
        "without tasks beyond the memory": lambda row: row["scenario"] != "oom",
    }
    lines = [f"{'random cells':<46}{'cells':>6}{'mean':>16}{'p99':>8}{'p99.9':>8}{'worst':>8}{'above 1.01':>12}"]
    for name in names:
        for title, belongs in groups.items():
            table = np.array([row[name] for row in rows if belongs(row)])
            if len(table) < 2:
                continue
            mean = np.exp(table.mean(axis=0))
            half = float(mean[0] * t_half_width(table[:, 0]))
            above = (table[:, 0] > np.log(1.01)).mean()
            tails = f"{mean[1]:>8.3f}{mean[2]:>8.3f}{np.exp(table[:, 0].max()):>8.3f}{above:>12.1%}"
            lines.append(f"{name + ', ' + title:<46}{len(table):>6}{mean[0]:>8.3f} ± {half:.3f}{tails}")
    return lines


def case_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the figures of the cases as lines of text."""
    title = "".join(f"{name:>16}{'p99':>8}{'p99.9':>8}{'worst':>8}" for name in _RATIOS)
    lines = [f"{'case':<46}{title}{'decided':>9}"]
    for row in rows:
        cells = ""
        for name in _RATIOS:
            own = row[name]
            cells += f"{own['mean']:>8.3f} ± {own['half']:.3f}{own['p99']:>8.3f}{own['p99.9']:>8.3f}"
            cells += f"{own['worst']:>8.3f}"
        lines.append(f"{row['case']:<46}{cells}{row['decided']:>9.0%}")
    groups: dict[str, Callable[[dict[str, Any]], bool]] = {
        "all": lambda row: row["group"] != "hard",
        f"loads from {_BUSY} on": lambda row: row["group"] != "hard" and _load_of(row) >= _BUSY,
    }
    lines.append("")
    for name in _RATIOS:
        for title, belongs in groups.items():
            own = [row[name] for row in rows if belongs(row)]
            if not own:
                continue
            means, tails = (np.array([cell[figure] for cell in own]) for figure in ("mean", "p99"))
            lines.append(
                f"{name}, {title}: {len(own)} cases, geometric mean {np.exp(np.log(means).mean()):.3f}, "
                f"p99 {np.exp(np.log(tails).mean()):.3f}; "
                f"mean at most {means.max():.3f}, above 1.01 in {(means > 1.01).sum()}; "
                f"p99 at most {tails.max():.3f}, above 1.03 in {(tails > 1.03).sum()}"
            )
    if rows:
        lines.append(f"decided by the agent: {np.mean([row['decided'] for row in rows]):.1%} of all tasks")
    return lines


def _load_of(row: dict[str, Any]) -> float:
    return float(row["case"].rsplit(" at ", 1)[1].split(",")[0])


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_mutually_exclusive_group(required=True)
    for part in _PARTS:
        parts.add_argument(f"--{part}", action="store_const", const=part, dest="part")
    parser.add_argument("--cells", type=int, default=200, help="random cells")
    parser.add_argument("--also", nargs="*", default=[], help="policies to compare with, as NAME=FILE")
    parser.add_argument("--seeds", type=int, default=40, help="paired seeds of each case")
    parser.add_argument("--first", type=int, default=_FIRST_SEED, help="first seed of the cases")
    parser.add_argument("--traces", type=Path, help="folder with the Alibaba and Azure traces")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--out", type=Path, help="where .txt and .json go")
    options = parser.parse_args()
    options.out = options.out or _OUT.with_name(_PARTS[options.part])
    with ProcessPoolExecutor(options.jobs) as pool:
        if options.part == "known":
            files = {"known": SHIPPED_MODEL, **{name: Path(file) for name, file in _pairs(options.also)}}
            policies = {name: load_model(file).policy.numbers for name, file in files.items()}
            measure_cell(_FIRST_CELL + 1, 1, policies)  # compiles here, so that the processes need not
            numbers = range(_FIRST_CELL, _FIRST_CELL + 4 * options.cells // 3)
            drawn = pool.map(partial(measure_cell, seeds=options.seeds, policies=policies), numbers)
            rows = [row for row in drawn if row is not None]
            lines = cell_table(rows, list(policies))
        else:
            create("rl_agent")
            names = [case.name for case in _cases_of(options.part, options)]
            rows = list(pool.map(partial(_measure_named, options.part, options=options), names))
            lines = case_table(rows)
    _write(options, lines, rows)


def _pairs(texts: list[str]) -> Iterator[list[str]]:
    return (text.split("=", 1) for text in texts)


def _write(options: argparse.Namespace, lines: list[str], rows: list[dict[str, Any]]) -> None:
    command = f"python -m studies.agent_safety --{options.part} --seeds {options.seeds}"
    command += f" --cells {options.cells}" if options.part == "known" else ""
    command += f" --also {' '.join(options.also)}" if options.also else ""
    command += f' --only "{options.only}"' if options.only else ""
    text = "\n".join([command, "", *lines, ""])
    print(text, flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".txt").write_text(text, encoding="utf-8")
    document = {"command": command, "first_seed": options.first, "rows": rows}
    options.out.with_suffix(".json").write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
