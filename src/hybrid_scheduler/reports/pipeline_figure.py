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
    HAIRLINE,
    INK,
    LEGEND,
    QUIET,
    heading,
    label_of,
    legend_columns,
    line_style,
    look_of,
    new_figure,
    style_context,
    three_digits,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Scheduler that speed-ups refer to.
_BASELINE = "cpu_only"
#: Inches; 3240 x 2550 dots at 300 dpi.
SIZE = (10.8, 8.5)
_BINS = 25
_LINES_POINTS = 160


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
    with style_context():
        figure = new_figure(*SIZE, above=0.07, below=0.07)
        (top_left, top_right), (bottom_left, bottom_right) = figure.subplots(2, 2)
        _histograms(top_left, performance)
        _allocation(top_right, performance)
        _makespans(bottom_left, performance)
        _speed_ups(bottom_right, performance)
        _frame(figure, performance)
        figure.draw_without_rendering()  # the layout is computed here, while the style still holds
    figure.set_dpi(DPI)
    return figure


def _frame(figure: Figure, performance: Performance) -> None:
    """Add title and facts above, and one legend for all panels below."""
    from matplotlib.lines import Line2D

    figure.text(0.012, 0.985, "GPU fractions and speed-ups", size=14, weight="bold", va="top")
    figure.text(0.012, 0.953, "  ·  ".join(performance.caption), size=9, color=QUIET, va="top")
    names = performance.best_first
    samples = [Line2D([], [], label=label_of(name), **line_style(name)) for name in names]
    columns = legend_columns(names, SIZE[0], most=5)
    figure.legend(
        handles=samples, loc="lower center", bbox_to_anchor=(0.5, 0.004), ncols=columns, labelcolor=INK, **LEGEND
    )


# ------------------------------------------------------------------------------------------ panels


