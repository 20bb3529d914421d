"""Readers of foreign trace formats, one file per format.

A reader documents how it maps the columns (`MAPPING`), counts rows read and kept, and reports every rejected row.
Values that a trace lacks are filled by a documented rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ...core import InvalidInputError, UnknownNameError, Workload
from ..argument_checks import file_errors, positive_number
from ..csv_file import open_binary, read_csv
from ..trace_columns import REQUIRED, ReadReport, Rows, delimiter_of, workload_from
from . import alibaba, azure_llm, gavel, philly, swf, wfformat
from .column_mapping import ValueSource, first_rows, guess_mapping, import_table

__all__ = [
    "FORMATS", "Format", "ValueSource", "detect_format", "first_rows", "guess_mapping", "import_table",
    "import_trace",
]  # fmt: skip


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
            "alibaba", "Alibaba GPU cluster trace 2023, pod list", alibaba.read_alibaba, alibaba.MAPPING,
            _has_columns(alibaba.COLUMNS), notes=alibaba.notes,
        ),
        Format(
            "azure", "Azure LLM inference trace", azure_llm.read_azure, azure_llm.MAPPING,
            _has_columns(azure_llm.COLUMNS),
        ),
        Format(
            "gavel", "Gavel job trace", gavel.read_gavel, gavel.MAPPING,
            lambda head: head.partition("\n")[0].count("\t") == 9 and not _has_columns(REQUIRED)(head),
            notes=gavel.notes,
        ),
        Format(
            "wfformat", "WfFormat 1.5 workflow (WfCommons)", wfformat.read_wfformat, wfformat.MAPPING,
            lambda head: head.lstrip().startswith("{"), word="task",
        ),
        Format(
            "philly", "Philly or Helios job log", philly.read_philly, philly.MAPPING,
            lambda head: head.lstrip().startswith("[") or _has_columns(philly.COLUMNS)(head),
            word="line or job", notes=philly.notes,
        ),
        Format(
            "csv", "trace of this program", _read_own, {name: name for name in REQUIRED}, _has_columns(REQUIRED)
        ),
        Format(
            "swf", "Standard Workload Format", swf.read_swf, swf.MAPPING,
            lambda head: head.startswith(";") or len(head.partition("\n")[0].split()) == 18,
            notes=swf.notes,
        ),
    )
}  # fmt: skip
_HEAD = 4096


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
                hint=f"a table needs a header with {', '.join(REQUIRED)}; --format NAME says what it is, --map "
                "NAME=COLUMN which columns to take",
            )
        if name not in FORMATS:
            raise UnknownNameError("format", name, FORMATS)
        found = FORMATS[name]
        rows = found.read(source, scale)
    workload, report = workload_from(rows, source.name, found.word, skip_bad=skip_bad)
    mapping = report.mapping if found.name == "csv" else found.mapping
    return workload, replace(report, mapping=mapping, notes=report.notes + found.notes(report, scale))
