"""Heavy simulation: any number of tasks, each scheduler on its own cluster, in constant memory.

Tasks come in chunks; the compiled schedulers go through a chunk together and carry their queues over to the next,
so only the sums, the sketches and one chunk are ever held. That gives the outcomes of one large run, bit for bit.
Schedulers that learn or bind late need the whole workload in memory and are run after the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..cluster import makespan_bound
from ..compiled import FastRule
from ..core import Floats, InvalidInputError, Outcomes, Platform, Workload
from ..core.outcome import CLIPPED, FAILED, MOVED_TO_CPU
from ..metrics import jain_index
from ..metrics.running_statistics import QuantileSketch, RunningMean
from ..physics import EnergyAndCost, Tariff
from ..schedulers import create
from ..workload.scenarios import stream
from .process_pool import cores, in_order
from .spec import ExperimentSpec, single_threaded

_CHUNK = 100_000
#: Most tasks for which the lower bound is computed, and for schedulers that need all tasks at once.
BOUND_UP_TO = 1_000_000
_WHOLE_UP_TO = 5_000_000
#: With fewer tasks starting a process takes longer than it saves.
MIN_TASKS_PER_PROCESS = 5000

#: Numbers of tasks that are summed.
_SUMMED = ("wait", "energy", "cost_rent", "cost_electricity", "cost", "fraction", "cpu_only")
#: Called with (name of the scheduler, tasks done by all schedulers together).
Progress = Callable[[str, int], None]
#: Called with (name of the scheduler, outcomes of its next tasks).
TaskLog = Callable[[str, Outcomes], None]


@dataclass
class SchedulerTotals:
    """Sums over one scheduler's tasks so far."""

    platform: Platform
    tariff: Tariff
    time: QuantileSketch = field(default_factory=QuantileSketch)
    latency: QuantileSketch = field(default_factory=QuantileSketch)
    mean_latency: RunningMean = field(default_factory=RunningMean)
    tasks: int = 0
    counts: dict[int, int] = field(default_factory=lambda: {FAILED: 0, CLIPPED: 0, MOVED_TO_CPU: 0})
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0.0))
    regret: float | None = None
    compared: int = 0
    first_arrival: float = math.inf
    last_finish: float = -math.inf
    busy: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, outcomes: Outcomes, oracle_latency: Floats | None) -> None:
        """Add the outcomes of one chunk."""
        done = outcomes.completed
        self.tasks += len(outcomes)
        for status in self.counts:
            self.counts[status] += outcomes.count(status)
        self.first_arrival = min(self.first_arrival, float(outcomes.workload.arrival_time[0]))
        if not done.any():
            return
        latency = outcomes.latency[done]
        charges = EnergyAndCost(outcomes, self.platform, self.tariff)
        self.time.add(outcomes.time[done])
        self.latency.add(np.maximum(latency, 0.0))  # rounding can make finish - arrival negative
        self.mean_latency.add(latency)
        fraction = outcomes.fraction
        columns = (
            outcomes.wait, charges.energy, charges.rent, charges.electricity, charges.cost, fraction, fraction == 0
        )  # fmt: skip
        for name, column in zip(_SUMMED, columns, strict=True):
            self.sums[name] += float(column[done].sum())
        self.last_finish = max(self.last_finish, float(outcomes.finish[done].max()))
        if oracle_latency is not None:
            both = done & ~np.isnan(oracle_latency)
            self.regret = (self.regret or 0.0) + float((outcomes.latency[both] - oracle_latency[both]).sum())
            self.compared += int(both.sum())

    def row(self, name: str, bound: float | None) -> dict[str, Any]:
        """Return the scheduler's row of the report."""
        count = max(self.time.count, 1)
        span = max(self.last_finish - self.first_arrival, 0.0) if self.time.count else 0.0
        accelerators = self.platform.accelerators
        latency = {f"{key}_latency": value for key, value in _spread(self.latency).items()}
        return {
            "scheduler": name,
            "tasks": self.tasks,
            "failed": self.counts[FAILED],
            "clipped": self.counts[CLIPPED],
            "moved_to_cpu": self.counts[MOVED_TO_CPU],
            "makespan": span,
            "makespan_over_bound": span / bound if bound else None,
            "throughput": self.time.count / span if span > 0 else 0.0,
            **{f"{key}_time": value for key, value in _spread(self.time).items()},
            "mean_latency": latency["mean_latency"],
            "mean_latency_half_width": self.mean_latency.half_width,
            **latency,
            "mean_wait": self.sums["wait"] / count,
            "mean_regret": None if self.regret is None or not self.compared else self.regret / self.compared,
            "energy": self.sums["energy"],
            "energy_per_task": self.sums["energy"] / count,
            **{name: self.sums[name] for name in ("cost", "cost_rent", "cost_electricity")},
            "cost_per_task": self.sums["cost"] / count,
            "mean_gpu_fraction": self.sums["fraction"] / count,
            "cpu_only_share": self.sums["cpu_only"] / count,
            "load_balance": jain_index(self.busy),
            "load_balance_gpu": jain_index(self.busy[accelerators]) if len(accelerators) else 1.0,
            "average_utilization": float(self.busy.mean() / span) if span > 0 else 0.0,
        }