def _histograms(axes: Axes, performance: Performance) -> None:
    """Draw one row per scheduler, because overlaid histograms of eight schedulers cannot be read."""
    explanation = "tasks, scaled per row; line: mean"
    heading(axes, "a", "GPU fraction of each task", explanation)
    names = performance.best_first
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    for row, name in enumerate(names):
        look, values = look_of(name), performance.fractions[name]
        known = values[np.isfinite(values)]
        counts, _ = np.histogram(known, edges)
        heights = 0.78 * counts / max(counts.max(), 1)
        base = len(names) - 1 - row
        axes.axhline(base, color=HAIRLINE, linewidth=0.5, zorder=1)
        axes.stairs(base + heights, edges, baseline=base, fill=True, color=look.light, alpha=0.35, zorder=2)
        axes.stairs(base + heights, edges, baseline=base, color=look.light, linewidth=0.9, zorder=3)
        if len(known):
            mean = float(known.mean())
            axes.plot([mean, mean], [base, base + 0.78], color=INK, linewidth=1.1, zorder=4, solid_capstyle="butt")
            axes.annotate(
                f"{mean:.2f}", (1, base + 0.28), (6, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", color=look.light, size=8.5, va="center", annotation_clip=False,
            )  # fmt: skip
    axes.annotate(
        "mean", (1, 1), (6, 2), xycoords="axes fraction", textcoords="offset points", color=QUIET, size=8.5,
        annotation_clip=False,
    )  # fmt: skip
    _name_rows(axes, names, offset=0.28)
    axes.set_ylim(-0.12, len(names) - 0.05)
    axes.set_xlim(-0.01, 1.01)
    axes.set_xlabel("GPU fraction of the task (0 = CPU alone, 1 = GPU alone)")
    axes.grid(False, axis="y")


def _allocation(axes: Axes, performance: Performance) -> None:
    count = len(performance.arrival)
    window = min(count, 2 * max(5, count // 40))  # even: what alternates from task to task has a steady mean
    heading(axes, "b", "Allocation over time", f"mean GPU fraction of the last {window:,} tasks")
    spread_out = count > 1 and float(np.ptp(performance.arrival)) > 0
    time = performance.arrival - performance.arrival[0] if spread_out else np.arange(1.0, count + 1.0)
    # Best last: its line lies on top.
    for order, name in enumerate(reversed(performance.best_first)):
        means = rolling_mean(performance.fractions[name], window)
        points = np.unique(np.linspace(0, len(means) - 1, _LINES_POINTS).astype(int))
        markers = max(1, len(points) // 6)
        # Markers of different lines are at different places, so that none hides another.
        first = order * markers // len(performance.makespans)
        places = time[window - 1 :][points]
        axes.plot(places, means[points], markevery=(first, markers), zorder=3 + order, **line_style(name))
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("GPU fraction, moving mean")
    axes.set_xlabel("arrival time (s)" if spread_out else "task, in order: all arrive at once")
    axes.margins(x=0.01)


def _makespans(axes: Axes, performance: Performance) -> None:
    heading(axes, "c", "Makespan", "first arrival to last finish; shorter is better")
    _bars(axes, performance, [performance.makespans[name] for name in performance.best_first], "")
    axes.set_xlabel("makespan (s)")
    _bound_line(axes, performance.lower_bound, "no schedule can be shorter:", " s")


def _speed_ups(axes: Axes, performance: Performance) -> None:
    explanation = "ratio of makespans; longer is better"
    heading(axes, "d", f"Speed-up over {label_of(_BASELINE)}", explanation)
    _bars(axes, performance, [performance.speed_up(name) for name in performance.best_first], "×")
    axes.set_xlabel(f"speed-up (×, {label_of(_BASELINE)} = 1)")
    bound = performance.lower_bound
    _bound_line(
        axes, performance.makespans[_BASELINE] / bound if bound else None, "no schedule can gain more:", "×"
    )


def _bars(axes: Axes, performance: Performance, values: Sequence[float], unit: str) -> None:
    names = performance.best_first
    finite = [value for value in values if np.isfinite(value)]
    largest = max([*finite, performance.lower_bound or 0.0 if unit == "" else 1.0])
    for row, (name, value) in enumerate(zip(names, values, strict=True)):
        look, base = look_of(name), len(names) - 1 - row
        if not np.isfinite(value):
            continue
        axes.barh(base, value, height=0.62, color=look.light, alpha=0.88, linewidth=0, zorder=2)
        # Inside a long bar, so that the line of the bound at its end crosses no number.
        inside = value > 0.5 * largest
        axes.annotate(
            f"{three_digits(value)}{unit}", (value, base), (-6 if inside else 6, 0), textcoords="offset points",
            ha="right" if inside else "left", va="center_baseline", size=8.5, zorder=5,
            color="white" if inside else INK, weight="bold" if inside else "normal",
        )  # fmt: skip
    _name_rows(axes, names)
    axes.set_ylim(-0.55, len(names) - 0.3)
    axes.set_xlim(0, 1.14 * largest if largest > 0 else 1.0)
    axes.grid(False, axis="y")


def _bound_line(axes: Axes, at: float | None, words: str, unit: str) -> None:
    if at is None or not np.isfinite(at):
        return
    axes.set_xlim(0, max(axes.get_xlim()[1], 1.14 * at))
    axes.axvline(at, color=INK, linewidth=1.0, linestyle=(0, (3, 2)), zorder=4)
    # On the side of the line with more space, above all bars.
    right_half = at > 0.5 * axes.get_xlim()[1]
    axes.annotate(
        f"{words} {three_digits(at)}{unit}", (at, 0.985), (-5 if right_half else 5, 0), size=8.5, color=INK,
        va="top", xycoords=("data", "axes fraction"), textcoords="offset points",
        ha="right" if right_half else "left", zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
    )  # fmt: skip
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top + 0.55)


def _name_rows(axes: Axes, names: Sequence[str], offset: float = 0.0) -> None:
    axes.set_yticks([len(names) - 1 - row + offset for row in range(len(names))])
    axes.set_yticklabels([f"{label_of(name)}  {look_of(name).glyph}" for name in names])
    for tick, name in zip(axes.get_yticklabels(), names, strict=True):
        tick.set_color(look_of(name).light)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


# ------------------------------------------------------------------------------------------ numbers


def rolling_mean(values: Floats, window: int) -> Floats:
    """Return the mean of every `window` consecutive values; NaN are left out unless all are NaN."""
    known = np.isfinite(values)
    totals = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    seen = counts[window:] - counts[:-window]
    sums: Floats = totals[window:] - totals[:-window]
    means: Floats = np.divide(sums, seen, out=np.full(len(sums), np.nan), where=seen > 0)
    return means
