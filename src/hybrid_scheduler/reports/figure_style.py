"""Style of all figures: colours, glyphs and dashes of the schedulers, fonts, grid, resolution.

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

DPI = 300
#: Resolution of a figure in a notebook.
SCREEN_DPI = 110
INK, QUIET, HAIRLINE = "#1B2530", "#5A6775", "#DCE1E7"
#: Spaces of all legends in multiples of their text size; that size in points; inches that stay free at the sides.
LEGEND = {"handlelength": 3.4, "columnspacing": 1.8, "handletextpad": 0.8, "borderpad": 0.4, "borderaxespad": 0.5}
_LEGEND_SIZE, _SIDES = 8.5, 0.2
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
    "⬟": ("p", True), "⬢": ("h", True), "⬣": ("H", True), "✕": ("x", True), "✦": ("P", True),
    "▽": ("v", False), "△": ("^", False), "◇": ("D", False), "▣": ("s", False), "◈": ("d", False),
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


def legend_columns(names: Sequence[str], width: float, most: int) -> int:
    """Return the largest number of columns in which a legend of these schedulers fits a figure.

    Parameters
    ----------
    names
        The schedulers' specifications; labels with parameters are long.
    width
        Width of the figure in inches.
    most
        Largest number of columns.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=apply_style()["font.family"], size=_LEGEND_SIZE)
    texts = [text_to_path.get_text_width_height_descent(label_of(name), font, ismath=False)[0] for name in names]
    handle = (LEGEND["handlelength"] + LEGEND["handletextpad"]) * _LEGEND_SIZE
    for columns in range(min(most, len(names)), 1, -1):
        widest = sum(handle + max(column) for column in np.array_split(texts, columns))
        between = (columns - 1) * LEGEND["columnspacing"] * _LEGEND_SIZE
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
