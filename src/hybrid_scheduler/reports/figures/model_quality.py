"""Quality of learned models: feature importance, prediction errors and learning curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..figure_data import FigureData, MissingFigureData
from ..figure_style import (
    INK,
    QUIET,
    framed,
    heading,
    label_of,
    line_style,
    look_of,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_POINTS = 4000


def importance(data: FigureData) -> Figure:
    """Draw how much each property of a task changes the predicted durations."""
    if not data.importances:
        raise MissingFigureData("figure feature_importance", "drawn from runs with hybrid_ml", data.schedulers)
    names = list(data.importances)
    features = sorted(data.importances[names[0]], key=lambda f: data.importances[names[0]][f])
    explanation = "share of the change in predicted log seconds when the property is permuted between tasks"
    height = 1.6 + 0.34 * len(features) * max(1, len(names)) + 0.3
    with framed(data, "Feature importance", explanation, height) as figure:
        axes = figure.subplots()
        step = 0.8 / len(names)
        for order, name in enumerate(names):
            for row, feature in enumerate(features):
                share = data.importances[name].get(feature, 0.0)
                place = row + 0.4 - step * (order + 0.5)
                axes.barh(place, share, height=0.9 * step, color=look_of(name).light, alpha=0.85)
                axes.annotate(
                    f"{100 * share:.1f} %", (share, place), (5, 0), textcoords="offset points", size=8.5,
                    va="center", color=INK,
                )  # fmt: skip
        axes.set_yticks(range(len(features)), [feature.replace("_", " ") for feature in features])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, 1.12 * max(max(shares.values()) for shares in data.importances.values()))
        axes.set_xlabel("share")
        axes.grid(False, axis="y")
        if len(names) > 1:
            axes.legend([label_of(name) for name in names], loc="lower right")
    return figure


def _learners(data: FigureData, figure: str) -> list[str]:
    """Return the schedulers with predictions."""
    names = [name for name, values in data.predicted.items() if np.isfinite(values).any()]
    if not names:
        raise MissingFigureData(f"figure {figure}", "drawn from runs with a learner", data.schedulers)
    return names


def predicted_actual(data: FigureData) -> Figure:
    """Draw every task as a dot: its predicted time against its actual time."""
    comparison = data.single_run()
    names = _learners(data, "predicted_actual")
    explanation = "predicted before the task ran, against the actual time; on the line: exact"
    with framed(data, "Predicted and actual time", explanation, 4.3) as figure:
        panels = np.atleast_1d(figure.subplots(1, len(names)))
        for letter, axes, name in zip("abcdef", panels, names, strict=False):
            outcomes = comparison.results[name].outcomes
            predicted = data.predicted[name]
            actual = outcomes.time
            known = np.isfinite(predicted) & outcomes.completed & (predicted > 0) & (actual > 0)
            x = predicted[known]
            y = actual[known]
            error = float(np.median(np.abs(y / x - 1.0))) if len(x) else float("nan")
            heading(axes, letter, label_of(name), f"median error {100 * error:.2f} % of {len(x):,} tasks")
            keep = np.linspace(0, len(x) - 1, min(len(x), _MAX_POINTS)).astype(int)
            axes.plot(
                x[keep], y[keep], linestyle="none", marker=".", markersize=3, alpha=0.35, markeredgewidth=0,
                color=look_of(name).light, rasterized=True,
            )  # fmt: skip
            ends = [float(min(x.min(), y.min())), float(max(x.max(), y.max()))] if len(x) else [0.1, 1.0]
            axes.plot(ends, ends, color=INK, linewidth=0.8, zorder=1)
            for which in ("x", "y"):
                (axes.set_xscale if which == "x" else axes.set_yscale)("log")
                plain_log_ticks(axes, which)
            axes.set_xlabel("predicted time (s)")
            axes.set_ylabel("actual time (s)")
    return figure


def curves(data: FigureData) -> Figure:
    """Draw the prediction error during the run, and the score of each model version."""
    comparison = data.single_run()
    names = _learners(data, "learning_curves")
    window = max(20, len(comparison.workload) // 40)
    explanation = "predictions are scored before the task is learned from"
    with framed(data, "Learning curves", explanation, 3.6, legend=names) as figure:
        left, right = figure.subplots(1, 2)
        heading(left, "a", "Error of predicted times", f"median and middle half of every {window:,} tasks")
        heading(right, "b", "R² of each model version", "of log seconds, when the version was replaced")
        for name in names:
            style = line_style(name) | {"markersize": 3.5}
            outcomes = comparison.results[name].outcomes
            with np.errstate(invalid="ignore", divide="ignore"):
                error = 100 * np.abs(outcomes.time / data.predicted[name] - 1.0)
            blocks = [error[i : i + window] for i in range(0, len(error) - window + 1, window)]
            known = [
                (i, np.nanquantile(b, (0.25, 0.5, 0.75))) for i, b in enumerate(blocks) if np.isfinite(b).any()
            ]
            if known:
                places = [(i + 0.5) * window for i, _ in known]
                low, middle, high = np.array([quartiles for _, quartiles in known]).T
                left.fill_between(places, low, high, color=style["color"], alpha=0.15, linewidth=0)
                left.plot(places, middle, markevery=max(1, len(places) // 8), **style)
            scored = [(v.at_task, v.r2) for v in data.versions.get(name, ()) if v.r2 is not None]
            if scored:
                at, r2 = zip(*scored, strict=True)
                right.plot(at, r2, markevery=max(1, len(at) // 8), **style)
        left.set_ylim(bottom=0)
        left.set_xlabel("task")
        left.set_ylabel("error (% of the actual time)")
        right.set_xlabel("task at which it took over")
        if not right.lines:
            right.text(0.5, 0.5, "no version was scored", transform=right.transAxes, ha="center", color=QUIET)
        else:
            lowest = min(float(np.min(line.get_ydata())) for line in right.lines)
            right.set_ylim(min(0.9, lowest - 0.02), 1.005)
            right.annotate(
                f"lowest {lowest:.4f}", (1, 0), (-4, 4), xycoords="axes fraction", size=8.5, ha="right",
                textcoords="offset points", color=QUIET,
            )  # fmt: skip
    return figure
