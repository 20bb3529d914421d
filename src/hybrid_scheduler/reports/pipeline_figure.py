"""Figure of the pipeline: GPU fractions, makespans and speed-ups of the schedulers.

Panels: (a) a histogram of them per scheduler, (b) their mean over time, (c) makespans with the bound that no
schedule can beat, (d) speed-up over using the CPU only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core import Floats, InvalidInputError
from .figure_style import (
    DPI,
    INK,
    QUIET,
    heading,
    label_of,
    legend_below,
    look_of,
    name_rows,
    new_figure,
    style_context,
    three_digits,
)
from .panels import bound_line, fraction_histograms, fractions_over_time, moving_window

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Scheduler that speed-ups refer to.
_BASELINE = "cpu_only"
#: Inches; 3240 x 2550 dots at 300 dpi.
SIZE = (10.8, 8.5)


@dataclass(frozen=True)
class Performance:
    """Data of the figure: tasks in the order of arrival, one entry per scheduler."""

    arrival: Floats
    #: GPU fraction of every task; NaN where it failed.
    fractions: Mapping[str, Floats]
    makespans: Mapping[str, float]
    lower_bound: float | None = None
    #: Short facts for the line below the title.
    caption: Sequence[str] = ()

    def __post_init__(self) -> None:
        if _BASELINE not in self.makespans:
            raise InvalidInputError("schedulers", f"such that {_BASELINE} is among them", list(self.makespans))
        if set(self.fractions) != set(self.makespans):
            raise InvalidInputError("fractions", f"those of {', '.join(self.makespans)}", list(self.fractions))

    @property
    def best_first(self) -> list[str]:
        """Schedulers by makespan, shortest first."""
        return sorted(self.makespans, key=lambda name: self.makespans[name])

    def speed_up(self, name: str) -> float:
        """Return the makespan of the CPU alone divided by that of a scheduler."""
        span = self.makespans[name]
        return self.makespans[_BASELINE] / span if span > 0 else float("nan")


def draw(performance: Performance) -> Figure:
    """Draw the whole figure, ready to be saved."""
    names = performance.best_first
    window = moving_window(len(performance.arrival))
    bound = performance.lower_bound
    baseline = label_of(_BASELINE)
    with style_context():
        figure = new_figure(*SIZE, above=0.07, below=0.07)
        (shares, allocation), (spans, speed_ups) = figure.subplots(2, 2)
        heading(shares, "a", "GPU fraction of each task", "tasks, scaled per row; line and number: mean")
        fraction_histograms(shares, names, performance.fractions)
        heading(allocation, "b", "Allocation over time", f"mean GPU fraction of the last {window:,} tasks")
        # Best last: its line lies on top.
        fractions_over_time(allocation, names[::-1], performance.arrival, performance.fractions)
        heading(spans, "c", "Makespan", "first arrival to last finish; shorter is better")
        _bars(spans, performance, [performance.makespans[name] for name in names], "")
        spans.set_xlabel("makespan (s)")
        bound_line(spans, bound, "no schedule can be shorter:", " s")
        heading(speed_ups, "d", f"Speed-up over {baseline}", "ratio of makespans; longer is better")
        _bars(speed_ups, performance, [performance.speed_up(name) for name in names], "×")
        speed_ups.set_xlabel(f"speed-up (×, {baseline} = 1)")
        most = performance.makespans[_BASELINE] / bound if bound else None
        bound_line(speed_ups, most, "no schedule can gain more:", "×")
        figure.text(0.012, 0.985, "GPU fractions and speed-ups", size=14, weight="bold", va="top")
        figure.text(0.012, 0.953, "  ·  ".join(performance.caption), size=9, color=QUIET, va="top")
        legend_below(figure, names, SIZE[0], most=5)
        figure.draw_without_rendering()  # the layout is computed here, while the style still holds
    figure.set_dpi(DPI)
    return figure


def _bars(axes: Axes, performance: Performance, values: Sequence[float], unit: str) -> None:
    names = performance.best_first
    finite = [value for value in values if np.isfinite(value)]
    largest = max([*finite, performance.lower_bound or 0.0 if unit == "" else 1.0])
    for row, (name, value) in enumerate(zip(names, values, strict=True)):
        if not np.isfinite(value):
            continue
        base = len(names) - 1 - row
        axes.barh(base, value, height=0.62, color=look_of(name).light, alpha=0.88, linewidth=0, zorder=2)
        # Inside a long bar, so that the line of the bound at its end crosses no number.
        inside = value > 0.5 * largest
        axes.annotate(
            f"{three_digits(value)}{unit}", (value, base), (-6 if inside else 6, 0), textcoords="offset points",
            ha="right" if inside else "left", va="center_baseline", size=8.5, zorder=5,
            color="white" if inside else INK, weight="bold" if inside else "normal",
        )  # fmt: skip
    name_rows(axes, names)
    axes.set_xlim(0, 1.14 * largest if largest > 0 else 1.0)
