"""Figures with one number per scheduler: makespan, duration, speed-up, cost, load balance, Pareto front."""

from __future__ import annotations

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
    legend_below,
    legend_height,
    line_style,
    plain_log_ticks,
)
from ..panels import bound_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Speed-ups refer to the first of these that was run.
_BASELINES = ("cpu_only", "round_robin")


def _height(rows: int, panels: int = 1) -> float:
    return 1.1 + panels * (0.48 + 0.225 * rows)


def makespan(data: FigureData) -> Figure:
    """Draw makespans and the lower bound that no schedule can beat."""
    intervals = data.intervals("makespan")
    bound = "; dashed: lower bound" if data.lower_bound else ""
    with framed(data, "Makespan", data.interval_label() + bound, _height(len(intervals))) as figure:
        axes = figure.subplots()
        dots(axes, intervals)
        bound_line(axes, data.lower_bound, "bound", " s")
        axes.set_xlabel("seconds from the first arrival to the last finish")
    return figure


def average_duration(data: FigureData) -> Figure:
    """Draw mean latency and mean execution time."""
    executing = data.intervals("mean_time")
    waiting = data.intervals("mean_latency")
    explanation = f"seconds per task; {data.interval_label('mean_latency')}"
    with framed(data, "Average duration", explanation, _height(len(executing), 2)) as figure:
        top, bottom = figure.subplots(2, 1)
        dots(top, waiting)
        top.set_xlabel("mean latency: from arrival to finish (s)")
        dots(bottom, executing)
        bottom.set_xlabel("mean execution time: the longer of the two parts (s)")
    return figure


def speed_up(data: FigureData) -> Figure:
    """Draw the makespan and the mean latency of a baseline over those of each scheduler, seed by seed."""
    baseline = next((name for name in _BASELINES if name in data.schedulers), None)
    if baseline is None:
        raise MissingFigureData("figure speed_up", f"drawn with {' or '.join(_BASELINES)}", data.schedulers)
    spans = _ratios(data, "makespan", baseline)
    latencies = _ratios(data, "mean_latency", baseline)
    explanation = f"ratios on the same seed; {data.interval_label()}; 1 is no gain"
    with framed(data, f"Speed-up over {label_of(baseline)}", explanation, _height(len(spans), 2)) as figure:
        for axes, ratios, words in zip(
            figure.subplots(2, 1), (spans, latencies), ("makespan", "mean latency"), strict=True
        ):
            dots(axes, ratios, unit=" ×")
            axes.axvline(1.0, color=QUIET, linewidth=0.9, zorder=1)
            axes.set_xlabel(f"{words} of {label_of(baseline)} over that of the scheduler (×)")
    return figure


def _ratios(data: FigureData, metric: str, baseline: str) -> dict[str, Interval]:
    data.intervals(metric)  # raises if the numbers are missing
    samples = data.samples[metric]
    ratios: dict[str, Floats] = {
        name: samples[baseline] / values
        for name, values in samples.items()
        if len(values) == len(samples[baseline]) and bool((values > 0).all())
    }
    finite = {name: interval_of(values) for name, values in ratios.items() if np.isfinite(values).all()}
    return dict(sorted(finite.items(), key=lambda item: -item[1].mean))


def cost(data: FigureData) -> Figure:
    """Draw cost and energy."""
    dollars = data.intervals("cost")
    joules = data.intervals("energy")
    title = "Cost and energy of all tasks"
    explanation = f"rent of busy seconds and electricity; {data.interval_label()}"
    with framed(data, title, explanation, _height(len(dollars), 2)) as figure:
        top, bottom = figure.subplots(2, 1)
        dots(top, dollars, unit=" $")
        top.set_xlabel("dollars")
        dots(bottom, {name: _scaled(joule, 1e-3) for name, joule in joules.items()}, unit=" kJ")
        bottom.set_xlabel("busy energy (kJ)")
    return figure


def _scaled(one: Interval, factor: float) -> Interval:
    return Interval(one.mean * factor, one.low * factor, one.high * factor)


def load_balance(data: FigureData) -> Figure:
    """Draw Jain's index over all devices and over the accelerators alone."""
    everywhere = data.intervals("load_balance")
    gpus = data.intervals("load_balance_gpu")
    explanation = f"Jain index of busy seconds: 1 when all are equally busy; {data.interval_label()}"
    with framed(data, "Load balance", explanation, _height(len(everywhere), 2)) as figure:
        for axes, found, words in zip(
            figure.subplots(2, 1), (everywhere, gpus), ("all devices", "accelerators alone"), strict=True
        ):
            best_first = dict(sorted(found.items(), key=lambda item: -item[1].mean))
            dots(axes, best_first, log=False)
            axes.set_xlim(0, 1.03)
            axes.set_xlabel(f"load balance, {words}")
    return figure


_GOALS = {"mean_latency": "mean latency (s)", "energy": "energy (kJ)", "cost": "cost ($)"}


def pareto(data: FigureData) -> Figure:
    """Draw three views of the same points; the front is over all three goals, not over the two of a view."""
    found = {goal: data.intervals(goal) for goal in _GOALS}
    names = [name for name in data.schedulers if all(name in found[goal] for goal in _GOALS)]
    best = front({name: [found[goal][name].mean for goal in _GOALS] for name in names})
    explanation = f"{data.interval_label('mean_latency')}; ringed: no scheduler is better on all three goals"
    height = 3.3 + legend_height(names)
    with framed(data, "Time, energy and cost", explanation, height, legend=legend_height(names)) as figure:
        views = (("a", "mean_latency", "energy"), ("b", "mean_latency", "cost"), ("c", "energy", "cost"))
        for axes, (letter, across, up) in zip(figure.subplots(1, 3), views, strict=True):
            heading(axes, letter, f"{_short(up)} vs {_short(across)}", "")
            _points(axes, names, best, found[across], found[up], 1e-3 if across == "energy" else 1.0, up)
            axes.set_xlabel(_GOALS[across])
            axes.set_ylabel(_GOALS[up])
            if across == "mean_latency" and _wide(found[across]):
                axes.set_xscale("log")
                plain_log_ticks(axes)
            axes.locator_params(axis="y", nbins=5)
        legend_below(figure, names)
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


def _short(goal: str) -> str:
    return {"mean_latency": "latency", "energy": "energy", "cost": "cost"}[goal]


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
