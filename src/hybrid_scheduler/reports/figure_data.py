"""What figures and reports are made of. Whatever is missing only costs the figures that need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core import Floats, InvalidInputError
from ..engine import Comparison
from ..learning.duration.online_duration_model import ModelVersion
from ..metrics.statistics import Interval, t_interval


class NothingToDraw(InvalidInputError):
    """A figure was asked for whose material this evidence does not have."""


@dataclass(frozen=True)
class FigureData:
    """Numbers of one or several runs of the same schedulers.

    `samples` holds one value per seed, by metric (the names of the summary) and scheduler; `bands` intervals that
    come from elsewhere, such as batch means within one run. `comparison` is one run in full.
    """

    samples: Mapping[str, Mapping[str, Floats]]
    #: Short facts for the line below the title.
    caption: Sequence[str] = ()
    bands: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)
    lower_bound: float | None = None
    #: Latencies and the shares of tasks that took at most as long.
    distributions: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    comparison: Comparison | None = None
    predicted: Mapping[str, Floats] = field(default_factory=dict)
    versions: Mapping[str, Sequence[ModelVersion]] = field(default_factory=dict)
    importances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def schedulers(self) -> list[str]:
        return list(next(iter(self.samples.values()), {}))

    @property
    def seeds(self) -> int:
        return max((len(values) for one in self.samples.values() for values in one.values()), default=0)

    def intervals(self, metric: str) -> dict[str, Interval]:
        """Mean and 95 % interval of every scheduler, best first; of a single run the interval is the value."""
        if metric not in self.samples:
            raise NothingToDraw("figure", f"one whose numbers are there: {metric} is not among them", metric)
        found = {
            name: self.bands.get(metric, {}).get(name) or interval_of(values)
            for name, values in self.samples[metric].items()
            if len(values) and np.isfinite(values).all()
        }
        if not found:
            raise NothingToDraw("figure", f"one whose numbers are there: no run has {metric}", metric)
        return dict(sorted(found.items(), key=lambda item: item[1].mean))

    def full(self) -> Comparison:
        if self.comparison is None:
            raise NothingToDraw("figure", "one that needs no single tasks, which were not kept", "no tasks")
        return self.comparison

    def whiskers(self, *metrics: str) -> str:
        """What the lines beside the marks of these metrics are, in words."""
        if self.seeds > 1:
            return f"mean of {self.seeds} seeds and its 95 % interval"
        banded = any(self.bands.get(metric) for metric in metrics)
        return "one run; 95 % interval by batch means" if banded else "one run"


def interval_of(values: Floats) -> Interval:
    if len(values) > 1:
        return t_interval(values)
    return Interval(float(values[0]), float(values[0]), float(values[0]))
