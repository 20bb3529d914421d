"""Batch comparison: the same tasks through several schedulers, each on its own cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from ..cluster import (
    Cluster,
    Machine,
    Noise,
    RunResult,
    isolated_optimum,
    makespan_bound,
    mean_latency_bound,
)
from ..cluster.bounds import runnable
from ..core import Floats, InvalidInputError, Objective, Platform, Task, Workload, workstation
from ..core.outcome import RAN, STATUS_NAMES
from ..metrics import Summary, batch_means, queue_grows, summarise, win_rates
from ..metrics.summary import DeviceLoad, Evidence
from ..metrics.verdict import Differs, Verdict, judge
from ..physics import EnergyAndCost, Physics, Tariff
from ..schedulers import create, current_spec
from ..schedulers import schedulers as registered
from ..workload.argument_checks import parse_spec
from ..workload.task_graphs import graph_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Called with (scheduler, tasks done since the last call).
Progress = Callable[[str, int], None]
#: Most tasks whose mean latency is bounded: more take too long.
_MAX_BOUNDED = 20_000
#: Schedulers that `VirtualMultiGPU` runs.
_BASELINES = ("round_robin", "random", "greedy", "cpu_only", "gpu_only", "oracle")
#: Share of the run at its end that the verdict reads device loads from, and fewest tasks for batches of latencies.
_WINDOW = 0.25
_BATCHED = 200


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results of several schedulers for the same workload.

    Attributes
    ----------
    workload
        The tasks.
    platform
        The devices.
    results
        The run of each scheduler, by its specification.
    lower_bound
        Lower bound on the makespan; None if there is none.
    latency_bound
        Lower bound on the mean latency; None where it was not computed: for more than 20,000 tasks, or where tasks
        can fail.
    isolated
        Seconds that each task takes at least, alone on the empty machine.
    """

    workload: Workload
    platform: Platform
    results: dict[str, RunResult]
    lower_bound: float | None
    isolated: Floats
    latency_bound: float | None = None

    @classmethod
    def of(cls, workload: Workload, machine: Machine, results: dict[str, RunResult]) -> Comparison:
        """Join the runs of one workload with its lower bounds and isolated optima on that machine."""
        platform = machine.platform
        physics = machine.physics
        noise = machine.noise
        bound = makespan_bound(workload, platform, physics, noise, memory_policy=machine.memory_policy)
        tasks = runnable(workload, machine.memory_policy)
        alone = isolated_optimum(tasks, platform, physics, noise)
        bounded = len(workload) <= _MAX_BOUNDED and machine.memory_policy != "fail"
        latency = mean_latency_bound(tasks, platform, physics, noise) if bounded else None
        return cls(workload, platform, results, bound, alone, latency)

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """Summaries by scheduler. Regret is against the scheduler "oracle", if it is among them."""
        oracle = self.results.get("oracle")
        return {
            name: summarise(
                result.outcomes,
                self.platform,
                result.busy,
                # Computed anew: the cached one would keep five columns per run as long as the comparison exists.
                EnergyAndCost(result.outcomes, result.platform, result.tariff),
                bound=self.lower_bound,
                latency_bound=self.latency_bound,
                isolated=self.isolated,
                oracle_latency=oracle.outcomes.latency if oracle else None,
                decision_counts=result.decision_counts,
            )
            for name, result in self.results.items()
        }

    def win_rates(self) -> dict[str, dict[str, float]]:
        """Return the share of tasks for which the row's latency is below the column's."""
        return win_rates({name: result.outcomes.latency for name, result in self.results.items()})

    def evidence(self, name: str) -> Evidence:
        """Return the numbers of one scheduler that the verdict reads."""
        return _run_evidence(name, self.results[name], self.summaries[name], self.isolated)

    @cached_property
    def verdict(self) -> Verdict:
        """Ranking by mean latency with the reasons, from this one run."""
        return self.judge()

    def judge(self, differs: Differs | None = None) -> Verdict:
        """Return the verdict; `differs` tells which pairs differ significantly, as several seeds can show."""
        evidence = [self.evidence(name) for name in self.results]
        return judge(evidence, self.latency_bound, differs=differs, one_run=differs is None)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON body shared by the command line and the reports."""
        return {
            "tasks": len(self.workload),
            "platform": self.platform.name,
            "lower_bound": {"makespan": self.lower_bound, "mean_latency": self.latency_bound},
            "schedulers": {name: summary.as_dict() for name, summary in self.summaries.items()},
            "verdict": self.verdict.as_dict(),
        }

    # ---------------------------------------------------------------- for notebooks

    def to_pandas(self, *, tasks: bool = False) -> pd.DataFrame:
        """Return a table with one row per scheduler.

        Parameters
        ----------
        tasks
            Return one row per scheduler and task instead.
        """
        import pandas as pd

        if not tasks:
            rows = {
                name: {key: value for key, value in summary.as_dict().items() if not isinstance(value, dict)}
                for name, summary in self.summaries.items()
            }
            return pd.DataFrame.from_dict(rows, orient="index").rename_axis("scheduler")
        names = np.array([device.name for device in self.platform.devices])
        parts = []
        for scheduler, result in self.results.items():
            outcomes = result.outcomes
            charges = EnergyAndCost(result.outcomes, result.platform, result.tariff)
            columns = {
                "scheduler": scheduler, "task_id": outcomes.workload.task_id, "device": names[outcomes.device],
                "gpu_fraction": outcomes.fraction, "arrival": outcomes.workload.arrival_time,
                "start": outcomes.start, "finish": outcomes.finish, "time": outcomes.time,
                "latency": outcomes.latency, "wait": outcomes.wait, "energy": charges.energy, "cost": charges.cost,
                "status": np.array(STATUS_NAMES)[outcomes.status],
            }  # fmt: skip
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True)

    def diff(self, other: Comparison) -> pd.DataFrame:
        """Return the differences between this comparison and another one of the same tasks.

        Parameters
        ----------
        other
            The comparison to subtract.

        Returns
        -------
        pandas.DataFrame
            One row per metric and scheduler that is in both: this, other, difference, ratio.

        Raises
        ------
        InvalidInputError
            If the tasks differ, or no scheduler is in both.
        """
        import pandas as pd

        mine = self.workload.columns()
        theirs = other.workload.columns()
        if len(self.workload) != len(other.workload) or any(
            not np.array_equal(mine[name], theirs[name]) for name in mine
        ):
            others = f"{len(other.workload):,} other tasks"
            raise InvalidInputError("other", f"a comparison of the same {len(self.workload):,} tasks", others)
        shared = [name for name in self.results if name in other.results]
        if not shared:
            allowed = f"a comparison of a scheduler in {list(self.results)}"
            raise InvalidInputError("other", allowed, list(other.results))
        before = other.to_pandas().loc[shared]
        after = self.to_pandas().loc[shared]
        this = after.apply(pd.to_numeric, errors="coerce").stack().rename("this")
        that = before.apply(pd.to_numeric, errors="coerce").stack().rename("other")
        table: pd.DataFrame = pd.concat([this, that], axis=1).rename_axis(["scheduler", "metric"]).dropna()
        table["difference"] = table["this"] - table["other"]
        table["ratio"] = table["this"] / table["other"].where(table["other"] != 0)
        return table

    @property
    def plot(self) -> _ComparisonPlots:
        """Figures of the comparison: `gantt()`, `cdf()` and `race()`."""
        return _ComparisonPlots(self)

    def __repr__(self) -> str:
        """Return one line, because the outcomes would fill pages of a shell."""
        return f"<Comparison of {', '.join(self.results)} on {len(self.workload):,} tasks, {self.platform.name}>"

    def _repr_html_(self) -> str:
        metrics = ("mean_latency", "p99_latency", "mean_time", "makespan", "energy", "cost", "load_balance")
        rows = sorted(self.summaries.items(), key=lambda item: item[1].latency.mean)
        head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in ("scheduler", *metrics))
        body = "".join(
            f"<tr><th>{escape(name)}</th>"
            + "".join(f"<td>{summary.as_dict()[column]:.4g}</td>" for column in metrics)
            + "</tr>"
            for name, summary in rows
        )
        bound = "" if self.lower_bound is None else f", lower bound on the makespan {self.lower_bound:.4g} s"
        caption = f"{len(self.workload):,} tasks on {escape(self.platform.name)}{bound}; seconds, joules, dollars"
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class _ComparisonPlots:
    """Figures of one comparison, which a notebook shows as they are. They need the extra `report`."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def gantt(self) -> Figure:
        """Draw some tasks in the middle of the run, device by device."""
        return self._draw("gantt")

    def cdf(self) -> Figure:
        """Draw the distribution of latencies."""
        return self._draw("latency_cdf")

    def race(self) -> Figure:
        """Draw the mean latency of all tasks so far, from the first task to the last."""
        return self._draw("race")

    def _draw(self, name: str) -> Figure:
        # By name, because figures are made of comparisons and not the other way round.
        figures = import_module("hybrid_scheduler.reports.figures")
        figure: Figure = figures.draw(name, self._comparison)
        return figure


