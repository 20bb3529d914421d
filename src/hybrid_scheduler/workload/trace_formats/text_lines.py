"""Lines of a foreign text file, with their numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...core import InvalidInputError


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, text without the line end). Text that is not UTF-8 is an error that names the line."""
    with path.open("rb") as file:
        for line, raw in enumerate(file, 1):
            try:
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                got = raw[error.start : error.end]
                raise InvalidInputError("file", "UTF-8 text", got, where=f"{path.name}, line {line}") from None
            if "\0" in text:
                raise InvalidInputError(
                    "file", "text without NUL characters", text[:100], where=f"{path.name}, line {line}"
                )
            yield line, text.strip("\r\n")


def table_of(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str] | None]]:
    """The rows of a CSV file by column name; None for a row with another number of cells."""
    rows = lines_of(path)
    _, first = next(rows, (1, ""))
    header = [name.strip() for name in first.split(",")]
    for name in columns:
        if name not in header:
            raise InvalidInputError(f"column {name}", "present", header, where=f"{path.name}, line 1")
    for line, text in rows:
        if not text:
            continue
        try:
            cells = next(csv.reader([text]))
        except csv.Error:  # a bare carriage return within the line
            cells = []
        yield line, dict(zip(header, cells, strict=True)) if len(cells) == len(header) else None
