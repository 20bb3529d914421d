"""Every figure by name, each a function from evidence to a matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core import UnknownNameError
from ..evidence import Evidence, NothingToDraw
from . import bars, course, front, learned, spread, tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[Evidence], Figure]] = {
    "makespan": bars.makespan,
    "average_duration": bars.average_duration,
    "speed_up": bars.speed_up,
    "cost_comparison": bars.cost,
    "load_balance": bars.load_balance,
    "latency_cdf": spread.latency_cdf,
    "fraction_distribution": spread.fractions,
    "workload": tasks.workload,
    "allocation": course.allocation,
    "pareto_front": front.pareto,
    "feature_importance": learned.importance,
    "predicted_actual": learned.predicted_actual,
    "learning_curves": learned.curves,
    "gantt": course.gantt,
}
FORMATS = ("png", "svg", "pdf")
DPI = 200


def draw(name: str, evidence: Evidence) -> Figure:
    """The figure of that name; raises `NothingToDraw` where the evidence lacks what it shows."""
    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    return FIGURES[name](evidence)


def draw_all(evidence: Evidence, names: Iterable[str] = FIGURES) -> dict[str, Figure]:
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
