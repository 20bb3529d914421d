"""Random workload generator with ranges of sizes, intensities and memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import InvalidInputError, Platform, Workload, workstation
from ..physics import AnalyticPhysics, Physics
from .argument_checks import Range, number_range, positive_number, whole_number
from .distributions import size_distribution
from .random_columns import draw_chunks, join_chunks
from .scenarios import Scenario, capacity_of, kinds_of
from .trace_files import load_workload, save_workload

if TYPE_CHECKING:
    import pandas as pd


class OverloadWarning(UserWarning):
    """Warning that tasks arrive faster than the platform's capacity, so queues grow without end."""


class _Load:
    """The method `load`, on an instance and, as the published examples write it, on the class."""

    def __get__(
        self, generator: WorkloadGenerator | None, owner: type[WorkloadGenerator]
    ) -> Callable[[str | os.PathLike[str]], Workload]:
        """Return the method bound to an instance, or to none."""

        def load(path: str | os.PathLike[str]) -> Workload:
            """Read a workload from a .csv or .parquet file; it becomes the generator's last one."""
            workload = load_workload(path)
            if generator is not None:
                generator._last = workload
            return workload

        return load


class WorkloadGenerator:
    """Generator of random workloads. The same seed and arguments give the same workload everywhere.

    Parameters
    ----------
    seed
        Seed of the random numbers, at least 0.

    Examples
    --------
    >>> from hybrid_scheduler import WorkloadGenerator
    >>> generator = WorkloadGenerator(seed=7)
    >>> workload = generator.generate_workload(100, utilisation=0.7)
    >>> len(workload), generator.get_statistics()["num_tasks"]
    (100, 100)
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = whole_number("seed", seed, 0)
        self._last: Workload | None = None

    def generate_workload(
        self,
        num_tasks: int,
        task_size_range: Range = (100, 5000),
        compute_intensity_range: Range = (0.1, 1.0),
        memory_range: Range = (10, 500),
        arrival_rate: float = 100.0,
        *,
        utilisation: float | None = None,
        distribution: str = "uniform",
        platform: Platform | None = None,
        physics: Physics | None = None,
    ) -> Workload:
        """Return tasks with Poisson arrivals, and keep them as the last workload.

        Parameters
        ----------
        num_tasks
            Number of tasks.
        task_size_range, compute_intensity_range, memory_range
            Lowest and highest size, intensity and memory in MB.
        arrival_rate
            Tasks per second.
        utilisation
            Load as a share of the platform's capacity; replaces `arrival_rate`.
        distribution
            Distribution of sizes: ``"uniform"``, ``"lognormal"`` or ``"pareto"``.
        platform, physics
            Devices and durations that the capacity refers to. For a profiled physics the tasks are of its measured
            kinds, all equally likely.

        Raises
        ------
        InvalidInputError
            If an argument is out of range.

        Warns
        -----
        OverloadWarning
            If the load exceeds the platform's capacity.
        """
        whole_number("num_tasks", num_tasks, 1)
        scenario = Scenario(
            "generated",
            "Ranges given as arguments",
            size_distribution(distribution, *number_range("task_size_range", task_size_range, open_below=True)),
            number_range("compute_intensity_range", compute_intensity_range, most=1.0),
            number_range("memory_range", memory_range),
        )
        devices = platform or workstation()
        durations = physics or AnalyticPhysics()
        possible = capacity_of(scenario, devices, durations)
        if utilisation is None:
            rate = positive_number("arrival_rate", arrival_rate)
        else:
            rate = positive_number("utilisation", utilisation) * possible
        if rate > possible:
            warnings.warn(
                f"{rate:.4g} tasks/s arrive but the platform can do {possible:.4g} tasks/s at most: "
                "the queue will grow without end; lower arrival_rate or give a utilisation below 1",
                OverloadWarning,
                stacklevel=2,
            )
        regime = scenario.regime(num_tasks, rate, kinds_of(durations, devices))
        self._last = join_chunks(list(draw_chunks([regime], self.seed, num_tasks)))
        return self._last

    def get_statistics(self) -> dict[str, float]:
        """Return counts, ranges and means of the last workload."""
        tasks = self.workload
        durations = tasks.duration_estimate
        end = float(tasks.arrival_time[-1])
        statistics: dict[str, float] = {"num_tasks": len(tasks)}
        for name, column in (
            ("size", tasks.size),
            ("intensity", tasks.compute_intensity),
            ("memory", tasks.memory_required),
        ):
            statistics[f"avg_{name}"] = float(column.mean())
            statistics[f"min_{name}"] = float(column.min())
            statistics[f"max_{name}"] = float(column.max())
        statistics["total_duration_estimate"] = float(durations.sum())
        statistics["avg_duration_estimate"] = float(durations.mean())
        # Tasks that all arrive at time 0 have no rate.
        statistics["arrival_rate"] = len(tasks) / end if end > 0 else float("nan")
        return statistics

    def to_dataframe(self) -> pd.DataFrame:
        """Return the last workload as a pandas data frame with one row per task."""
        return self.workload.to_dataframe()

    def save_workload(self, path: str | os.PathLike[str]) -> None:
        """Write the last workload to a .csv or .parquet file."""
        save_workload(self.workload, path)

    load = _Load()

    @property
    def workload(self) -> Workload:
        """The last workload.

        Raises
        ------
        InvalidInputError
            If nothing was generated or loaded yet.
        """
        if self._last is None:
            raise InvalidInputError(
                "workload", "generated or loaded first", None, hint="call generate_workload or load"
            )
        return self._last
