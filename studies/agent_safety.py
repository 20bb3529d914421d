"""RL agent against earliest finish: machines, streams and objectives that it was not trained on.

    python -m studies.agent_safety                            20 seeds, about ten minutes on 16 cores (--jobs 16)
    python -m studies.agent_safety --traces FOLDER            also windows of the Alibaba and Azure traces
    python -m studies.agent_safety --first 7000 --out PATH    another block of seeds
    python -m studies.agent_safety --seeds 2 --draws 3        a quick look

Result: docs/results/learning/agent_safety.txt and .json. Every case runs on paired seeds, 2,000 tasks each. The
agent starts with the shipped network and prior, and knows no durations; `earliest_finish` and `price_index` know
them. A ratio is mean latency (or its 99th percentile) over that of `earliest_finish`. For objectives it is the
normalised objective: the weighted sum of mean latency, energy and cost, each divided by its payoff range. "network"
is the share of the seeds at whose end the guard lets the network decide. Intervals are 95 % t-intervals.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.core import Objective, Workload, workstation
from hybrid_scheduler.core.platform import platform_named
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.physics import AnalyticPhysics, Tariff, dollars_per_second, objective_scales
from hybrid_scheduler.physics.capacity import capacity
from hybrid_scheduler.schedulers import create
from hybrid_scheduler.schedulers.rl_agent import POLICIES, RLAgent
from hybrid_scheduler.workload.distributions import BoundedPareto
from hybrid_scheduler.workload.scenarios import generate, scenario_named
from hybrid_scheduler.workload.trace_formats import import_trace

from .learning_cases import RANDOM_PLATFORMS, TASKS, Case, cases

AGENT = "rl_agent"
REFERENCE, RULE = "earliest_finish", "price_index"
_FIRST_SEED = 3000
_OUT = Path("docs/results/learning/agent_safety")
OBJECTIVES = {
    "latency + energy": Objective(0.5, 0.5),
    "latency + cost": Objective(0.5, 0.0, 0.5),
    "thirds": Objective(1.0, 1.0, 1.0),
}
#: Trace files below the folder of traces, and the load at which their windows are replayed.
_TRACES = {
    "Alibaba": "alibaba_gpu_2023/openb_pod_list_default.csv",
    "Azure": "azure_llm_2023/AzureLLMInferenceTrace_code.csv",
}
_TRACE_LOADS = (0.7, 0.9)
#: Cases that are also run with every objective.
_OBJECTIVE_CASES = ("mixed at 0.7", "mixed at 0.95", "mixed-gpus, mixed at 0.7", "1+8 unequal at 0.9")


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


def _objective_value(objective: Objective) -> Callable[[Cluster, Any], float]:
    def value(cluster: Cluster, result: Any) -> float:
        workload, platform = result.outcomes.workload, cluster.platform
        table = cluster.physics.times(workload, platform)
        dollars = dollars_per_second(platform, Tariff())
        scales = objective_scales(table, cluster.physics.columns(platform), platform, dollars)
        return float(
            objective.latency * result.outcomes.latency.mean() / scales.seconds
            + objective.energy * result.energy_and_cost.energy.mean() / scales.joules
            + objective.cost * result.energy_and_cost.cost.mean() / scales.dollars
        )

    return value


def measure(case: Case, first: int, seeds: int, goal: str | None = None, spec: str = AGENT) -> dict[str, Any]:
    """Return the ratios of one case, for latency or for one of `OBJECTIVES`."""
    objective = OBJECTIVES[goal] if goal else None
    mean = _objective_value(objective) if objective else lambda _, result: float(result.outcomes.latency.mean())
    ratios, network, cpu_seconds, tasks = [], [], 0.0, 0
    for seed in range(first, first + seeds):
        cluster, workload = case.make(seed)
        known = {name: cluster.run(workload, create(name), objective=objective) for name in (REFERENCE, RULE)}
        agent = create(spec)
        if seed == first:  # compile, or load what was compiled before, outside the measured time
            cluster.run(workload.rows(0, 300), agent, objective=objective)
        begin = time.process_time()
        result = cluster.run(workload, agent, objective=objective, seed=seed)
        cpu_seconds += time.process_time() - begin
        tasks += len(workload)
        tail, least_tail, rule_tail = (
            float(np.quantile(one.outcomes.latency, 0.99)) for one in (result, known[REFERENCE], known[RULE])
        )
        least = mean(cluster, known[REFERENCE])
        ratios.append(
            (mean(cluster, result) / least, tail / least_tail, mean(cluster, known[RULE]) / least,
             rule_tail / least_tail)
        )  # fmt: skip
        acting = agent.guard_.active if isinstance(agent, RLAgent) else None
        network.append(acting is not None and POLICIES[acting] == "network")
    columns = dict(zip(("mean", "p99", "rule", "rule_p99"), np.array(ratios).T, strict=True))
    row: dict[str, Any] = {
        "case": f"{case.name}, {goal}" if goal else case.name,
        "group": case.group,
        "seeds": seeds,
    }
    for name, values in columns.items():
        half = float(t_half_width(values)) if seeds > 1 else None
        row[name] = {"ratio": float(values.mean()), "half": half, "worst": float(values.max())}
    return row | {"network": float(np.mean(network)), "tasks_per_cpu_second": round(tasks / max(cpu_seconds, 1e-9))}


def _cell(number: dict[str, Any]) -> str:
    return f"{number['ratio']:.3f}" + ("" if number["half"] is None else f" ± {number['half']:.3f}")


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['case']:<46}{_cell(row['mean']):>16}{row['mean']['worst']:>8.3f}{_cell(row['p99']):>16}"
        f"{row['rule']['ratio']:>13.3f}{row['rule_p99']['ratio']:>8.3f}{row['network']:>9.0%}"
        f"{row['tasks_per_cpu_second']:>13,}"
    )


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text."""
    lines = [
        f"{'case':<46}{'mean':>16}{'worst':>8}{'p99':>16}{RULE:>13}{'p99':>8}{'network':>9}{'tasks/CPU-s':>13}"
    ]
    lines += [_line(row) for row in rows]
    means, tails = (np.array([row[name]["ratio"] for row in rows]) for name in ("mean", "p99"))
    lines.append(
        f"{len(rows)} rows: mean ratio at most {means.max():.3f}, {(means <= 1.05).sum()} within 1.05; "
        f"p99 ratio at most {tails.max():.3f}, {(tails <= 1.05).sum()} within 1.05"
    )
    return "\n".join(lines)


