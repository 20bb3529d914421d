"""Pareto front of latency, energy and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metrics.statistics import Interval
from ..figure_data import FigureData
from ..figure_style import INK, QUIET, heading, label_of, line_style
from .figure_layout import framed, legend_below, legend_height, plain_log_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
        style, h, v = line_style(name), x[name], y[name]
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
    means = [one.mean for one in intervals.values()]
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
