"""Style and layout of all figures: colours and glyphs of the schedulers, fonts, titles, legends, row labels.

A scheduler is drawn in its light colour from the registry, with its glyph and dash as second and third cue, so that
a figure can be read in grey and by colour-blind people. There is no global state: figures are made without pyplot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import require
from ..engine.comparison import label_of as label_of
from ..schedulers import Look, schedulers
from ..workload.argument_checks import parse_spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..metrics.statistics import Interval
    from .figure_data import FigureData

DPI = 300
#: Width of a figure in inches, and the most columns of its legend.
_WIDTH = 7.4
_MAX_COLUMNS = 4
#: Ratio of largest to smallest value from which an axis is logarithmic, so that small values differ visibly.
_LOG_FROM = 12.0
#: Resolution of a figure in a notebook.
SCREEN_DPI = 110
INK = "#1B2530"
QUIET = "#5A6775"
HAIRLINE = "#DCE1E7"
#: Spaces of all legends in multiples of their text size; that size in points; inches that stay free at the sides.
_LEGEND = {"handlelength": 3.4, "columnspacing": 1.8, "handletextpad": 0.8, "borderpad": 0.4, "borderaxespad": 0.5}
_LEGEND_SIZE = 8.5
_SIDES = 0.2
#: The first installed font is used; the last one comes with matplotlib and has all glyphs.
_FONTS = ("Inter", "Source Sans 3", "Helvetica Neue", "Arial", "Liberation Sans", "DejaVu Sans")

_DASHES: dict[str, Any] = {
    "solid": "solid",
    "thin": "solid",
    "dashed": (0, (4, 1.6)),
    "long dash": (0, (8, 2)),
    "dotted": (0, (1, 1.4)),
    "dash-dot": (0, (5, 1.5, 1, 1.5)),
}
#: glyph -> matplotlib's marker, and whether it is filled
_MARKERS = {
    "●": ("o", True), "■": ("s", True), "▲": ("^", True), "▼": ("v", True), "◆": ("D", True), "★": ("*", True),
    "⬟": ("p", True), "⬢": ("h", True), "⬣": ("H", True), "✕": ("x", True), "✦": ("P", True), "○": ("o", False),
    "▽": ("v", False), "△": ("^", False), "◇": ("D", False), "▣": ("s", False), "◈": ("d", False)
}  # fmt: skip


def look_of(spec: str) -> Look:
    """Return the look of a scheduler; a neutral one if it is not installed."""
    known = schedulers().get(parse_spec(spec)[0])
    return known.look if known else Look()


def line_style(spec: str) -> dict[str, Any]:
    """Return the keywords of matplotlib for a scheduler's line: colour, dash, width and marker."""
    look = look_of(spec)
    marker, filled = _MARKERS.get(look.glyph, ("o", True))
    return {
        "color": look.light,
        "linestyle": _DASHES.get(look.dash, "solid"),
        "linewidth": 0.9 if look.dash == "thin" else 1.5,
        "marker": marker,
        "markersize": 6.5 if marker == "*" else 4.5,
        "markerfacecolor": look.light if filled else "white",
        "markeredgecolor": look.light,
        "markeredgewidth": 1.0,
    }


def apply_style() -> dict[str, Any]:
    """Return the rcParams of all figures; in a notebook: `plt.rcParams.update(apply_style())`.

    A notebook shows figures in the resolution of a screen, so that it stays small; files have the full one.
    """
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    fonts = [font for font in _FONTS if font in installed]
    return {
        "font.family": [fonts[0], "DejaVu Sans"],
        "font.size": 9.0,
        "text.color": INK,
        "axes.edgecolor": QUIET,
        "axes.labelcolor": QUIET,
        "axes.labelsize": 9.0,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": HAIRLINE,
        "grid.linewidth": 0.5,
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "xtick.major.size": 3.0,
        "xtick.major.width": 0.6,
        "ytick.major.size": 3.0,
        "ytick.major.width": 0.6,
        "legend.frameon": False,
        "legend.fontsize": _LEGEND_SIZE,
        "figure.dpi": SCREEN_DPI,
        "figure.facecolor": "white",
        "savefig.dpi": DPI,
    }


@contextmanager
def style_context() -> Iterator[None]:
    """Apply the project's figure style within this block."""
    matplotlib = require("matplotlib", "a figure")
    settings: Any = {**apply_style(), "figure.dpi": DPI}
    with matplotlib.rc_context(settings):
        yield


def new_figure(width: float, height: float, *, above: float = 0.0, below: float = 0.0) -> Figure:
    """Return an empty figure with automatic layout.

    Parameters
    ----------
    width, height
        Size in inches.
    above, below
        Shares of the height that stay free for a title and a legend.
    """
    require("matplotlib", "a figure")
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    area = (0.0, below, 1.0, 1.0 - above - below)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.10, wspace=0.05, hspace=0.06, rect=area)
    return Figure(figsize=(width, height), layout=layout)


