"""What the tasks are like: their sizes, intensities, memory and arrivals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core import Floats
from ..figure_data import FigureData
from ..figure_style import INK, heading
from ..performance_analysis import three_digits
from .figure_layout import framed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOR = "#475569"
#: Longer tails are shown on a logarithmic axis.
_LONG_TAIL = 30.0


def workload(evidence: FigureData) -> Figure:
    tasks = evidence.full().workload
    gaps = np.diff(tasks.arrival_time)
    together = not (gaps > 0).any()
    with framed(evidence, "The workload", "number of tasks; dark line: median", 5.6) as figure:
        (first, second), (third, fourth) = figure.subplots(2, 2)
        _histogram(first, "a", "Size", "N", tasks.size)
        _histogram(second, "b", "Compute intensity", "share of the work a GPU speeds up", tasks.compute_intensity)
        _histogram(third, "c", "Memory", "MB", tasks.memory_required)
        if together:
            heading(fourth, "d", "Time between arrivals", "all tasks are there from the start")
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
    axes.stairs(counts, edges, fill=True, color=_COLOR, alpha=0.35)
    axes.stairs(counts, edges, color=_COLOR, linewidth=0.9)
    axes.axvline(middle, color=INK, linewidth=1.1)
    low, high = np.quantile(values, (0.05, 0.95))
    heading(
        axes, letter, title, f"median {three_digits(middle)}, 90 % from {three_digits(low)} to {three_digits(high)}"
    )
    axes.set_xlabel(unit)
    axes.set_ylim(bottom=0)
