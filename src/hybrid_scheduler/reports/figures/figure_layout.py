"""Layout that all figures share: titles, legends, row labels, and marks with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ...metrics.statistics import Interval
from ..figure_data import FigureData
from ..figure_style import (
    HAIRLINE,
    INK,
    LEGEND,
    QUIET,
    label_of,
    legend_columns,
    line_style,
    look_of,
    new_figure,
    style_context,
)
from ..performance_analysis import three_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 7.4
_MOST_COLUMNS = 4
#: Ratio of largest to smallest value from which an axis is logarithmic, so that small values differ visibly.
_LOG_FROM = 12.0


@contextmanager
def framed(
    data: FigureData, title: str, explanation: str, height: float, *, legend: float = 0.0
) -> Iterator[Figure]:
    """Create a figure with its heading, and compute its layout when the block ends.

    Parameters
    ----------
    data
        Its caption is the line below the explanation.
    title, explanation
        The two lines above the panels.
    height, legend
        Height of the figure and of the space for the legend, in inches.
    """
    with style_context():
        figure = new_figure(_WIDTH, height, above=0.72 / height, below=legend / height)
        figure.text(0.1 / _WIDTH, 1 - 0.10 / height, title, size=13, weight="bold", va="top")
        figure.text(0.1 / _WIDTH, 1 - 0.36 / height, explanation, size=9, color=INK, va="top")
        figure.text(0.1 / _WIDTH, 1 - 0.54 / height, "  ·  ".join(data.caption), size=8, color=QUIET, va="top")
        yield figure
        figure.draw_without_rendering()


def legend_below(figure: Figure, names: Sequence[str]) -> None:
    """Add a legend of the schedulers below the panels, in as many columns as fit."""
    from matplotlib.lines import Line2D

    samples = [Line2D([], [], label=label_of(name), **line_style(name)) for name in names]
    figure.legend(
        handles=samples, loc="lower center", bbox_to_anchor=(0.5, 0.004), labelcolor=INK,
        ncols=legend_columns(names, _WIDTH, _MOST_COLUMNS), **LEGEND,
    )  # fmt: skip


def legend_height(names: Sequence[str]) -> float:
    """Return the height of the legend in inches."""
    return 0.12 + 0.2 * -(-len(names) // legend_columns(names, _WIDTH, _MOST_COLUMNS))


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows with the schedulers' names in their colours, the first on top."""
    axes.set_yticks([len(names) - 1 - row for row in range(len(names))])
    axes.set_yticklabels([f"{label_of(name)}  {look_of(name).glyph}" for name in names])
    for tick, name in zip(axes.get_yticklabels(), names, strict=True):
        tick.set_color(look_of(name).light)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(False, axis="y")


def dots(axes: Axes, intervals: dict[str, Interval], *, log: bool | None = None, unit: str = "") -> None:
    """Draw one row per scheduler: its mean as a mark, its interval as a line, and both as numbers."""
    names = list(intervals)
    values = np.array([[one.low, one.mean, one.high] for one in intervals.values()])
    positive = values[values > 0]
    spans = bool(len(positive)) and float(values[:, 1].max()) > _LOG_FROM * float(max(values[:, 1].min(), 0.0))
    logarithmic = spans and float(values.min()) > 0 if log is None else log
    for row, (name, one) in enumerate(intervals.items()):
        base, style = len(names) - 1 - row, line_style(name)
        axes.axhline(base, color=HAIRLINE, linewidth=0.5, zorder=1)
        axes.plot([one.low, one.high], [base, base], color=style["color"], linewidth=2.4, alpha=0.45, zorder=2)
        axes.plot(
            [one.mean], [base], linestyle="none", marker=style["marker"], markersize=7, color=style["color"],
            markerfacecolor=style["markerfacecolor"], markeredgewidth=1.3, zorder=3,
        )  # fmt: skip
        axes.annotate(
            f"{with_interval(one)}{unit}", (1, base), (8, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", size=8.5, va="center", color=INK, annotation_clip=False,
        )  # fmt: skip
    name_rows(axes, names)
    if logarithmic:
        axes.set_xscale("log")
        plain_log_ticks(axes)
    else:
        low, high = float(values.min()), float(values.max())
        # The axis covers at least some per cent, so that rounding errors do not look like differences.
        margin = max(0.08 * (high - low), 0.03 * abs(high)) or 1.0
        # From zero unless the differences would vanish; the axis says where it starts.
        axes.set_xlim(0 if low >= 0 and low < 0.6 * high else low - margin, high + margin)


def with_interval(one: Interval) -> str:
    """Return ``0.0108 ± 0.0007`` with as many digits as the interval justifies; a tiny interval is left out."""
    half = one.half_width
    if not np.isfinite(half) or half <= 1e-6 * abs(one.mean):
        return three_digits(one.mean)
    digits = min(max(0, 1 - int(np.floor(np.log10(half)))), 4 if abs(one.mean) >= 0.1 else 6)
    return f"{one.mean:,.{digits}f} ± {half:,.{digits}f}"


def plain_log_ticks(axes: Axes, which: str = "x") -> None:
    """Label a logarithmic axis with 0.1, 1, 10 instead of powers, and with few ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    decades = np.log10(high / low)
    steps = (1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=steps, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