def _measure_named(
    name: str, goal: str | None, first: int, seeds: int, traces: Path | None, spec: str
) -> dict[str, Any]:
    return measure(next(case for case in all_cases(traces) if case.name == name), first, seeds, goal, spec)


def _all_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    every = all_cases(options.traces)
    draws = [case.name for case in every if case.group == RANDOM_PLATFORMS][: options.draws]
    # Random platforms first: computing the capacity of one takes longest.
    chosen: list[tuple[str, str | None, int]] = [(name, None, 1) for name in draws]
    chosen += [(case.name, None, options.seeds) for case in every if case.group != RANDOM_PLATFORMS]
    chosen += [(name, goal, options.seeds) for goal in OBJECTIVES for name in _OBJECTIVE_CASES]
    chosen = [one for one in chosen if options.only in one[0]]
    arguments = zip(
        *((name, goal, options.first, seeds, options.traces, options.agent) for name, goal, seeds in chosen),
        strict=True,
    )
    if options.jobs == 1:
        yield from map(_measure_named, *arguments)
        return
    measure(every[0], options.first, 1)  # compile once, so that the other processes load what was compiled
    with ProcessPoolExecutor(options.jobs) as pool:
        yield from pool.map(_measure_named, *arguments)


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="paired seeds of each case")
    parser.add_argument("--first", type=int, default=_FIRST_SEED, help="first seed")
    parser.add_argument("--draws", type=int, default=50, help="random platforms, one seed each")
    parser.add_argument("--traces", type=Path, help="folder with the Alibaba and Azure traces")
    parser.add_argument("--jobs", type=int, default=1, help="cases that run at once")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--agent", default=AGENT, help="scheduler to measure, e.g. an ablation")
    parser.add_argument("--out", type=Path, default=_OUT, help="where .txt and .json go")
    options = parser.parse_args()
    rows = []
    for row in _all_rows(options):
        rows.append(row)
        print(_line(row), flush=True)
    command = (
        f"python -m studies.agent_safety --seeds {options.seeds} --first {options.first} --draws {options.draws}"
    )
    command += " --traces FOLDER" if options.traces else ""
    command += "" if options.agent == AGENT else f' --agent "{options.agent}"'
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".txt").write_text(f"{command}\n\n{table(rows)}\n", encoding="utf-8")
    document = {"command": command, "first_seed": options.first, "rows": rows}
    options.out.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
