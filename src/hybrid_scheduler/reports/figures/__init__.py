"""Figures by name, each a function from data to a matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core import UnknownNameError
from ...engine import Comparison
from ..figure_data import FigureData, MissingFigureData
from ..figure_style import SCREEN_DPI
from . import model_quality, scheduler_bars, task_distributions, timelines

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
    "workload": task_distributions.workload,
    "allocation": timelines.allocation,
    "pareto_front": scheduler_bars.pareto,
    "feature_importance": model_quality.importance,
    "predicted_actual": model_quality.predicted_actual,
    "learning_curves": model_quality.curves,
    "gantt": timelines.gantt,
}
#: Figures that are drawn only where they are asked for.
FIGURES_ON_REQUEST: dict[str, Callable[[FigureData], Figure]] = {
    "race": timelines.race,
    "gantt_diff": timelines.gantt_diff,
}
FORMATS = ("png", "svg", "pdf")
DPI = 200


def draw(
    name: str,
    data: FigureData | Comparison,
    *,
    other: Comparison | None = None,
    schedulers: tuple[str, str] | None = None,
) -> Figure:
    """Draw the figure of that name.

    Parameters
    ----------
    name
        A key of `FIGURES`, ``"race"`` or ``"gantt_diff"``.
    data
        Data of a report, or the result of `compare`.
    other
        For ``"gantt_diff"``: another run of the same tasks.
    schedulers
        For ``"gantt_diff"``: the two schedulers, the first of `data` and the second of `other`; by default the best
        two, or the best of `data` in both runs.

    Raises
    ------
    UnknownNameError
        If there is no such figure.
    MissingFigureData
        If the data lack what the figure shows.
    """
    known = {**FIGURES, **FIGURES_ON_REQUEST}
    if name not in known:
        raise UnknownNameError("figure", name, known)
    if isinstance(data, FigureData):
        given = {key: value for key, value in (("other", other), ("pair", schedulers)) if value is not None}
        return known[name](replace(data, **given) if given else data)  # type: ignore[arg-type]
    facts = [f"{len(data.workload):,} tasks", data.platform.name]
    columns = {name: summary.as_dict() for name, summary in data.summaries.items()}
    metrics = [key for key, value in next(iter(columns.values())).items() if isinstance(value, int | float)]
    samples = {
        metric: {scheduler: np.array([float(row[metric])]) for scheduler, row in columns.items()}
        for metric in metrics
        if all(row[metric] is not None for row in columns.values())
    }
    numbers = FigureData(
        samples, facts, lower_bound=data.lower_bound, comparison=data, other=other, pair=schedulers
    )
    figure = known[name](numbers)
    figure.set_dpi(SCREEN_DPI)
    return figure


def draw_all(data: FigureData, names: Iterable[str] = FIGURES) -> dict[str, Figure]:
    """Draw those of the named figures whose data are available, in order."""
    drawn: dict[str, Figure] = {}
    for name in names:
        try:
            drawn[name] = draw(name, data)
        except MissingFigureData:
            continue
    return drawn


def gantt(comparison: Comparison) -> Figure:
    """Draw some tasks in the middle of a run, device by device, in the resolution of a screen.

    Parameters
    ----------
    comparison
        Result of `compare`.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it as it is.

    Examples
    --------
    >>> from hybrid_scheduler import WorkloadGenerator, compare, gantt
    >>> tasks = WorkloadGenerator(seed=1).generate_workload(50, utilisation=0.5)
    >>> figure = gantt(compare(tasks, ["greedy", "oracle"]))
    """
    return draw("gantt", comparison)


def save(figure: Figure, folder: Path, name: str, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Save one file per format, without dates, so that the same data give the same bytes."""
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
