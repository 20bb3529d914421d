"""File formats of results: CSV tables, and timelines for chrome://tracing and ui.perfetto.dev.

Tables have no NaN and infinity, and no cells that a spreadsheet would run: text that begins like a formula gets a
leading apostrophe. Numbers stay as they are. A timeline has one process per scheduler and one row per device.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..engine import Comparison

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def escape_formula(value: Any) -> Any:
    """Return the cell with a leading apostrophe if a spreadsheet would take it for a formula."""
    return "'" + value if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV file with these columns; None, NaN and infinity are empty cells."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(row[name]) for name in columns} for row in rows)


def _cell(value: Any) -> Any:
    is_unknown = value is None or (isinstance(value, float) and not math.isfinite(value))
    return "" if is_unknown else escape_formula(value)


#: A row of the timeline: its name, or the name of its group and its own.
_Row = str | tuple[str, str]
_Block = tuple[_Row, str, float, float, Mapping[str, Any]]

_MICROSECONDS = 1e6


def perfetto_trace(blocks: Iterable[_Block]) -> dict[str, Any]:
    """Return a document in Chrome's trace event format.

    Parameters
    ----------
    blocks
        Tuples (row, name, start, end, arguments), in seconds. Rows are numbered in the order of their first block.
    """
    groups: dict[str, int] = {}
    rows: dict[tuple[str, str], int] = {}
    spans = []
    names = []
    for place, name, start, end, arguments in blocks:
        group, row = ("hybrid-scheduler", place) if isinstance(place, str) else place
        if group not in groups:
            groups[group] = len(groups) + 1
            names.append(_name("process_name", groups[group], 0, group))
        if (group, row) not in rows:
            rows[group, row] = sum(1 for known, _ in rows if known == group) + 1
            names.append(_name("thread_name", groups[group], rows[group, row], row))
        spans.append(
            {
                "ph": "X",
                "name": name,
                "pid": groups[group],
                "tid": rows[group, row],
                "ts": start * _MICROSECONDS,
                "dur": max(end - start, 0.0) * _MICROSECONDS,
                "args": dict(arguments),
            }
        )
    return {"displayTimeUnit": "ms", "traceEvents": names + spans}


def comparison_blocks(comparison: Comparison) -> Iterator[_Block]:
    """Yield every executed part of every scheduler, device by device in the platform's order."""
    devices = [device.name for device in comparison.platform.devices]
    ids = comparison.workload.task_id.tolist()
    for scheduler, result in comparison.results.items():
        outcomes = result.outcomes
        rows, device, start, end = outcomes.intervals(comparison.platform.cpu_of)
        columns = sorted(zip(device.tolist(), start.tolist(), rows.tolist(), end.tolist(), strict=True))
        fraction = outcomes.fraction.tolist()
        arrival = outcomes.workload.arrival_time.tolist()
        for where, begin, row, until in columns:
            arguments = {"task": ids[row], "arrival": arrival[row], "gpu_fraction": fraction[row]}
            yield (scheduler, devices[where]), f"task {ids[row]}", begin, until, arguments


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
