"""Panels that several figures share: GPU fractions as histograms and over time, and the line of a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core import Floats
from .figure_style import HAIRLINE, INK, QUIET, line_style, look_of, name_rows, three_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 40
_POINTS = 160


def fraction_histograms(axes: Axes, names: Sequence[str], fractions: Mapping[str, Floats]) -> None:
    """Draw one histogram per scheduler, below each other because overlaid ones cannot be read; NaN is left out."""
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    for row, name in enumerate(names):
        values = fractions[name][np.isfinite(fractions[name])]
        bottom = len(names) - 1.4 - row
        counts, _ = np.histogram(values, edges)
        heights = 0.8 * counts / max(counts.max(), 1)
        color = look_of(name).light
        axes.axhline(bottom, color=HAIRLINE, linewidth=0.5, zorder=1)
        axes.stairs(bottom + heights, edges, baseline=bottom, fill=True, color=color, alpha=0.35)
        axes.stairs(bottom + heights, edges, baseline=bottom, color=color, linewidth=0.9)
        if len(values):
            mean = float(values.mean())
            axes.plot([mean, mean], [bottom, bottom + 0.8], color=INK, linewidth=1.1, zorder=4)
            axes.annotate(
                f"{mean:.2f}", (1, bottom + 0.4), (8, 0), xycoords=("axes fraction", "data"), color=QUIET, size=8.5,
                textcoords="offset points", va="center", annotation_clip=False,
            )  # fmt: skip
    name_rows(axes, names)
    axes.set_xlim(-0.01, 1.01)
    axes.set_xlabel("GPU fraction of the task (0 = CPU alone, 1 = GPU alone)")


def moving_window(count: int) -> int:
    """Return the tasks of a moving mean; even, so that what alternates from task to task has a steady mean."""
    return min(count, 2 * max(5, count // 40))


def fractions_over_time(axes: Axes, names: Sequence[str], arrival: Floats, fractions: Mapping[str, Floats]) -> None:
    """Draw the moving mean of the GPU fraction of each scheduler, the last one on top."""
    count = len(arrival)
    window = moving_window(count)
    spread_out = count > 1 and float(np.ptp(arrival)) > 0
    time = arrival - arrival[0] if spread_out else np.arange(1.0, count + 1.0)
    for order, name in enumerate(names):
        means = rolling_mean(fractions[name], window)
        points = np.unique(np.linspace(0, len(means) - 1, _POINTS).astype(int))
        every = max(1, len(points) // 6)
        # Markers of different lines are at different places, so that none hides another.
        first = order * every // len(names)
        places = time[window - 1 :][points]
        axes.plot(places, means[points], markevery=(first, every), zorder=3 + order, **line_style(name))
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("GPU fraction, moving mean")
    axes.set_xlabel("arrival time (s)" if spread_out else "task, in order: all arrive at once")
    axes.margins(x=0.01)


def bound_line(axes: Axes, bound: float | None, words: str, unit: str) -> None:
    """Draw the line of a bound, with its text above all rows on the side that has more space."""
    if not bound or not np.isfinite(bound):
        return
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, bound * 0.97 if low > 0 else low), max(high, bound * 1.05))
    axes.axvline(bound, color=INK, linewidth=1.0, linestyle=(0, (3, 2)), zorder=4)
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top + 0.7)
    place = axes.transAxes.inverted().transform(axes.transData.transform([(bound, 0)]))[0][0]
    on_left = place > 0.5
    axes.annotate(
        f"{words} {three_digits(bound)}{unit}", (bound, 1.0), (-5 if on_left else 5, -2), size=8.5, va="top",
        xycoords=("data", "axes fraction"), textcoords="offset points", ha="right" if on_left else "left",
        color=INK, zorder=6, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
    )  # fmt: skip


def rolling_mean(values: Floats, window: int) -> Floats:
    """Return the mean of every `window` consecutive values; NaN are left out unless all are NaN."""
    known = np.isfinite(values)
    totals = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    seen = counts[window:] - counts[:-window]
    sums: Floats = totals[window:] - totals[:-window]
    means: Floats = np.divide(sums, seen, out=np.full(len(sums), np.nan), where=seen > 0)
    return means
