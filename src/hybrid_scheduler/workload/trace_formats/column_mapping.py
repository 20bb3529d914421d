"""Tables with columns of their own: which column gives which value of a task."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ...core import InvalidInputError, UnknownNameError, Workload
from ..argument_checks import positive_number
from ..trace_columns import RULES, ColumnRule, ReadReport, workload_from
from .reader_tools import (
    UNKNOWN_INTENSITY,
    UNKNOWN_MEMORY,
    TaskCollector,
    WrongCells,
    calendar_seconds,
    number,
    table_of,
)

#: Values of a task that a table with other column names can give. `seconds` is the run time on a CPU, from which
#: the size follows; a table gives it or `size`.
_MAPPED_COLUMNS = ("size", "seconds", "compute_intensity", "memory_required", "arrival_time")


_SOURCE = re.compile(r"(?P<column>.+?)(?: - (?P<minus>.+?))?(?: \* (?P<factor>\S+))?")
_PATTERNS = {
    "arrival": r"arriv|submit|creat|queued", "any time": r"start|begin|time", "end": r"end|finish|complet|delet",
    "seconds": r"duration|run_?time|seconds|elapsed", "start": r"start|begin|schedul", "memory": r"mem|mb$|mib$",
    "size": r"^size$|work|flop|tokens", "intensity": r"intens",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ValueSource:
    """Source of one value of a task: a column, the difference of two columns, or a fixed value.

    Parameters
    ----------
    column
        Name of the column; None for a fixed value.
    minus
        Column to subtract, such as the start from the end.
    value
        The fixed value.
    factor
        Multiplies the column's value, for other units.
    """

    column: str | None = None
    minus: str | None = None
    value: float | None = None
    factor: float = 1.0

    def of(self, row: dict[str, str]) -> float:
        """Return the value in a row; NaN if a cell is neither a number nor a date."""
        if self.column is None:
            return math.nan if self.value is None else self.value
        given = _cell(row[self.column])
        return (given if self.minus is None else given - _cell(row[self.minus])) * self.factor

    def text(self, row: dict[str, str]) -> str:
        """Return the cells of a row that the value comes from, for messages."""
        names = [name for name in (self.column, self.minus) if name is not None]
        return " - ".join(row[name] for name in names) if names else str(self.value)

    @classmethod
    def parsed(cls, text: str) -> ValueSource:
        """Return a source from text: ``work``, ``end - start``, ``milliseconds * 0.001``, or a number for all."""
        if math.isfinite(number(text)):
            return cls(value=number(text))
        match = _SOURCE.fullmatch(text)
        factor = number(match["factor"] or "1") if match else math.nan
        if match is None or not math.isfinite(factor):
            raise InvalidInputError("mapping", "COLUMN, COLUMN - COLUMN, either * FACTOR, or a number", text)
        return cls(match["column"], match["minus"], factor=factor)

    @property
    def label(self) -> str:
        """The source in words."""
        if self.column is None:
            return f"{self.value} for all"
        name = self.column if self.minus is None else f"{self.column} - {self.minus}"
        return name if self.factor == 1.0 else f"{name} times {self.factor:g}"


def _cell(text: str) -> float:
    found = number(text.strip())
    if math.isnan(found):
        seconds = calendar_seconds(text.strip())
        return math.nan if seconds is None else seconds
    return found


def first_rows(path: Path, count: int = 3) -> dict[str, list[str]]:
    """Return the columns of a CSV or Parquet table with the first cells of each.

    Raises
    ------
    InvalidInputError
        If the file is not such a table.
    """
    columns: dict[str, list[str]] = {}
    for _, row in islice(_table_rows(path), count):
        if not isinstance(row, WrongCells):
            for name, cell in row.items():
                columns.setdefault(name, []).append(cell)
    return columns


def _table_rows(path: Path) -> Iterator[tuple[int, dict[str, str] | WrongCells]]:
    """Yield number and cells of each row, the cells as text."""
    if path.suffix.lower() != ".parquet":
        yield from table_of(path, ())
        return
    from ..parquet_file import text_rows

    yield from text_rows(path)


def import_table(
    path: Path, mapping: Mapping[str, ValueSource], *, scale: float = 1.0, skip_bad: bool = False
) -> tuple[Workload, ReadReport]:
    """Return the workload of a table with columns of its own, and a report of its rows.

    Tasks are ordered by arrival, and the first arrives at time 0.

    Parameters
    ----------
    path
        A CSV or Parquet table.
    mapping
        Source of each value in `_MAPPED_COLUMNS`; intensity and memory may be left out.
    scale
        Factor on all times and amounts of data.
    skip_bad
        Whether to leave out bad rows instead of raising an error.

    Raises
    ------
    InvalidInputError
        If a source is missing or names no column, or if rows are bad and `skip_bad` is False.
    """
    positive_number("scale", scale)
    for name in mapping:
        if name not in _MAPPED_COLUMNS:
            raise UnknownNameError("mapping", name, _MAPPED_COLUMNS)
    if ("size" in mapping) == ("seconds" in mapping):
        raise InvalidInputError("mapping", "a source for either size or seconds", list(mapping))
    if "arrival_time" not in mapping:
        raise InvalidInputError("mapping.arrival_time", "a column", "none")
    sources = {
        "compute_intensity": ValueSource(value=UNKNOWN_INTENSITY),
        "memory_required": ValueSource(value=UNKNOWN_MEMORY),
        **mapping,
    }
    tasks = TaskCollector(scale)
    ignored = None
    for line, row in tasks.whole_rows(_table_rows(path)):
        if ignored is None:
            ignored = _unused_columns(row, sources)
        values = {name: source.of(row) for name, source in sources.items()}
        bad = next((name for name, value in values.items() if _rule_of(name).broken_by_number(value)), None)
        if bad is not None:
            source = sources[bad]
            tasks.reject(line, source.column or bad, f"{_rule_of(bad).allowed}, as {bad}", source.text(row))
            continue
        intensity = values["compute_intensity"]
        seconds = values.get("seconds")
        tasks.add(
            line,
            f"row-{line}",
            size=tasks.scaled_size(values["size"]) if seconds is None else tasks.size_of(seconds, intensity),
            intensity=intensity,
            memory=values["memory_required"],
            arrival=values["arrival_time"],
        )
    workload, report = workload_from(tasks.rows(ignored or ()), path.name, "line", skip_bad=skip_bad)
    return workload, replace(report, mapping={name: source.label for name, source in sources.items()})


def _rule_of(name: str) -> ColumnRule:
    """Return the rule of a value; a run time obeys the same as an amount of memory, because it may be 0."""
    return RULES["memory_required" if name == "seconds" else name]


def _unused_columns(row: dict[str, str], sources: Mapping[str, ValueSource]) -> tuple[str, ...]:
    """Return the columns that no source uses; refuse a source that names no column."""
    used = set()
    for name, source in sources.items():
        for column in (source.column, source.minus):
            if column is not None and column not in row:
                raise UnknownNameError(f"mapping.{name}", column, row)
            used.add(column)
    return tuple(column for column in row if column not in used)


def guess_mapping(columns: Iterable[str]) -> dict[str, ValueSource]:
    """Return the likely sources by the names of columns, as the dashboard does; those without one are left out."""
    names = list(columns)
    found = {
        what: next((name for name in names if re.search(pattern, name, re.IGNORECASE)), None)
        for what, pattern in _PATTERNS.items()
    }
    guess = {
        "arrival_time": found["arrival"] or found["any time"],
        "memory_required": found["memory"],
        "compute_intensity": found["intensity"],
        "seconds": found["seconds"],
        "size": None if found["seconds"] else found["size"],
    }
    sources = {value: ValueSource(column) for value, column in guess.items() if column is not None}
    if not {"seconds", "size"} & sources.keys() and found["end"] and found["start"]:
        sources["seconds"] = ValueSource(found["end"], found["start"])
    return sources
