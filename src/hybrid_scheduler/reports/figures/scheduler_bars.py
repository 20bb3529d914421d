"""Figures with one number per scheduler: makespan, duration, speed-up, cost, load balance, Pareto front."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ...core import Floats
from ...metrics.statistics import Interval
from ..figure_data import FigureData, MissingFigureData, interval_of
from ..figure_style import (
    INK,
    QUIET,
    dots,
    framed,
    heading,
    label_of,
    line_style,
    plain_log_ticks,
)
from ..panels import bound_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Speed-ups refer to the first of these that was run.
_BASELINES = ("cpu_only", "round_robin")


@contextmanager
def _panels(
    data: FigureData,
    title: str,
    explanation: str,
    *panels: tuple[str, dict[str, Interval], str],
    log: bool | None = None,
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Draw panels below each other, of each the label of its axis, a row for each scheduler, and the unit."""
    height = 1.1 + len(panels) * (0.48 + 0.225 * len(panels[-1][1]))
    with framed(data, title, explanation, height) as figure:
        drawn = np.atleast_1d(figure.subplots(len(panels), 1)).tolist()
        for axes, (label, intervals, unit) in zip(drawn, panels, strict=True):
            dots(axes, intervals, log=log, unit=unit)
            axes.set_xlabel(label)
        yield figure, drawn


def makespan(data: FigureData) -> Figure:
    """Draw makespans and the lower bound that no schedule can beat."""
    spans = ("seconds from the first arrival to the last finish", data.intervals("makespan"), "")
    bound = "; dashed: lower bound" if data.lower_bound else ""
    with _panels(data, "Makespan", data.interval_label() + bound, spans) as (figure, (axes,)):
        bound_line(axes, data.lower_bound, "bound", " s")
    return figure


def average_duration(data: FigureData) -> Figure:
    """Draw mean latency and mean execution time."""
    latencies = ("mean latency: from arrival to finish (s)", data.intervals("mean_latency"), "")
    times = ("mean execution time: the longer of the two parts (s)", data.intervals("mean_time"), "")
    explanation = f"seconds per task; {data.interval_label('mean_latency')}"
    with _panels(data, "Average duration", explanation, latencies, times) as (figure, _):
        return figure


def speed_up(data: FigureData) -> Figure:
    """Draw the makespan and the mean latency of a baseline over those of each scheduler, seed by seed."""
    baseline = next((name for name in _BASELINES if name in data.schedulers), None)
    if baseline is None:
        raise MissingFigureData("figure speed_up", f"drawn with {' or '.join(_BASELINES)}", data.schedulers)
    ratios = [
        (f"{words} of {label_of(baseline)} over that of the scheduler (×)", _ratios(data, metric, baseline), " ×")
        for metric, words in (("makespan", "makespan"), ("mean_latency", "mean latency"))
    ]
    explanation = f"ratios on the same seed; {data.interval_label()}; 1 is no gain"
    with _panels(data, f"Speed-up over {label_of(baseline)}", explanation, *ratios) as (figure, panels):
        for axes in panels:
            axes.axvline(1.0, color=QUIET, linewidth=0.9, zorder=1)
    return figure


def _ratios(data: FigureData, metric: str, baseline: str) -> dict[str, Interval]:
    data.intervals(metric)  # raises if the numbers are missing
    samples = data.samples[metric]
    ratios: dict[str, Floats] = {
        name: samples[baseline] / values
        for name, values in samples.items()
        if len(values) == len(samples[baseline]) and bool((values > 0).all())
    }
    return _largest_first(
        {name: interval_of(values) for name, values in ratios.items() if np.isfinite(values).all()}
    )


def _largest_first(intervals: dict[str, Interval]) -> dict[str, Interval]:
    return dict(sorted(intervals.items(), key=lambda item: -item[1].mean))


