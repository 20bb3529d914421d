"""Table of schedulers by their metrics, as `simulate`, `heavy` and `pipeline` print it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.text import Text

from .printer import (
    DOLLARS,
    EXTRA,
    JOULES,
    SECONDS,
    Column,
    Unit,
    percent,
    significant,
    three_decimals,
    unit_for,
    with_unit,
)

_LEAST = "least"
_MOST = "most"
_NEITHER = "neither"


class _Metric(NamedTuple):
    """A column: its header, its metric, its units or format, its rank, and which value is best."""

    header: str
    name: str
    shown: Any
    rank: int
    best: str = _LEAST


def _percent_of_time(share: float | None) -> str:
    return percent(share) if share is None or not share < 0.1 else f"{100 * share:.2f}%"


_METRICS = (
    _Metric("latency\nmean{interval}, {unit}", "mean_latency", SECONDS, 0),
    _Metric("p99\n{unit}", "p99_latency", SECONDS, 1),
    _Metric("p99.9\n{unit}", "p999_latency", SECONDS, 6),
    _Metric("max\n{unit}", "max_latency", SECONDS, 7),
    _Metric("time\n{unit}", "mean_time", SECONDS, 8),
    _Metric("mean /\nbound", "latency_over_bound", significant, 5),
    _Metric("span /\nbound", "makespan_over_bound", significant, 2),
    _Metric("energy\n{unit}", "energy", JOULES, 3),
    _Metric("cost\n{unit}", "cost", DOLLARS, 4),
    _Metric("load\nbalance", "load_balance", three_decimals, 9, _MOST),
    _Metric("wait\n{unit}", "mean_wait", SECONDS, EXTRA + 1),
    _Metric("slow-\ndown", "mean_slowdown", significant, EXTRA),
    _Metric("busy", "average_utilization", percent, EXTRA + 2, _NEITHER),
    _Metric("on\nGPU", "mean_gpu_fraction", percent, EXTRA + 3, _NEITHER),
    _Metric("p50\n{unit}", "p50_latency", SECONDS, EXTRA + 4),
    _Metric("p95\n{unit}", "p95_latency", SECONDS, EXTRA + 5),
    _Metric("tasks\n/ s", "throughput", significant, EXTRA + 6, _MOST),
    _Metric("makespan\ns", "makespan", significant, EXTRA + 7),
    _Metric("speed-up\nover CPU", "speed_up_over_cpu_only", significant, 0, _MOST),
    _Metric("prediction\nerror", "prediction_error", _percent_of_time, 3, _NEITHER),
)
#: Metric that decides the unit of all columns in the same units.
_MEASURE = {SECONDS: "mean_latency", JOULES: "energy", DOLLARS: "cost"}


def metric_columns(names: Sequence[Text], rows: Sequence[Mapping[str, Any]], *, wide: bool) -> list[Column]:
    """Return the columns of the table, without metrics that no row has.

    Parameters
    ----------
    names
        Name of each scheduler.
    rows
        Its metrics, by their names in ``simulate --json``.
    wide
        Whether to add the columns for a large terminal.
    """
    units = {choice: unit_for([row[name] for row in rows], choice) for choice, name in _MEASURE.items()}
    columns = [Column("scheduler", names, number=False)]
    for metric in _METRICS:
        values = [row.get(metric.name) for row in rows]
        if (metric.rank >= EXTRA and not wide) or all(value is None for value in values):
            continue
        unit: Unit | None = units.get(metric.shown) if isinstance(metric.shown, tuple) else None
        show = unit.show if unit else metric.shown
        halves = [row.get(f"{metric.name}_half_width") for row in rows]
        cells = [
            show(value) if half is None else f"{show(value)} ± {show(half)}"
            for value, half in zip(values, halves, strict=True)
        ]
        interval = " ± 95 %" if any(half is not None for half in halves) else ""
        header = metric.header.format(interval=interval, unit=unit.symbol if unit else "")
        columns.append(Column(header, cells, metric.rank, best=_best(values, cells, metric.best)))
    return columns


def _best(values: Sequence[float | None], cells: Sequence[str], best: str) -> frozenset[int]:
    """Return the rows with the best value; none where all are equal."""
    known = [
        (value, cell) for value, cell in zip(values, cells, strict=True) if value is not None and value == value
    ]
    if best == _NEITHER or not known or len(set(cells)) == 1:
        return frozenset()
    _, winner = (min if best == _LEAST else max)(known)
    return frozenset(row for row, cell in enumerate(cells) if cell == winner)


def named(spec: str, text: str | None = None) -> Text:
    """Return a scheduler's glyph in its colour and a text; by default its name as it is typed."""
    from ..schedulers import schedulers
    from ..workload.argument_checks import parse_spec

    known = schedulers().get(parse_spec(spec)[0])
    mark = (known.look.glyph, known.look.dark) if known else ("·", "dim")
    return Text.assemble(mark, " ", text or spec)


def unit_of_metric(metric: str, values: Iterable[float | None]) -> tuple[float, str]:
    """Return the size of the unit that suits the values of a metric, and its symbol for a header: `, ms`."""
    if not metric.endswith(("_time", "_latency", "_wait", "makespan", "_regret")):
        return 1.0, ""
    unit = unit_for(values, SECONDS)
    return unit.size, f", {unit.symbol}"


def bound_text(bound: float | None) -> str:
    """Return the lower bound on the makespan as a fact of a run."""
    return f"lower bound {with_unit(bound, SECONDS)}" if bound else "no lower bound"