class _MachineParts(TypedDict, total=False):
    platform: Platform | None
    physics: Physics | None
    noise: Noise | None
    memory_policy: str | None
    tariff: Tariff | None
    objective: Objective | None


def compare(
    workload: Workload | pd.DataFrame | str,
    schedulers: Sequence[str],
    *,
    machine: Machine | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **parts: Unpack[_MachineParts],
) -> Comparison:
    """Run every scheduler over the same workload, each on a cluster of its own.

    Parameters
    ----------
    workload
        The tasks, a data frame of them (see `Workload.from_pandas`), or the name of a task graph with its
        parameters, such as ``"cholesky(tiles=8)"``.
    schedulers
        Specifications: ``name`` or ``name(parameter=value)``.
    machine
        The machine and its rules; by default one CPU and four GPUs with analytic physics.
    seed
        Seed of schedulers that draw random numbers, and of a random graph whose name gives none.
    progress
        Called with (scheduler, tasks done since the last call).
    parts
        Parts of the machine to replace: `platform`, `physics`, `noise`, `memory_policy`, `tariff`, `objective`.

    Returns
    -------
    Comparison
        Results and summaries of all schedulers, lower bounds and the verdict.

    Raises
    ------
    InvalidInputError
        If no scheduler is given or one twice, or a workload, a specification or a scheduler's decision is invalid.
    UnknownNameError
        If a scheduler or a task graph is unknown.

    Examples
    --------
    >>> from hybrid_scheduler import WorkloadGenerator, compare
    >>> workload = WorkloadGenerator(seed=1).generate_workload(50, utilisation=0.5)
    >>> summaries = compare(workload, ["cpu_only", "earliest_finish"]).summaries
    >>> summaries["earliest_finish"].latency.mean < summaries["cpu_only"].latency.mean
    True
    >>> graph = compare("cholesky(tiles=4)", ["heft", "greedy"])
    >>> graph.summaries["heft"].makespan >= graph.lower_bound
    True
    """
    if not schedulers:
        raise InvalidInputError("schedulers", "at least one name", "none")
    if len(set(schedulers)) < len(schedulers):
        raise InvalidInputError("schedulers", "different names", list(schedulers))
    if isinstance(workload, str):
        workload = graph_of(workload, seed)
    elif not isinstance(workload, Workload):
        workload = Workload.from_pandas(workload)
    schedulers = [current_spec(spec) for spec in schedulers]
    given: dict[str, Any] = {name: part for name, part in parts.items() if part is not None}
    used = replace(machine or Machine(), **given)
    created = {spec: create(spec) for spec in schedulers}  # a wrong name fails before any work is done
    results = {}
    for spec, scheduler in created.items():
        report = (lambda done, spec=spec: progress(spec, done)) if progress else None
        results[spec] = used.run(workload, scheduler, seed=seed, progress=report)
    return Comparison.of(workload, used, results)