def cost(data: FigureData) -> Figure:
    """Draw cost and energy."""
    dollars = ("dollars", data.intervals("cost"), " $")
    kilojoules = {
        name: Interval(joules.mean * 1e-3, joules.low * 1e-3, joules.high * 1e-3)
        for name, joules in data.intervals("energy").items()
    }
    explanation = f"rent of busy seconds and electricity; {data.interval_label()}"
    energy = ("busy energy (kJ)", kilojoules, " kJ")
    with _panels(data, "Cost and energy of all tasks", explanation, dollars, energy) as (figure, _):
        return figure


def load_balance(data: FigureData) -> Figure:
    """Draw Jain's index over all devices and over the accelerators alone."""
    indices = [
        (f"load balance, {words}", _largest_first(data.intervals(metric)), "")
        for metric, words in (("load_balance", "all devices"), ("load_balance_gpu", "accelerators alone"))
    ]
    explanation = f"Jain index of busy seconds: 1 when all are equally busy; {data.interval_label()}"
    with _panels(data, "Load balance", explanation, *indices, log=False) as (figure, panels):
        for axes in panels:
            axes.set_xlim(0, 1.03)
    return figure


_GOALS = {"mean_latency": "mean latency (s)", "energy": "energy (kJ)", "cost": "cost ($)"}


def pareto(data: FigureData) -> Figure:
    """Draw three views of the same points; the front is over all three goals, not over the two of a view."""
    goals = {goal: data.intervals(goal) for goal in _GOALS}
    names = [name for name in data.schedulers if all(name in goals[goal] for goal in _GOALS)]
    best = front({name: [goals[goal][name].mean for goal in _GOALS] for name in names})
    explanation = f"{data.interval_label('mean_latency')}; ringed: no scheduler is better on all three goals"
    with framed(data, "Time, energy and cost", explanation, 3.3, legend=names) as figure:
        views = (("a", "mean_latency", "energy"), ("b", "mean_latency", "cost"), ("c", "energy", "cost"))
        for axes, (letter, across, up) in zip(figure.subplots(1, 3), views, strict=True):
            heading(axes, letter, f"{up} vs {across}".replace("mean_", ""), "")
            _points(axes, names, best, goals[across], goals[up], 1e-3 if across == "energy" else 1.0, up)
            axes.set_xlabel(_GOALS[across])
            axes.set_ylabel(_GOALS[up])
            if across == "mean_latency" and _wide(goals[across]):
                axes.set_xscale("log")
                plain_log_ticks(axes)
            axes.locator_params(axis="y", nbins=5)
    return figure


def _points(
    axes: Axes, names: list[str], best: set[str], x: dict[str, Interval], y: dict[str, Interval], sx: float, up: str
) -> None:
    sy = 1e-3 if up == "energy" else 1.0
    for name in names:
        style = line_style(name)
        h = x[name]
        v = y[name]
        axes.plot([h.low * sx, h.high * sx], [v.mean * sy] * 2, color=style["color"], linewidth=1.0, alpha=0.6)
        axes.plot([h.mean * sx] * 2, [v.low * sy, v.high * sy], color=style["color"], linewidth=1.0, alpha=0.6)
        axes.plot(
            [h.mean * sx], [v.mean * sy], linestyle="none", marker=style["marker"], markersize=6,
            color=style["color"], markerfacecolor=style["markerfacecolor"], label=label_of(name), zorder=3,
        )  # fmt: skip
        if name in best:
            axes.plot(
                [h.mean * sx], [v.mean * sy], linestyle="none", marker="o", markersize=12, markerfacecolor="none",
                markeredgecolor=INK, markeredgewidth=0.8, zorder=4,
            )  # fmt: skip
    axes.tick_params(labelsize=7.5, labelcolor=QUIET)
    axes.margins(0.14)


def _wide(intervals: dict[str, Interval]) -> bool:
    means = [interval.mean for interval in intervals.values()]
    return min(means) > 0 and max(means) > 10 * min(means)


def front(points: dict[str, list[float]]) -> set[str]:
    """Return the names that no other dominates, that is, none is at most as high everywhere and lower somewhere."""

    def dominated(name: str) -> bool:
        own = points[name]
        return any(
            all(a <= b for a, b in zip(other, own, strict=True)) and other != own
            for rival, other in points.items()
            if rival != name
        )

    return {name for name in points if not dominated(name)}
