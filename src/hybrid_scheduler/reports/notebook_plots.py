"""Figures of a comparison that is at hand, as in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine import Comparison
from .figure_data import FigureData
from .figure_style import SCREEN_DPI
from .figures import draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def gantt(comparison: Comparison) -> Figure:
    """Some tasks in the middle of the run, device by device."""
    facts = [f"{len(comparison.workload):,} tasks", comparison.platform.name]
    figure = draw("gantt", FigureData({}, facts, comparison=comparison))
    figure.set_dpi(SCREEN_DPI)
    return figure
