"""Distributions over tasks: latencies, GPU fractions, and properties of the workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core import Floats
from ..figure_data import FigureData, MissingFigureData
from ..figure_style import (
    INK,
    framed,
    heading,
    line_style,
    plain_log_ticks,
    three_digits,
)
from ..panels import fraction_histograms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 400
_WORKLOAD_COLOR = "#475569"
#: Ratio of maximum to median from which a histogram has a logarithmic axis.
_LONG_TAIL = 30.0


def latency_cdf(data: FigureData) -> Figure:
    """Draw the distribution of latencies; the right panel shows the slowest tenth, where tails differ."""
    curves = dict(data.distributions) or _curves(data)
    if not curves:
        raise MissingFigureData("figure latency_cdf", "drawn from latencies", "none")
    names = sorted(curves, key=lambda name: float(np.interp(0.5, curves[name][1], curves[name][0])))
    explanation = "share of tasks finished within a time from arrival; right: the slowest tenth"
    with framed(data, "Latency", explanation, 3.9, legend=names) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for order, name in enumerate(reversed(names)):
            values, shares = curves[name]
            style = line_style(name) | {"markersize": 4}
            every = max(1, len(values) // 5)
            first = order * every // len(names)
            left.plot(values, shares, markevery=(first, every), zorder=3 + order, **style)
            tail = shares >= 0.89
            style["marker"] = None
            right.plot(values[tail], 1.0 - shares[tail] + 1e-12, zorder=3 + order, **style)
        smallest = min(float(values[values > 0].min()) for values, _ in curves.values() if (values > 0).any())
        for axes in (left, right):
            axes.set_xscale("log")
        left.set_xlim(left=smallest * 0.9)
        left.set_ylim(0, 1.02)
        left.set_ylabel("share of tasks")
        left.set_xlabel("latency (s)")
        right.set_yscale("log")
        right.set_ylim(1e-3, 0.1)
        right.set_yticks([0.1, 0.05, 0.01, 0.005, 0.001], ["p90", "p95", "p99", "p99.5", "p99.9"])
        right.yaxis.minorticks_off()
        right.set_xlabel("latency (s)")
        for axes in (left, right):
            plain_log_ticks(axes)
    return figure


def _curves(data: FigureData) -> dict[str, tuple[Floats, Floats]]:
    if data.comparison is None:
        return {}
    curves = {}
    for name, result in data.comparison.results.items():
        latency = np.sort(result.outcomes.latency[result.outcomes.completed])
        if len(latency):
            shares = np.arange(1, len(latency) + 1) / len(latency)
            # Equal steps in probability, and all of the tail.
            body = np.linspace(0, len(latency) - 1, min(_POINTS, len(latency))).astype(int)
            keep = np.unique(np.concatenate([body, np.arange(max(0, len(latency) - _POINTS), len(latency))]))
            curves[name] = (latency[keep], shares[keep])
    return curves


def fractions(data: FigureData) -> Figure:
    """Draw one histogram of GPU fractions per scheduler, below each other because overlaid ones cannot be read."""
    comparison = data.single_run()
    names = sorted(comparison.results, key=lambda name: comparison.summaries[name].mean_gpu_fraction)
    explanation = "number of tasks by GPU fraction, each row to its own scale; dark line and number: mean"
    with framed(data, "GPU fraction of each task", explanation, 1.6 + 0.42 * len(names)) as figure:
        axes = figure.subplots()
        completed = {name: result.outcomes for name, result in comparison.results.items()}
        fractions = {name: outcomes.fraction[outcomes.completed] for name, outcomes in completed.items()}
        fraction_histograms(axes, names, fractions)
    return figure


def workload(data: FigureData) -> Figure:
    """Draw histograms of sizes, intensities, memory and times between arrivals."""
    tasks = data.single_run().workload
    gaps = np.diff(tasks.arrival_time)
    together = not (gaps > 0).any()
    with framed(data, "The workload", "number of tasks; dark line: median", 5.6) as figure:
        (first, second), (third, fourth) = figure.subplots(2, 2)
        _histogram(first, "a", "Size", "N", tasks.size)
        _histogram(second, "b", "Compute intensity", "share of the work a GPU speeds up", tasks.compute_intensity)
        _histogram(third, "c", "Memory", "MB", tasks.memory_required)
        if together:
            heading(fourth, "d", "Time between arrivals", "all tasks arrive at the start")
            fourth.set_axis_off()
        else:
            _histogram(fourth, "d", "Time between arrivals", "seconds", gaps)
    return figure


def _histogram(axes: Axes, letter: str, title: str, unit: str, values: Floats) -> None:
    positive = values[values > 0]
    middle = float(np.median(values))
    long_tail = len(positive) > 0 and float(values.max()) > _LONG_TAIL * middle > 0 and letter != "d"
    if long_tail:
        axes.set_xscale("log")
        edges = np.geomspace(float(positive.min()), float(values.max()), 41)
    else:
        edges = np.linspace(float(values.min()), float(values.max()) or 1.0, 41)
        if edges[0] == edges[-1]:
            edges = np.array([edges[0] - 0.5, edges[0] + 0.5])
    counts, _ = np.histogram(values, edges)
    axes.stairs(counts, edges, fill=True, color=_WORKLOAD_COLOR, alpha=0.35)
    axes.stairs(counts, edges, color=_WORKLOAD_COLOR, linewidth=0.9)
    axes.axvline(middle, color=INK, linewidth=1.1)
    low, high = np.quantile(values, (0.05, 0.95))
    heading(
        axes, letter, title, f"median {three_digits(middle)}, 90 % from {three_digits(low)} to {three_digits(high)}"
    )
    axes.set_xlabel(unit)
    axes.set_ylim(bottom=0)