def _legend_columns(names: Sequence[str], width: float, most: int) -> int:
    """Return the largest number of columns in which a legend fits a width in inches; long labels need more."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=apply_style()["font.family"], size=_LEGEND_SIZE)
    texts = [text_to_path.get_text_width_height_descent(label_of(name), font, ismath=False)[0] for name in names]
    handle = (_LEGEND["handlelength"] + _LEGEND["handletextpad"]) * _LEGEND_SIZE
    for columns in range(min(most, len(names)), 1, -1):
        widest = sum(handle + max(column) for column in np.array_split(texts, columns))
        between = (columns - 1) * _LEGEND["columnspacing"] * _LEGEND_SIZE
        if widest + between <= (width - _SIDES) * 72.0:
            return columns
    return 1


def heading(axes: Axes, letter: str, title: str, explanation: str) -> None:
    """Write a panel's letter and title in bold, and the explanation below it."""
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "left"}
    # At the left edge of the axes, so that the headings of a column are aligned.
    axes.annotate(f"{letter}   {title}", (0, 1), (0, 20), weight="bold", size=10.5, **place)
    axes.annotate(explanation, (0, 1), (0, 8), color=QUIET, size=8.5, **place)


def save_png(figure: Figure, path: Path) -> None:
    """Save with 300 dots per inch and without date or version, so that the same data give the same bytes."""
    figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def three_digits(value: float) -> str:
    """Return three significant digits with thousands separators: 1.02, 23.4, 1,230."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - int(np.floor(np.log10(abs(float(f"{value:.2e}"))))))
    return f"{float(f'{value:.2e}'):,.{digits}f}"


@contextmanager
def framed(
    data: FigureData, title: str, explanation: str, height: float, *, legend: Sequence[str] = ()
) -> Iterator[Figure]:
    """Create a figure with its heading, and compute its layout when the block ends.

    Parameters
    ----------
    data
        Its caption is the line below the explanation.
    title, explanation
        The two lines above the panels.
    height
        Height in inches, without the legend.
    legend
        Schedulers that a legend below the panels names.
    """
    with style_context():
        below = _legend_height(legend) if legend else 0.0
        height += below
        figure = new_figure(_WIDTH, height, above=0.72 / height, below=below / height)
        figure.text(0.1 / _WIDTH, 1 - 0.10 / height, title, size=13, weight="bold", va="top")
        figure.text(0.1 / _WIDTH, 1 - 0.36 / height, explanation, size=9, color=INK, va="top")
        figure.text(0.1 / _WIDTH, 1 - 0.54 / height, "  ·  ".join(data.caption), size=8, color=QUIET, va="top")
        yield figure
        if legend:
            legend_below(figure, legend)
        figure.draw_without_rendering()


def legend_below(figure: Figure, names: Sequence[str], width: float = _WIDTH, most: int = _MAX_COLUMNS) -> None:
    """Add a legend of the schedulers below the panels, in as many columns as fit the width in inches."""
    from matplotlib.lines import Line2D

    samples = [Line2D([], [], label=label_of(name), **line_style(name)) for name in names]
    figure.legend(
        handles=samples, loc="lower center", bbox_to_anchor=(0.5, 0.004), labelcolor=INK,
        ncols=_legend_columns(names, width, most), **_LEGEND,
    )  # fmt: skip


def _legend_height(names: Sequence[str]) -> float:
    """Return the height of the legend in inches."""
    return 0.12 + 0.2 * -(-len(names) // _legend_columns(names, _WIDTH, _MAX_COLUMNS))


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
    values = np.array([[interval.low, interval.mean, interval.high] for interval in intervals.values()])
    positive = values[values > 0]
    spans = bool(len(positive)) and float(values[:, 1].max()) > _LOG_FROM * float(max(values[:, 1].min(), 0.0))
    logarithmic = spans and float(values.min()) > 0 if log is None else log
    for row, (name, interval) in enumerate(intervals.items()):
        base = len(names) - 1 - row
        style = line_style(name)
        axes.axhline(base, color=HAIRLINE, linewidth=0.5, zorder=1)
        axes.plot(
            [interval.low, interval.high], [base, base], color=style["color"], linewidth=2.4, alpha=0.45, zorder=2
        )
        axes.plot(
            [interval.mean], [base], linestyle="none", marker=style["marker"], markersize=7, color=style["color"],
            markerfacecolor=style["markerfacecolor"], markeredgewidth=1.3, zorder=3,
        )  # fmt: skip
        axes.annotate(
            f"{with_interval(interval)}{unit}", (1, base), (8, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", size=8.5, va="center", color=INK, annotation_clip=False,
        )  # fmt: skip
    name_rows(axes, names)
    if logarithmic:
        axes.set_xscale("log")
        plain_log_ticks(axes)
    else:
        low = float(values.min())
        high = float(values.max())
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