def _spread(sketch: QuantileSketch) -> dict[str, float]:
    quantiles = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
    largest = sketch.largest if sketch.count else math.nan
    return {"mean": sketch.mean, **{key: sketch.quantile(q) for key, q in quantiles.items()}, "max": largest}


@dataclass(frozen=True)
class HeavyResult:
    """Totals of all schedulers."""

    spec: ExperimentSpec
    seed: int
    lower_bound: float | None
    totals: dict[str, SchedulerTotals]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per scheduler."""
        return [total.row(name, self.lower_bound) for name, total in self.totals.items()]

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the log: one line per scheduler, since a line per task would be larger than the simulated data."""
        for row in self.rows:
            yield {"type": "result", "seed": self.seed, **row}


def run_heavy(
    spec: ExperimentSpec,
    seed: int,
    *,
    chunk: int = _CHUNK,
    processes: int | None = None,
    progress: Progress | None = None,
    log: TaskLog | None = None,
) -> HeavyResult:
    """Run every scheduler over all tasks.

    Parameters
    ----------
    spec
        Tasks, machine and schedulers.
    seed
        Seed of the workload, of noise and of schedulers that draw.
    chunk
        Tasks held in memory at a time.
    processes
        Processes for schedulers that need the whole workload; one per core if left out.
    progress
        Called with the scheduler's name and the tasks done by all schedulers together.
    log
        Gets the outcome of every task, chunk by chunk.

    Raises
    ------
    InvalidInputError
        If a scheduler that needs the whole workload has too many tasks.
    """
    compiled, whole = _sorted_by_kind(spec)
    if whole and spec.tasks > _WHOLE_UP_TO:
        hint = f"leave out {', '.join(whole)}, or run at most {_WHOLE_UP_TO:,} tasks"
        allowed = f"at most {_WHOLE_UP_TO:,} with schedulers that learn or bind late"
        raise InvalidInputError("tasks", allowed, spec.tasks, hint=hint)
    machine = spec.on_seed(seed)
    totals = {name: SchedulerTotals(machine.platform, machine.tariff) for name in spec.schedulers}
    report = progress or (lambda *_: None)
    reference = _run_compiled(spec, seed, chunk, compiled, totals, report, log, keep_oracle=bool(whole))
    _run_whole(spec, seed, whole, totals, reference, report, log, processes or cores())
    bound = None
    if spec.tasks <= BOUND_UP_TO:
        policy = machine.memory_policy
        bound = makespan_bound(
            spec.workload(seed), machine.platform, machine.physics, machine.noise, memory_policy=policy
        )
    return HeavyResult(spec, seed, bound, totals)


