"""CSV tables without NaN and infinity."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV file with these columns; None, NaN and infinity are empty cells."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(row[name]) for name in columns} for row in rows)


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a CSV file as one mapping per row."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(cell: str) -> float:
    """Return a cell of `read_table` as a number; an empty one is NaN."""
    return float(cell) if cell else math.nan


def _cell(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and not math.isfinite(value)) else value
