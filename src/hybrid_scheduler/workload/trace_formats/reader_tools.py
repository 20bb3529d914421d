"""Tools of foreign trace readers: text lines, tables, and a collector of tasks and rejected rows."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ...core import InvalidInputError
from ...physics import AnalyticPhysics
from ..trace_columns import Rejections, Rows

#: Defaults for traces without these values.
UNKNOWN_INTENSITY = 0.5
UNKNOWN_MEMORY = 100.0


class TaskCollector:
    """Collector of tasks. Times are seconds since the first arrival, multiplied by `scale`."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.rejections = Rejections()
        self._line: list[int] = []
        self._values: list[tuple[float, float, float, float]] = []  # size, intensity, memory, arrival
        self._names: list[tuple[str, str]] = []
        self._parents: list[Sequence[tuple[str, float]]] = []

    def reject(self, line: int, field: str, allowed: str, got: object) -> None:
        """Add a rejected row."""
        for _ in self.rejections.count_in([line]):
            self.rejections.add(line, field, allowed, got)

    def add(
        self,
        line: int,
        name: str,
        *,
        size: float,
        intensity: float,
        memory: float,
        arrival: float,
        kind: str = "generic",
        parents: Sequence[tuple[str, float]] = (),
    ) -> None:
        """Add a task. `parents` are names of tasks with the MB that each hands over."""
        self._line.append(line)
        self._values.append((size, intensity, memory, arrival * self.scale))
        self._names.append((name, kind))
        self._parents.append(parents)

    def size_of(self, seconds: float, intensity: float) -> float:
        """Return the size of a task that takes these seconds on the CPU of the analytic physics."""
        work = seconds * self.scale * (intensity + 0.5) / AnalyticPhysics().coefficient
        return float(work ** (2.0 / 3.0))

    def rows(self, ignored: Sequence[str] = ()) -> Rows:
        """Return the tasks, numbered by arrival, the first of them at time 0."""
        values = np.array(self._values, dtype=np.float64).reshape(-1, 4)
        order = np.argsort(values[:, 3], kind="stable")
        values = values[order]
        if len(values):
            values[:, 3] -= values[0, 3]
        ids = {self._names[row][0]: number for number, row in enumerate(order.tolist())}
        parents = [self._parents[row] for row in order.tolist()]
        columns = {
            "task_id": np.arange(len(values), dtype=np.int64),
            "size": values[:, 0],
            "compute_intensity": values[:, 1],
            "memory_required": values[:, 2],
            "arrival_time": values[:, 3],
            "kind": [self._names[row][1] for row in order.tolist()],
            "external_id": [self._names[row][0] for row in order.tolist()],
        }
        if any(parents):
            # A parent that was rejected keeps an id that no task has, so that its children are rejected too.
            columns["dependencies"] = [tuple(ids.get(name, -1) for name, _ in one) for one in parents]
            columns["dependency_data"] = [[megabytes for _, megabytes in one] for one in parents]
        lines = np.array([self._line[row] for row in order.tolist()], dtype=np.int64)
        return Rows(lines, columns, len(values) + self.rejections.count, self.rejections, tuple(ignored))


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text without the line end). Text that is not UTF-8 is an error with its line."""
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
    """Yield the rows of a CSV file by column name; None for a row with another number of cells."""
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


def number(text: str) -> float:
    """Return the cell as a finite number, or NaN."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) and "_" not in text else math.nan


def share(value: float) -> float:
    """Return the value clipped to [0, 1]."""
    return min(max(value, 0.0), 1.0)