def _run_compiled(
    spec: ExperimentSpec,
    seed: int,
    chunk: int,
    schedulers: dict[str, FastRule],
    totals: dict[str, SchedulerTotals],
    report: Progress,
    log: TaskLog | None,
    *,
    keep_oracle: bool,
) -> Floats | None:
    """Run all through one chunk after the other; return the oracle's latencies if they are needed later."""
    if not schedulers:
        return None
    machine = spec.on_seed(seed)
    done = 0
    clusters = {name: machine.cluster() for name in schedulers}
    kept: list[Floats] = []
    for number, part in enumerate(_chunks(spec, seed, chunk)):
        outcomes: dict[str, Outcomes] = {}
        for name, scheduler in schedulers.items():
            report(name, done)
            if number == 0:
                clusters[name].start_scheduler(scheduler, part, seed=seed, objective=machine.objective)
            outcomes[name] = clusters[name].run_more(part, scheduler)
            done += len(part)
        oracle = outcomes["oracle"].latency if "oracle" in outcomes else None
        for name, chunk_outcomes in outcomes.items():
            totals[name].add(chunk_outcomes, oracle)
            if log:
                log(name, chunk_outcomes)
        if keep_oracle and oracle is not None:
            kept.append(oracle)
    for name, cluster in clusters.items():
        totals[name].busy = cluster.busy_by(math.inf)
    return np.concatenate(kept) if kept else None


def _run_whole(
    spec: ExperimentSpec,
    seed: int,
    names: list[str],
    totals: dict[str, SchedulerTotals],
    oracle: Floats | None,
    report: Progress,
    log: TaskLog | None,
    processes: int,
) -> None:
    """Run each over all tasks at once; several at a time, since each keeps one core busy for long."""
    workers = min(processes, len(names)) if spec.tasks >= MIN_TASKS_PER_PROCESS else 1
    done = before = (len(spec.schedulers) - len(names)) * spec.tasks

    def advance(name: str, count: int) -> None:
        nonlocal done
        done += count
        report(name, done)

    if names:
        report(names[0], done)
    # Processes report no progress: a function crosses no border.
    one = partial(_run_one, spec, seed, oracle, None if workers > 1 else advance)
    for number, (total, outcomes) in enumerate(in_order(one, names, workers), 1):
        name = names[number - 1]
        totals[name] = total
        if log:
            log(name, outcomes)
        done = before + number * spec.tasks  # not every run reports its last tasks
        report(name, done)


def _run_one(
    spec: ExperimentSpec,
    seed: int,
    oracle: Floats | None,
    progress: Callable[[str, int], None] | None,
    name: str,
) -> tuple[SchedulerTotals, Outcomes]:
    machine = spec.on_seed(seed)
    with single_threaded([name]):
        result = machine.run(
            spec.workload(seed), create(name), seed=seed, progress=partial(progress, name) if progress else None
        )
    one = SchedulerTotals(machine.platform, machine.tariff, busy=result.busy)
    one.add(result.outcomes, oracle)
    return one, result.outcomes


def _sorted_by_kind(spec: ExperimentSpec) -> tuple[dict[str, FastRule], list[str]]:
    """Return the schedulers that can run chunk by chunk, and the names of the others."""
    compiled: dict[str, FastRule] = {}
    whole = []
    for name in spec.schedulers:
        scheduler = create(name)
        if isinstance(scheduler, FastRule) and not scheduler.learns:
            compiled[name] = scheduler
        else:
            whole.append(name)
    return compiled, whole


def _chunks(spec: ExperimentSpec, seed: int, chunk: int) -> Iterator[Workload]:
    machine = spec.machine
    chunks = stream(
        spec.required_scenario, spec.tasks, seed, chunk=chunk, platform=machine.platform, physics=machine.physics,
        utilisation=spec.load, batch=spec.batch,
    )  # fmt: skip
    return (part.indivisible() for part in chunks) if spec.indivisible else chunks
