"""CSV tables without NaN and infinity, and without cells that a spreadsheet would run.

Text that begins like a formula gets a leading apostrophe, which `read_table` removes. Numbers stay as they are.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a CSV file as one mapping per row."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _plain(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def number(cell: str) -> float:
    """Return a cell of `read_table` as a number; an empty one is NaN."""
    return float(cell) if cell else math.nan


def _cell(value: Any) -> Any:
    is_unknown = value is None or (isinstance(value, float) and not math.isfinite(value))
    return "" if is_unknown else escape_formula(value)


def _plain(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_FORMULA_STARTS) else cell
