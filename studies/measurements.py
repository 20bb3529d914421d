"""Measurements behind the results pages: independent jobs, run in parallel and kept as raw JSON.

A job is a function of plain arguments that returns plain values. Finished jobs are written at once, so an
interrupted measurement continues where it stopped. Only the simulator and its learners are needed: no server, no
torch, no drawing.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hybrid_scheduler.core.canonical_json import content_hash, plain_value
from hybrid_scheduler.experiments import FIRST_REPORTED_SEED, run_record
from hybrid_scheduler.experiments.distribution_shift import shift_seed
from hybrid_scheduler.experiments.paired_comparison import PairedComparison, SeedRun, run_seed
from hybrid_scheduler.experiments.spec import ExperimentSpec, model_digests
from hybrid_scheduler.workload.scenarios import scenario_named

from . import book_cases, false_alarms, forest_noise, learned_quality, published_claims
from .worst_case_search import find_worst

RAW = "raw.json"
#: Metrics of a run that the pages use.
METRICS = (
    "mean_latency", "p99_latency", "mean_time", "makespan", "makespan_over_bound", "energy", "cost", "load_balance",
    "cpu_only_share", "mean_regret",
)  # fmt: skip
FOREST_TASKS = 3000
ADVERSARIES = (
    ("earliest_finish", "price_index"),
    ("price_index", "earliest_finish"),
    ("hybrid_ml", "earliest_finish"),
    ("rl_agent", "earliest_finish"),
)
#: Text file of docs/results -> studies whose output it is, one after the other. Each takes minutes on one core.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "prices.txt": (("studies.price_study",),),
    "pareto.txt": (("studies.time_energy_pareto",),),
    "learning/forest_noise.txt": (("studies.forest_noise",),),
    "learning/false_alarms.txt": (("studies.false_alarms",),),
    "evidence/trace_coverage.txt": (
        ("studies.trace_coverage",),
        ("studies.trace_coverage", "--tasks", "20000", "--traces", "100"),
    ),
    "evidence/exact.txt": (("studies.exact_makespan",),),
}
_ORTOOLS = "evidence/exact.txt"


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement; `weight` is its rough cost, so that long jobs begin first."""

    section: str
    key: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    weight: float = 1.0


# ------------------------------------------------------------------------------------------ jobs


