"""Data behind figures and reports; missing parts only disable the figures that need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core import Floats, InvalidInputError, ModelVersion, UnknownNameError
from ..engine import Comparison
from ..metrics.statistics import Interval, skewed_interval


class MissingFigureData(InvalidInputError):
    """A figure was requested whose data are missing."""


@dataclass(frozen=True)
class FigureData:
    """Numbers of one or several runs of the same schedulers.

    Parameters
    ----------
    samples
        One value per seed, by metric (a name of the summary) and scheduler.
    caption
        Short facts for the line below the title.
    bands
        Intervals from another source, such as batch means within one run, by metric and scheduler.
    lower_bound
        Lower bound of the makespan.
    distributions
        Latencies, and the shares of tasks that took at most as long, by scheduler.
    comparison
        One run with all its tasks.
    other, pair
        A second run of the same tasks, and the two schedulers whose schedules are compared.
    predicted
        Predicted times of the tasks of `comparison`, by scheduler.
    versions, importances
        Model versions and feature importances of the learners.
    """

    samples: Mapping[str, Mapping[str, Floats]]
    caption: Sequence[str] = ()
    bands: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)
    lower_bound: float | None = None
    distributions: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    comparison: Comparison | None = None
    other: Comparison | None = None
    pair: tuple[str, str] | None = None
    predicted: Mapping[str, Floats] = field(default_factory=dict)
    versions: Mapping[str, Sequence[ModelVersion]] = field(default_factory=dict)
    importances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def schedulers(self) -> list[str]:
        """Names of the schedulers."""
        return list(next(iter(self.samples.values()), {}))

    @property
    def seeds(self) -> int:
        """Largest number of seeds of any sample."""
        return max((len(values) for sample in self.samples.values() for values in sample.values()), default=0)

    def intervals(self, metric: str) -> dict[str, Interval]:
        """Return mean and 95 % interval of every scheduler, best first; a single run has an empty interval."""
        if metric not in self.samples:
            raise MissingFigureData("metric of a figure", f"one of {', '.join(self.samples)}", metric)
        intervals = {
            name: self.bands.get(metric, {}).get(name) or interval_of(values)
            for name, values in self.samples[metric].items()
            if len(values) and np.isfinite(values).all()
        }
        if not intervals:
            raise MissingFigureData("metric of a figure", "one with finite values", metric)
        return dict(sorted(intervals.items(), key=lambda item: item[1].mean))

    def single_run(self) -> Comparison:
        """Return the run with all its tasks, or raise `MissingFigureData`."""
        if self.comparison is None:
            hint = "pass the result of `compare`"
            raise MissingFigureData("data", "a run with its tasks for this figure", "numbers alone", hint=hint)
        return self.comparison

    def schedules(self) -> tuple[tuple[Comparison, str], tuple[Comparison, str]]:
        """Return two runs of the same tasks, each with a scheduler.

        By default these are the two schedulers with the lowest mean latency, or for two runs the best of the first.

        Raises
        ------
        MissingFigureData
            If there is one schedule only.
        UnknownNameError
            If a run lacks the scheduler.
        InvalidInputError
            If the two runs have different tasks.
        """
        first = self.single_run()
        second = self.other or first
        best = sorted(first.results, key=lambda name: first.summaries[name].latency.mean)
        if self.pair is None and self.other is None and len(best) < 2:
            raise MissingFigureData("schedulers", "at least two for gantt_diff, or a second run", best)
        names = self.pair or (best[0], best[0] if self.other else best[1])
        for name, run in zip(names, (first, second), strict=True):
            if name not in run.results:
                raise UnknownNameError("schedulers", name, run.results)
        tasks = first.workload
        others = second.workload
        if not (
            np.array_equal(tasks.size, others.size) and np.array_equal(tasks.arrival_time, others.arrival_time)
        ):
            raise InvalidInputError(
                "runs", "two of the same tasks", f"runs of {len(tasks):,} and {len(others):,} different tasks",
                hint="the same scenario, load, seed and number of tasks, or the same trace",
            )  # fmt: skip
        return (first, names[0]), (second, names[1])

    def interval_label(self, *metrics: str) -> str:
        """Describe the intervals that a figure draws for these metrics."""
        if self.seeds > 1:
            return f"mean of {self.seeds} seeds and its 95 % interval"
        banded = any(self.bands.get(metric) for metric in metrics)
        return "one run; 95 % interval by batch means" if banded else "one run"


def interval_of(values: Floats) -> Interval:
    """Return the interval of several values as tables print it, or the value itself as an empty interval."""
    if len(values) > 1:
        return skewed_interval(values)
    return Interval(float(values[0]), float(values[0]), float(values[0]))
