"""Rows of job files that cannot be used: collected, listed, or an error that names line and field."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ..core import InvalidInputError
from ..workload.trace_columns import Rejections

_T = TypeVar("_T")


def readable(rows: Iterator[_T], path: Path) -> Iterator[_T]:
    """Yield rows; a file that cannot be read to its end is an error."""
    try:
        yield from rows
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InvalidInputError("file", "one that can be read to its end", path.name, hint=reason) from None


def reject(rejections: Rejections, line: int, field: str, allowed: str, got: object) -> None:
    """Count a row that cannot be used, and list it if it is one of the first."""
    for _ in rejections.count_in([line]):
        rejections.add(line, field, allowed, got)


def check_rows(rejections: Rejections, skip_bad: bool, path: Path, rows: Sequence[object]) -> None:
    """Raise an error for the first rejected row unless these are left out, and if no row is left."""
    if rejections.count and not skip_bad:
        first = rejections.listed[0]
        raise InvalidInputError(
            first.field, first.allowed, first.got, where=f"{path.name}, line {first.line}",
            hint=f"--skip-bad leaves out {rejections.count} such lines",
        )  # fmt: skip
    if not rows:
        raise InvalidInputError("file", "at least one job or node", "none", where=path.name)