def jobs(tasks: int, seeds: Sequence[int]) -> Iterator[Job]:
    """Yield all measurements but the worst cases, which run in parallel themselves."""
    for case in book_cases.cases(tasks) + published_claims.cases(tasks):
        for seed in seeds:
            cost = sum(10.0 if "hybrid_ml" in name or "rl_agent" in name else 0.1 for name in case.spec.schedulers)
            yield Job("cases", f"{case.key}/{seed}", _case, (case.spec, seed), cost * case.spec.tasks / 1000)
    for name, work in published_claims.PER_SEED.items():
        for seed in published_claims.seeds_of(name, seeds):
            yield Job("claims", f"{name}/{seed}", work, (seed, tasks), 10.0)
    for seed in seeds:
        yield Job("shift", str(seed), _shift, (seed,), 40.0)
    for stream in range(len(false_alarms.STREAMS)):
        for seed in seeds[: max(1, len(seeds) // len(false_alarms.STREAMS))]:
            yield Job("alarms", f"{stream}/{seed}", _alarms, (stream, 10 * tasks, seed), 100.0)
    for target in ("times", "fraction"):
        for seed in seeds:
            yield Job("forest", f"{target}/{seed}", _forest, (target, seed), 2.0)
    for index, quality in enumerate(learned_quality.CASES):
        for seed in seeds:
            yield Job("quality", f"{index}/{seed}", _quality, (index, tasks, seed), 0.02 * quality.tasks)
    from examples import measure_schedulers

    for key in measure_schedulers.CASES:
        for seed in measure_schedulers.seeds_of(key, min(5, len(seeds))):
            yield Job("schedulers", f"{key}/{seed}", measure_schedulers.measure_seed, (key, seed, tasks), 30.0)


def commands() -> Iterator[Job]:
    """Yield the studies that print their own table."""
    for name, calls in COMMANDS.items():
        if name == _ORTOOLS and importlib.util.find_spec("ortools") is None:
            continue
        yield Job("texts", name, _printed, (calls,), 200.0)


def _case(spec: ExperimentSpec, seed: int) -> dict[str, dict[str, float | None]]:
    return {name: {metric: row[metric] for metric in METRICS} for name, row in run_seed(spec, seed).metrics.items()}


def _shift(seed: int) -> dict[str, Any]:
    return {name: asdict(one) for name, one in shift_seed(seed).items()}


def _alarms(stream: int, tasks: int, seed: int) -> int:
    return false_alarms.alarms(*false_alarms.STREAMS[stream], tasks, seed)


def _forest(target: str, seed: int) -> list[float]:
    found: list[float] = forest_noise.figures(target, 0.0, FOREST_TASKS, seed).tolist()
    return found


def _quality(index: int, tasks: int, seed: int) -> dict[str, list[float]]:
    case = learned_quality.CASES[index]
    scaled = learned_quality.QualityCase(
        case.scenario, case.utilisation, case.tasks * tasks // 2000, case.schedulers
    )
    return {name: row.tolist() for name, row in learned_quality.figures(scaled, seed).items()}


def _printed(calls: Sequence[Sequence[str]]) -> str:
    return "".join(
        subprocess.run([sys.executable, "-m", *call], capture_output=True, text=True, check=True).stdout
        for call in calls
    )


def _worst(first: str, second: str, processes: int, evaluations: int, seeds: int) -> dict[str, Any]:
    spec = ExperimentSpec(scenario_named("mixed"), 400, (first, second))
    found = find_worst(spec, evaluations=evaluations, confirmation_seeds=seeds, processes=processes)
    scenario = found.spec.required_scenario
    size: Any = scenario.size
    return {
        "first": first, "second": second, "evaluations": found.evaluations,
        "ratio_in_the_search": found.searched_ratio,
        "ratio": [found.ratio.mean, found.ratio.low, found.ratio.high],
        "scenario": scenario.name, "sizes": [size.low, size.high], "distribution": type(size).__name__,
        "intensity": list(scenario.intensity), "memory": list(scenario.memory),
        "load": scenario.utilisation, "arrivals": scenario.arrivals, "kinds": list(scenario.kinds),
        "platform": found.spec.machine.platform.name, "physics": found.spec.machine.physics.name,
        "noise": found.spec.machine.noise.sigma,
        "launch_overhead": getattr(found.spec.machine.physics, "launch_overhead", 0.0),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ running


class Raw:
    """The raw numbers of a measurement, on disk in one JSON document."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self._path, self.document, self._written = path, document, 0.0

    @classmethod
    def read(cls, path: Path) -> Raw:
        """Read a measurement."""
        return cls(path, json.loads(path.read_text(encoding="utf-8")))

    @property
    def tasks(self) -> int:
        """Tasks per run."""
        tasks: int = self.document["tasks"]
        return tasks

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        seeds: list[int] = self.document["seeds"]
        return seeds

    def section(self, name: str) -> dict[str, Any]:
        """Return a section's results by key; empty if it was not measured."""
        found: dict[str, Any] = self.document["sections"].get(name, {})
        return found

    def by_seed(self, section: str, key: str) -> list[Any]:
        """Return the results of a key, in the order of the seeds."""
        found = self.section(section)
        return [found[f"{key}/{seed}"] for seed in self.seeds if f"{key}/{seed}" in found]

    def comparison(self, case: book_cases.BookCase) -> PairedComparison:
        """Return a comparison as if it had just run."""
        runs = self.by_seed("cases", case.key)
        return PairedComparison(
            case.spec, tuple(SeedRun(s, None, run, {}) for s, run in zip(self.seeds, runs, strict=True))
        )

    def add(self, section: str, key: str, value: Any) -> None:
        """Add a result; written at most every few seconds."""
        self.document["sections"].setdefault(section, {})[key] = plain_value(value)
        if time.monotonic() - self._written > 5.0:
            self.write()

    def write(self) -> None:
        """Write the document, one line per result, with six digits."""
        lines = ["{"]
        head = {key: value for key, value in self.document.items() if key != "sections"}
        lines += [f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}," for key, value in head.items()]
        lines.append('"sections": {')
        sections = sorted(self.document["sections"].items())
        for index, (name, results) in enumerate(sections):
            rows = [
                f"{json.dumps(key)}: {json.dumps(_short(value), ensure_ascii=False)}"
                for key, value in sorted(results.items())
            ]
            lines.append(f"{json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n}" + "," * (index + 1 < len(sections)))
        lines.append("}}")
        part = self._path.with_suffix(".part")
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
        part.replace(self._path)
        self._written = time.monotonic()


def _short(value: Any) -> Any:
    """Return the value with seven significant digits: enough for every table, and small."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list) else value


def measure(
    folder: Path, *, seeds: int, tasks: int, processes: int, only: Sequence[str], report: Callable[[str], None]
) -> None:
    """Run all jobs that `folder` does not have yet, and keep their results there."""
    began = time.perf_counter()
    chosen = range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + seeds)
    folder.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "versions": run_record.versions(), "tasks": tasks, "seeds": list(chosen),
        "models": content_hash(model_digests(["hybrid_ml", "rl_agent"])), "sections": {},
    }  # fmt: skip
    raw = Raw(folder / RAW, document)
    if (folder / RAW).is_file():
        before = Raw.read(folder / RAW)
        same = ("tasks", "seeds", "models")
        if any(before.document[key] != document[key] for key in same):
            raise SystemExit(f"{folder / RAW} has other tasks, seeds or models: choose another folder or delete it")
        raw = before
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by the processes
    wanted = [job for job in [*jobs(tasks, chosen), *commands()] if not only or job.section in only]
    todo = sorted((job for job in wanted if job.key not in raw.section(job.section)), key=lambda job: -job.weight)
    failed: list[str] = []
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(_timed, job): job for job in todo}
        for done, future in enumerate(as_completed(running), 1):
            job = running[future]
            if (error := future.exception()) is not None:
                failed.append(f"{job.section} {job.key}: {error}")
                report(f"FAILED {failed[-1]}")
                continue
            value, seconds = future.result()
            raw.add(job.section, job.key, value)
            report(f"{done} of {len(todo)}: {job.section} {job.key}, {seconds:.1f} CPU s")
    if not only or "adversaries" in only:
        for first, second in ADVERSARIES:
            key = f"{first}:{second}"
            if key not in raw.section("adversaries"):
                report(f"worst case of {first} against {second}")
                evaluations = 96 if tasks >= 1000 else 8
                raw.add("adversaries", key, _worst(first, second, processes, evaluations, min(20, max(4, seeds))))
    raw.write()
    report(f"{folder / RAW}, {time.perf_counter() - began:.0f} s")
    if failed:
        raise SystemExit("\n".join(["these failed, and run again with the same command:", *failed]))


def _timed(job: Job) -> tuple[Any, float]:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    began = time.process_time()
    with threadpool_limits(1):
        value = job.work(*job.arguments)
    return value, time.process_time() - began
