"""Figures over time: GPU fractions, mean latencies, and Gantt charts of the devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...engine import Comparison
from ..figure_data import FigureData
from ..figure_style import HAIRLINE, INK, QUIET, framed, label_of, line_style, look_of
from ..panels import fractions_over_time, moving_window

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 160
#: Most tasks, devices and schedulers in a Gantt chart.
_TASKS = 36
_DEVICES = 12
_SCHEDULERS = 4
#: Colours of tasks that end earlier or later in the second schedule (Okabe and Ito).
_SOONER = "#0072B2"
_LATER = "#D55E00"


def race(data: FigureData) -> Figure:
    """Draw the mean latency of all tasks so far, from the first task to the last."""
    comparison = data.single_run()
    names = list(comparison.results)
    explanation = "mean latency of all tasks so far, by number of tasks"
    with framed(data, "Race", explanation, 3.7, legend=names) as figure:
        axes = figure.subplots()
        for order, name in enumerate(names):
            outcomes = comparison.results[name].outcomes
            latency = outcomes.latency[outcomes.completed]
            means = np.cumsum(latency) / np.arange(1.0, len(latency) + 1.0)
            points = np.unique(np.linspace(0, len(means) - 1, _POINTS).astype(int)) if len(means) else np.arange(0)
            every = max(1, len(points) // 6)
            axes.plot(
                np.asarray(points) + 1, means[points], markevery=(0, every), zorder=3 + order, **line_style(name)
            )
        axes.set_yscale("log")
        axes.set_xlabel("tasks")
        axes.set_ylabel("mean latency (s)")
    return figure


def allocation(data: FigureData) -> Figure:
    """Draw the mean GPU fraction over time."""
    comparison = data.single_run()
    names = list(comparison.results)
    arrival = comparison.workload.arrival_time
    explanation = f"GPU fraction, mean of the last {moving_window(len(arrival)):,} tasks"
    with framed(data, "Allocation over time", explanation, 3.7, legend=names) as figure:
        outcomes = {name: result.outcomes for name, result in comparison.results.items()}
        fractions = {
            name: np.where(outcome.completed, outcome.fraction, np.nan) for name, outcome in outcomes.items()
        }
        fractions_over_time(figure.subplots(), names, arrival, fractions)
    return figure


def gantt(data: FigureData) -> Figure:
    """Draw a few dozen tasks in the middle of the run, the same ones for every scheduler."""
    comparison = data.single_run()
    names = sorted(comparison.results, key=lambda name: comparison.summaries[name].latency.mean)[:_SCHEDULERS]
    devices = comparison.platform.devices[:_DEVICES]
    total = len(comparison.workload)
    first, last = _middle(total)
    others = ", earlier and later ones in grey" if last - first < total else ""
    explanation = f"tasks {first + 1:,} to {last:,} in colour{others}; a split task has two blocks"
    # The bound is about the end of the run, so it is drawn where the end is in view.
    bound = None
    if last == total and comparison.lower_bound is not None:
        bound = float(comparison.workload.arrival_time[0]) + comparison.lower_bound
        explanation += "; dashed: no schedule can end earlier"
    height = 1.3 + len(names) * (0.5 + 0.19 * len(devices))
    with framed(data, "Tasks on devices over time", explanation, height) as figure:
        panels = np.atleast_1d(figure.subplots(len(names), 1, sharex=True))
        window = _window(comparison, names, first, last)
        for axes, name in zip(panels, names, strict=True):
            color = look_of(name).light
            tints = [(color, 0.9 if number % 2 else 0.6) for number in range(last - first)]
            _gantt(axes, comparison, name, first, tints, window)
            if bound is not None:
                axes.axvline(bound, color=INK, linewidth=1.0, linestyle=(0, (4, 2)))
        panels[-1].set_xlabel("time (s)")
    return figure


def gantt_diff(data: FigureData) -> Figure:
    """Draw two schedules of the same tasks above each other, coloured by when each task ends in the second.

    They are two schedulers of one run, or the same tasks in two runs. Below them is the change of every finish.
    """
    (first, name), (second, other) = data.schedules()
    rows = slice(*_middle(len(first.workload)))
    before = first.results[name].outcomes
    after = second.results[other].outcomes
    change = (after.finish - before.finish)[rows]
    moved = ((after.device != before.device) | (after.fraction != before.fraction))[rows]
    sooner = int((change < 0).sum())
    later = int((change > 0).sum())
    explanation = (
        f"tasks {rows.start + 1:,} to {rows.stop:,}: {int(moved.sum())} moved; in the second schedule {sooner} "
        f"end earlier (blue), {later} later (orange)"
    )
    count = min(_DEVICES, max(len(first.platform), len(second.platform)))
    begin, until = _window(first, [name], rows.start, rows.stop)
    other_begin, other_until = _window(second, [other], rows.start, rows.stop)
    window = min(begin, other_begin), max(until, other_until)
    with framed(data, "Two schedules of the same tasks", explanation, 3.1 + 2 * (0.5 + 0.19 * count)) as figure:
        tints = [(_SOONER if shift < 0 else _LATER if shift > 0 else QUIET, 0.9) for shift in change.tolist()]
        panels = figure.subplots(3, 1, height_ratios=[count, count, 6])
        for axes, comparison, spec in ((panels[0], first, name), (panels[1], second, other)):
            _gantt(axes, comparison, spec, rows.start, tints, window, f", {comparison.platform.name}")
        panels[1].set_xlabel("time (s)")
        numbers = np.arange(rows.start + 1, rows.stop + 1)
        panels[2].bar(numbers, np.nan_to_num(change), color=[color for color, _ in tints])
        panels[2].axhline(0.0, color=INK, linewidth=0.8)
        panels[2].set_xlabel("task")
        panels[2].set_ylabel("finish later by (s)")
    return figure


def _middle(total: int) -> tuple[int, int]:
    """Return begin and end of the tasks that are drawn: a few dozen in the middle of the run."""
    first = max(0, total // 2 - _TASKS // 2)
    return first, min(total, first + _TASKS)


def _gantt(
    axes: Axes, comparison: Comparison, name: str, first: int, tints: Sequence[tuple[str, float]],
    window: tuple[float, float], remark: str = "",
) -> None:  # fmt: skip
    """Draw the parts in a window of time: tasks from `first` on with their colours and opacities, others grey."""
    devices = comparison.platform.devices[:_DEVICES]
    count = len(devices)
    rows, device, start, end = comparison.results[name].outcomes.intervals(comparison.platform.cpu_of)
    begin, until = window
    inside = (end > begin) & (start < until) & (device < count)
    columns = (rows[inside], device[inside], start[inside], end[inside])
    for row, where, opened, closed in zip(*(column.tolist() for column in columns), strict=True):
        chosen = first <= row < first + len(tints)
        color, alpha = tints[row - first] if chosen else (HAIRLINE, 1.0)
        axes.barh(
            count - 1 - where, closed - opened, left=opened, height=0.74, linewidth=0.4, edgecolor="white",
            color=color, alpha=alpha,
        )  # fmt: skip
        visible = min(closed, until) - max(opened, begin)
        if chosen and visible > 0.035 * (until - begin):
            axes.text(
                max(opened, begin) + visible / 2, count - 1 - where, f"{row + 1}", size=6.5, color="white",
                ha="center", va="center_baseline", clip_on=True,
            )  # fmt: skip
    axes.set_xlim(*window)
    axes.set_ylim(-0.55, count - 0.45)
    axes.set_title(
        f"{look_of(name).glyph}  {label_of(name)}{remark}", loc="left", size=9.5, color=look_of(name).light
    )
    axes.set_yticks(range(count), [device.name for device in reversed(devices)])
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0, labelsize=7.5, labelcolor=QUIET)


def _window(comparison: Comparison, names: list[str], first: int, last: int) -> tuple[float, float]:
    """Return begin and end of the chart.

    It covers the chosen tasks, but at most three times the span of their arrivals; a run with few tasks is drawn
    to its end.
    """
    arrival = comparison.workload.arrival_time[first:last]
    ends = [float(np.nanmax(comparison.results[name].outcomes.finish[first:last])) for name in names]
    begin = float(arrival[0])
    if float(np.ptp(comparison.workload.arrival_time)) == 0:
        begin = min(float(np.nanmin(comparison.results[name].outcomes.start[first:last])) for name in names)
    if last - first == len(comparison.workload):
        return begin, max(ends)
    longest = max(3.0 * float(np.ptp(arrival)), 0.02 * float(max(ends) - begin))
    end = min(max(ends), begin + longest) if longest > 0 else max(ends)
    return begin, end
