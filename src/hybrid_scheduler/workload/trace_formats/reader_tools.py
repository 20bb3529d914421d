"""Tools of foreign trace readers: text lines, tables, and a collector of tasks and rejected rows."""

from __future__ import annotations

import csv
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core import InvalidInputError
from ...core.workload import MAX_VALUE
from ...physics import AnalyticPhysics
from ..csv_file import open_binary
from ..trace_columns import ReadReport, Rejections, Rows, delimiter_of, require_columns

#: Defaults for traces without these values.
UNKNOWN_INTENSITY = 0.5
UNKNOWN_MEMORY = 100.0


#: A task of intensity 1 runs four times as fast on a GPU of the analytic physics.
GPU_SPEEDUP = 4.0
#: Seconds of a task that a trace rounds to 0, because a size is above 0.
_MIN_S = 1e-6


class TaskCollector:
    """Collector of tasks.

    Times are seconds since the first arrival. `scale` multiplies times and amounts of data alike, so that transfers
    keep their share of each task's time. `totals` are the names of the sums that the report shows.
    """

    def __init__(self, scale: float, totals: Sequence[str] = ()) -> None:
        self.scale = scale
        self._totals = tuple(totals)
        self.rejections = Rejections()
        # Numbers in arrays take a tenth of the memory of Python's.
        self._amounts = array("d")  # as many as there are totals, for each task
        self._rejected_amounts = [0.0] * len(self._totals)
        self._line = array("q")
        self._values = array("d")  # size, intensity, memory and arrival of each task
        self._names: list[str] = []
        self._kinds: list[str] = []
        self._parents: list[Sequence[tuple[str, float]]] = []

    def reject(self, line: int, field: str, allowed: str, got: object, amounts: Sequence[float] = ()) -> None:
        """Add a rejected row, with its part of each total where that is known."""
        if amounts and all(math.isfinite(amount) and amount >= 0 for amount in amounts):
            for number, amount in enumerate(amounts):
                self._rejected_amounts[number] += amount
        for _ in self.rejections.count_in([line]):
            self.rejections.add(line, field, allowed, got)

    def whole_rows(
        self, rows: Iterable[tuple[int, dict[str, str] | WrongCells]]
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows of a table, and reject those that have another number of cells than the header."""
        for line, row in rows:
            if isinstance(row, WrongCells):
                self.reject(line, "row", f"{row.expected} cells, as in the header", f"{row.found} cells")
            else:
                yield line, row

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
        amounts: Sequence[float] = (),
    ) -> None:
        """Add a task, or reject it if a value is too large.

        `parents` are names of tasks with the MB that each hands over; `amounts` are its part of each total.
        """
        memory *= self.scale
        arrival *= self.scale
        for column, value in (("size", size), ("memory_required", memory), ("arrival_time", arrival)):
            if not value <= MAX_VALUE:
                self.reject(line, column, f"at most {MAX_VALUE:g}", value, amounts)
                return
        self._line.append(line)
        self._values.extend((size, intensity, memory, arrival))
        self._amounts.extend(amounts)
        self._names.append(name)
        self._kinds.append(kind)
        self._parents.append(parents)

    def size_of(self, seconds: float, intensity: float) -> float:
        """Return the size of a task that takes these seconds on the CPU of the analytic physics."""
        work = max(seconds, _MIN_S) * self.scale * (intensity + 0.5) / AnalyticPhysics().coefficient
        return float(work ** (2.0 / 3.0))

    def scaled_size(self, size: float) -> float:
        """Return the size whose seconds are `scale` times those of this size."""
        return float(size * self.scale ** (2.0 / 3.0))

    def rows(self, ignored: Sequence[str] = (), notes: tuple[str, ...] = ()) -> Rows:
        """Return the tasks, numbered by arrival, the first of them at time 0."""
        values = np.array(self._values, dtype=np.float64).reshape(-1, 4)
        order = np.argsort(values[:, 3], kind="stable")
        values = values[order]
        if len(values):
            values[:, 3] -= values[0, 3]
        in_order = order.tolist()
        names = [self._names[row] for row in in_order]
        columns = {
            "task_id": np.arange(len(values), dtype=np.int64),
            "size": values[:, 0],
            "compute_intensity": values[:, 1],
            "memory_required": values[:, 2],
            "arrival_time": values[:, 3],
            "kind": [self._kinds[row] for row in in_order],
            "external_id": names,
        }
        absent: dict[int, str] = {}
        if any(self._parents):
            parents = [self._parents[row] for row in in_order]
            ids = {name: number for number, name in enumerate(names)}
            # A parent that was rejected gets an id that no task has, so that its children are rejected too.
            for name in sorted({name for edges in parents for name, _ in edges} - ids.keys()):
                absent[-1 - len(absent)] = name
            id_of = ids | {name: number for number, name in absent.items()}
            columns["dependencies"] = [tuple(id_of[name] for name, _ in edges) for edges in parents]
            columns["dependency_data"] = [[megabytes * self.scale for _, megabytes in edges] for edges in parents]
        lines = np.array(self._line, dtype=np.int64)[order]
        read = len(values) + self.rejections.count
        sums = np.array(self._amounts, dtype=np.float64).reshape(len(values), len(self._totals))[order]
        amounts = {name: sums[:, number] for number, name in enumerate(self._totals)}
        rejected = dict(zip(self._totals, self._rejected_amounts, strict=True))
        return Rows(lines, columns, read, self.rejections, tuple(ignored), absent, amounts, rejected, notes)


def parallel_work(
    report: ReadReport, scale: float, work: str, run_time: str, parallel: str, what: str
) -> tuple[str, ...]:
    """Return what became of tasks with several devices: the work in the file and in the trace, in words.

    Parameters
    ----------
    report
        Report with both sums.
    scale
        Factor on the times of the trace.
    work, run_time
        Names of the totals: device time, and the run time it comes from.
    parallel, what
        Name of the number of such tasks; without any there is nothing to say. And the words that say what they are.
    """
    if not report.file_totals[parallel]:
        return ()
    in_file = report.file_totals[work]
    kept = report.totals[work]
    scaled = f" (times {scale:g})" if scale != 1.0 else ""
    left_out = f", {in_file - kept:,.0f} left out" if in_file - kept > 0.5 else ""
    return (
        f"{what}: {in_file:,.0f} {work} in the file, {kept * scale:,.0f} in the trace{scaled}{left_out}, "
        f"from {report.totals[run_time]:,.0f} s of run time",
    )


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text without the line end). Text that is not UTF-8 is an error with its line."""
    with open_binary(path) as file:
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


class WrongCells(NamedTuple):
    """A row whose number of cells is not that of the header."""

    expected: int
    found: int


def table_of(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str] | WrongCells]]:
    """Yield line and cells of the rows of a CSV file, by column name."""
    rows = lines_of(path)
    _, first = next(rows, (1, ""))
    delimiter = delimiter_of(first)
    header = [name.strip() for name in first.split(delimiter)]
    require_columns(columns, header, f"{path.name}, line 1")
    for line, text in rows:
        if not text:
            continue
        try:
            cells = next(csv.reader([text], delimiter=delimiter))
        except csv.Error:  # a bare carriage return within the line
            cells = []
        if len(cells) == len(header):
            yield line, dict(zip(header, cells, strict=True))
        else:
            yield line, WrongCells(len(header), len(cells))


def json_document(path: Path) -> Any:
    """Return the JSON document of a file."""
    try:
        with open_binary(path) as file:
            return json.loads(file.read())
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError("file", "a JSON document", str(error)[:200], where=path.name) from None


def calendar_seconds(text: str) -> float | None:
    """Return the seconds since 1970 by the calendar alone, independent of the machine's time zone."""
    try:
        # Some traces have seven digits of a second; Python reads six.
        moment = datetime.fromisoformat(text[:26])
    except ValueError:
        return None
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()


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