def label_of(spec: str) -> str:
    """Return a scheduler's label, such as "Round Robin (variant=half)"."""
    name, arguments = parse_spec(spec)
    known = registered().get(name)
    label = known.label if known else name
    return f"{label} ({', '.join(f'{key}={value}' for key, value in arguments.items())})" if arguments else label


# ------------------------------------------------------------------------------------------ evidence


def _run_evidence(name: str, result: RunResult, summary: Summary, isolated: Floats) -> Evidence:
    """Return the numbers of a complete run that the verdict reads.

    Device loads are those of the last quarter of the arrivals; of a batch, those of the whole run.

    Parameters
    ----------
    name
        The scheduler's specification.
    result, summary
        The run and its summary.
    isolated
        Isolated optimum of each task in seconds.
    """
    outcomes = result.outcomes
    platform = result.platform
    tasks = outcomes.workload
    done = outcomes.completed
    arrival = tasks.arrival_time
    count = max(1, int(done.sum()))
    first = float(arrival[0])
    last = float(arrival[-1])
    window = (last - _WINDOW * (last - first), last) if last > first else (first, first + summary.makespan)
    on_accelerator = np.where(done, outcomes.fraction, 0.0)
    copying = on_accelerator * tasks.host_data / platform.column("bandwidth")[outcomes.device]
    copying = np.minimum(copying, outcomes.accelerator_time)
    busy_accelerators = float(outcomes.accelerator_time[done].sum())
    recent = np.flatnonzero(done & (arrival >= window[0]))
    waits = outcomes.wait[recent]
    latency = outcomes.latency[done]
    swing = None
    if len(latency) >= _BATCHED and last > first:
        batches = batch_means(latency)
        swing = float(batches.max() / np.median(batches))
    mean = summary.latency.mean
    return Evidence(
        name=name,
        label=label_of(name),
        tasks=summary.tasks,
        mean_latency=mean if mean == mean else None,
        mean_time=summary.time.mean,
        mean_wait=summary.wait.mean,
        p99_latency=summary.latency.p99,
        mean_energy=summary.energy / count,
        mean_cost=summary.cost / count,
        devices=_device_loads(result, window),
        window=window,
        device_seconds=float(result.busy.sum()) / count,
        split_share=float(((outcomes.fraction > 0) & (outcomes.fraction < 1))[done].mean()) if done.any() else 0.0,
        memory_share=float((outcomes.status != RAN).mean()),
        transfer_seconds=float(copying[done].sum()) / count,
        transfer_share=float(copying[done].sum()) / busy_accelerators if busy_accelerators else 0.0,
        growing=queue_grows(arrival, outcomes.latency, isolated),
        swing=swing,
        decided_by=summary.decided_by,
        worst_task=int(tasks.task_id[recent[int(np.argmax(waits))]]) if len(recent) else None,
    )


