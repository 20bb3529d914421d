"""Every figure by name, each a function from evidence to a matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core import UnknownNameError
from ..figure_data import FigureData, NothingToDraw
from . import model_quality, pareto_front, scheduler_bars, task_distributions, timelines, workload_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[FigureData], Figure]] = {
    "makespan": scheduler_bars.makespan,
    "average_duration": scheduler_bars.average_duration,
    "speed_up": scheduler_bars.speed_up,
    "cost_comparison": scheduler_bars.cost,
    "load_balance": scheduler_bars.load_balance,
    "latency_cdf": task_distributions.latency_cdf,
    "fraction_distribution": task_distributions.fractions,
    "workload": workload_figure.workload,
    "allocation": timelines.allocation,
    "pareto_front": pareto_front.pareto,
    "feature_importance": model_quality.importance,
    "predicted_actual": model_quality.predicted_actual,
    "learning_curves": model_quality.curves,
    "gantt": timelines.gantt,
}
FORMATS = ("png", "svg", "pdf")
DPI = 200


def draw(name: str, evidence: FigureData) -> Figure:
    """The figure of that name; raises `NothingToDraw` where the evidence lacks what it shows."""
    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    return FIGURES[name](evidence)


def draw_all(evidence: FigureData, names: Iterable[str] = FIGURES) -> dict[str, Figure]:
    """Those of the named figures that can be drawn, in order."""
    drawn: dict[str, Figure] = {}
    for name in names:
        try:
            drawn[name] = draw(name, evidence)
        except NothingToDraw:
            continue
    return drawn


def save(figure: Figure, folder: Path, name: str, formats: Sequence[str] = FORMATS) -> list[Path]:
    """One file per format. They hold no date, so that the same data give the same bytes."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind in formats:
        if kind not in FORMATS:
            raise UnknownNameError("figure format", kind, FORMATS)
        path = folder / f"{name}.{kind}"
        undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        # Text stays text, and names inside the file come from what is drawn and not from chance.
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "pdf.fonttype": 42}):
            figure.savefig(path, format=kind, dpi=DPI, metadata=undated)
        paths.append(path)
    return paths
