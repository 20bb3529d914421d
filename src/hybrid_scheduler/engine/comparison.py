"""Batch comparison: the same tasks through several schedulers, each on its own cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cluster import Machine, Noise, RunResult, isolated_optimum, makespan_bound, mean_latency_bound
from ..core import Floats, InvalidInputError, Objective, Platform, Workload
from ..core.outcome import STATUS_NAMES
from ..metrics import Charges, Summary, summarise, win_rates
from ..physics import EnergyAndCost, Physics, Tariff
from ..schedulers import create
from ..workload.task_graphs import graph_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Called with (scheduler, tasks done since the last call).
Progress = Callable[[str, int], None]
#: Most tasks whose mean latency is bounded: more take too long.
_MOST_BOUNDED = 20_000


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
        platform, physics, noise = machine.platform, machine.physics, machine.noise
        bound = makespan_bound(workload, platform, physics, noise, memory_policy=machine.memory_policy)
        alone = isolated_optimum(workload, platform, physics, noise)
        bounded = len(workload) <= _MOST_BOUNDED and machine.memory_policy != "fail"
        latency = mean_latency_bound(workload, platform, physics, noise) if bounded else None
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
                _charges(result),
                bound=self.lower_bound,
                latency_bound=self.latency_bound,
                isolated=self.isolated,
                oracle_latency=oracle.outcomes.latency if oracle else None,
            )
            for name, result in self.results.items()
        }

    def win_rates(self) -> dict[str, dict[str, float]]:
        """Return the share of tasks for which the row's latency is below the column's."""
        return win_rates({name: result.outcomes.latency for name, result in self.results.items()})

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON body shared by the command line and the reports."""
        return {
            "tasks": len(self.workload),
            "platform": self.platform.name,
            "lower_bound": {"makespan": self.lower_bound, "mean_latency": self.latency_bound},
            "schedulers": {name: summary.as_dict() for name, summary in self.summaries.items()},
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
            outcomes, bill = result.outcomes, EnergyAndCost(result.outcomes, result.platform, result.tariff)
            columns = {
                "scheduler": scheduler, "task_id": outcomes.workload.task_id, "device": names[outcomes.device],
                "gpu_fraction": outcomes.fraction, "arrival": outcomes.workload.arrival_time,
                "start": outcomes.start, "finish": outcomes.finish, "time": outcomes.time,
                "latency": outcomes.latency, "wait": outcomes.wait, "energy": bill.energy, "cost": bill.cost,
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

        mine, theirs = self.workload.columns(), other.workload.columns()
        if len(self.workload) != len(other.workload) or any(
            not np.array_equal(mine[name], theirs[name]) for name in mine
        ):
            counts = f"{len(self.workload):,} and {len(other.workload):,} tasks"
            raise InvalidInputError("runs of a diff", "of the same tasks", f"different ones: {counts}")
        shared = [name for name in self.results if name in other.results]
        if not shared:
            raise InvalidInputError(
                "runs of a diff", f"of a scheduler in {list(self.results)}", list(other.results)
            )
        before, after = other.to_pandas().loc[shared], self.to_pandas().loc[shared]
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


def compare(
    workload: Workload | pd.DataFrame | str,
    schedulers: Sequence[str],
    *,
    machine: Machine | None = None,
    platform: Platform | None = None,
    physics: Physics | None = None,
    noise: Noise | None = None,
    memory_policy: str | None = None,
    tariff: Tariff | None = None,
    objective: Objective | None = None,
    seed: int = 0,
    progress: Progress | None = None,
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
    platform, physics, noise, memory_policy, tariff, objective
        Parts of the machine to replace.
    seed
        Seed of schedulers that draw random numbers, and of a random graph whose name gives none.
    progress
        Called with (scheduler, tasks done since the last call).

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
    used = _machine(machine, platform, physics, noise, memory_policy, tariff, objective)
    created = {spec: create(spec) for spec in schedulers}  # a wrong name fails before any work is done
    results = {}
    for spec, scheduler in created.items():
        report = (lambda done, spec=spec: progress(spec, done)) if progress else None
        results[spec] = used.run(workload, scheduler, seed=seed, progress=report)
    return Comparison.of(workload, used, results)


def _machine(machine: Machine | None, *parts: object) -> Machine:
    """Return the machine with every part replaced that was given."""
    names = ("platform", "physics", "noise", "memory_policy", "tariff", "objective")
    given = {name: part for name, part in zip(names, parts, strict=True) if part is not None}
    return replace(machine or Machine(), **given)  # type: ignore[arg-type]


def _charges(result: RunResult) -> Charges:
    # Computed anew, because the cached one would keep five columns per run as long as the comparison exists.
    bill = EnergyAndCost(result.outcomes, result.platform, result.tariff)
    return Charges(bill.energy, bill.energy_blended, bill.rent, bill.electricity, bill.cost)
