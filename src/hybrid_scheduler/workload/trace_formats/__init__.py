"""Readers of foreign trace formats, one file per format.

A reader documents how it maps the columns (`MAPPING`), counts rows read and kept, and reports every rejected row.
Values that a trace lacks are filled by a documented rule.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ...core import InvalidInputError, UnknownNameError, Workload
from ..argument_checks import file_errors, positive_number
from ..csv_file import open_binary, read_csv
from ..trace_columns import REQUIRED, RULES, ColumnRule, ReadReport, Rows, delimiter_of, workload_from
from . import alibaba, azure_llm, gavel, philly, swf, wfformat
from .reader_tools import (
    UNKNOWN_INTENSITY,
    UNKNOWN_MEMORY,
    TaskCollector,
    WrongCells,
    calendar_seconds,
    number,
    table_of,
)

__all__ = ["FORMATS", "Format", "ValueSource", "detect_format", "first_rows", "import_table", "import_trace"]


@dataclass(frozen=True, slots=True)
class Format:
    """Foreign format: its reader, its mapping of columns, and a test that recognises it."""

    name: str
    title: str
    read: Callable[[Path, float], Rows]
    mapping: dict[str, str]
    #: Whether the first bytes of a file look like this format.
    fits: Callable[[str], bool]
    word: str = "line"
    #: Sentences about conversions, from the report of the rows and the factor on times.
    notes: Callable[[ReadReport, float], tuple[str, ...]] = lambda report, scale: ()


def _has_columns(columns: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda head: set(columns) <= set(_header_cells(head))


def _header_cells(head: str) -> list[str]:
    first = head.partition("\n")[0]
    return [cell.strip().strip('"') for cell in first.split(delimiter_of(first))]


def _read_own(path: Path, scale: float) -> Rows:
    """Return the rows of a trace of this program; `scale` multiplies all times and amounts of data."""
    rows = read_csv(path)
    columns = dict(rows.columns)
    for name in ("memory_required", "arrival_time"):
        columns[name] = columns[name] * scale
    columns["size"] = columns["size"] * scale ** (2.0 / 3.0)
    if "dependency_data" in columns:
        columns["dependency_data"] = [[mb * scale for mb in parents] for parents in columns["dependency_data"]]
    return replace(rows, columns=columns)


FORMATS = {
    format.name: format
    for format in (
        Format(
            "alibaba",
            "Alibaba GPU cluster trace 2023, pod list",
            alibaba.read_alibaba,
            alibaba.MAPPING,
            _has_columns(alibaba.COLUMNS),
            notes=alibaba.notes,
        ),
        Format(
            "azure",
            "Azure LLM inference trace",
            azure_llm.read_azure,
            azure_llm.MAPPING,
            _has_columns(azure_llm.COLUMNS),
        ),
        Format(
            "gavel",
            "Gavel job trace",
            gavel.read_gavel,
            gavel.MAPPING,
            lambda head: head.partition("\n")[0].count("\t") == 9 and not _has_columns(REQUIRED)(head),
            notes=gavel.notes,
        ),
        Format(
            "wfformat",
            "WfFormat 1.5 workflow (WfCommons)",
            wfformat.read_wfformat,
            wfformat.MAPPING,
            lambda head: head.lstrip().startswith("{"),
            word="task",
        ),
        Format(
            "philly",
            "Philly or Helios job log",
            philly.read_philly,
            philly.MAPPING,
            lambda head: head.lstrip().startswith("[") or _has_columns(philly.COLUMNS)(head),
            word="line or job",
            notes=philly.notes,
        ),
        Format(
            "csv", "trace of this program", _read_own, {name: name for name in REQUIRED}, _has_columns(REQUIRED)
        ),
        Format(
            "swf",
            "Standard Workload Format",
            swf.read_swf,
            swf.MAPPING,
            lambda head: head.startswith(";") or len(head.partition("\n")[0].split()) == 18,
            notes=swf.notes,
        ),
    )
}
_HEAD = 4096

#: Values of a task that a table with other column names can give. `seconds` is the run time on a CPU, from which
#: the size follows; a table gives it or `size`.
_MAPPED_COLUMNS = ("size", "seconds", "compute_intensity", "memory_required", "arrival_time")


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


def detect_format(path: str | os.PathLike[str]) -> str | None:
    """Return the name of the format that a file seems to have, or None."""
    with open_binary(Path(path)) as file:
        head = file.read(_HEAD).decode("utf-8-sig", errors="replace")
    return next((format.name for format in FORMATS.values() if format.fits(head)), None)


def import_trace(
    path: str | os.PathLike[str], format: str | None = None, *, scale: float = 1.0, skip_bad: bool = False
) -> tuple[Workload, ReadReport]:
    """Return the workload of a foreign trace, and a report of its rows and columns.

    Parameters
    ----------
    path
        File to read; decompressed if its name ends in .gz.
    format
        ``"alibaba"``, ``"azure"``, ``"gavel"``, ``"wfformat"``, ``"philly"``, ``"csv"`` or ``"swf"``; by default
        detected.
    scale
        Factor on all times and amounts of data: 0.001 turns an hour into 3.6 seconds.
    skip_bad
        Whether to leave out bad rows instead of raising an error.

    Returns
    -------
    Workload, ReadReport
        Tasks by arrival, the first at time 0; and the numbers of rows that were read and rejected.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, its format is unknown, or it has bad rows and `skip_bad` is False.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hybrid_scheduler import import_trace
    >>> rows = "TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:03,300,100"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "requests.csv"
    ...     _ = path.write_text(chr(10).join(rows))
    ...     workload, report = import_trace(path)
    >>> workload[0].compute_intensity, report.rows_kept
    (0.75, 1)
    """
    source = Path(path)
    positive_number("scale", scale)
    with file_errors("path", "a file that can be read", source):
        name = format or detect_format(source)
        if name is None:
            known = ", ".join(FORMATS)
            raise InvalidInputError(
                "format",
                f"one of {known}",
                "a file that looks like none of them",
                where=source.name,
                hint=f"a table needs a header with {', '.join(REQUIRED)}; --format NAME says what it is",
            )
        if name not in FORMATS:
            raise UnknownNameError("format", name, FORMATS)
        found = FORMATS[name]
        rows = found.read(source, scale)
    workload, report = workload_from(rows, source.name, found.word, skip_bad=skip_bad)
    mapping = report.mapping if found.name == "csv" else found.mapping
    return workload, replace(report, mapping=mapping, notes=report.notes + found.notes(report, scale))