def _device_loads(result: RunResult, window: tuple[float, float]) -> tuple[DeviceLoad, ...]:
    platform = result.platform
    outcomes = result.outcomes
    rows, device, start, end = result.gantt()
    arrival = outcomes.workload.arrival_time[rows]
    low, high = window
    overlap = np.maximum(0.0, np.minimum(end, high) - np.maximum(start, low))
    busy = np.bincount(device, overlap, len(platform)) / max(high - low, 1e-12)
    after, before = np.zeros((2, len(platform)))
    np.maximum.at(after, device, end - high)
    np.maximum.at(before, device[arrival <= low], (end - low)[arrival <= low])
    done = outcomes.completed
    fraction = outcomes.fraction[done]
    work = np.bincount(platform.cpu_of[outcomes.device[done]], 1.0 - fraction, len(platform))
    work += np.bincount(outcomes.device[done], fraction, len(platform))
    shares = work / max(float(work.sum()), 1.0)
    return tuple(
        DeviceLoad(d.name, d.kind, min(1.0, float(busy[i])), float(shares[i]), float(after[i]), float(before[i]))
        for i, d in enumerate(platform.devices)
    )


# ------------------------------------------------------------------------------------------ default machine


class VirtualMultiGPU(Cluster):
    """A `Cluster` on the default workstation, with a method that runs the baseline schedulers.

    Parameters
    ----------
    num_gpus
        Number of GPUs.
    memory_per_gpu
        Megabytes of memory of each GPU.

    Examples
    --------
    >>> from hybrid_scheduler import VirtualMultiGPU, WorkloadGenerator
    >>> tasks = WorkloadGenerator(seed=1).generate_workload(50, utilisation=0.5)
    >>> sorted(VirtualMultiGPU(num_gpus=2).evaluate_baseline_schedulers(tasks)["greedy"])
    ['avg_time', 'makespan', 'max_time']
    """

    def __init__(self, num_gpus: int = 4, memory_per_gpu: float = 8000.0) -> None:
        super().__init__(workstation(num_gpus, memory_per_gpu))

    def evaluate_baseline_schedulers(
        self, tasks: Workload | Iterable[Task], *, seed: int = 0
    ) -> dict[str, dict[str, float]]:
        """Run every baseline scheduler on a cluster of its own.

        Parameters
        ----------
        tasks
            The tasks.
        seed
            Seed of schedulers that draw random numbers.

        Returns
        -------
        dict
            By scheduler: makespan, mean (avg_time) and longest (max_time) execution time in seconds.
        """
        workload = tasks if isinstance(tasks, Workload) else Workload.from_tasks(tasks)
        comparison = compare(workload, _BASELINES, platform=self.platform, physics=self.physics, seed=seed)
        return {
            name: {"makespan": s.makespan, "avg_time": s.time.mean, "max_time": s.time.max}
            for name, s in comparison.summaries.items()
        }
