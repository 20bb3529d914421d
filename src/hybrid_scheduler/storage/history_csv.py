"""CSV file of tasks and their best split, for people and for training.

It is a copy; the database is authoritative. Rows are appended after the commit that contains them. If the file
cannot be written, that is logged once and the run continues.
"""

from __future__ import annotations

import csv
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import Floats, InvalidInputError, Workload
from ..core.atomic_files import atomic_path
from ..live.journal import Batch

_log = logging.getLogger(__name__)

_ORACLE = "oracle"
COLUMNS = (
    "task_id", "size", "compute_intensity", "memory_required", "arrival_time",
    "optimal_gpu_fraction", "optimal_time", "oracle_latency", "oracle_energy", "oracle_cost",
)  # fmt: skip
_HEADER = (",".join(COLUMNS) + "\n").encode()
_COPY_BYTES = 1 << 20


class HistoryCsv:
    """Writer of the file, used by one journal in its thread.

    Parameters
    ----------
    path
        The file.
    keep_tasks
        Number of newest rows to keep; 0 keeps all. The file may have a quarter more, because it is rewritten to
        remove rows.
    """

    def __init__(self, path: str | os.PathLike[str], keep_tasks: int = 0) -> None:
        self.path = Path(path)
        self.keep_tasks = keep_tasks
        self._rows = 0
        self._ready = False
        self._warned = False

    def append(self, batches: Sequence[Batch]) -> None:
        """Append the tasks of simulated runs. Errors are logged once and not raised."""
        text = "".join(_lines(batch) for batch in batches if _has_labels(batch))
        if not text:
            return
        try:
            if not self._ready:
                self._prepare()
            with open(self.path, "ab") as file:
                end = file.tell()
                try:
                    file.write(text.encode())
                    file.flush()
                except OSError:
                    os.truncate(self.path, end)  # no partial rows
                    raise
            self._rows += text.count("\n")
            if self.keep_tasks and self._rows > self.keep_tasks + self.keep_tasks // 4:
                self._remove_oldest(self._rows - self.keep_tasks)
        except OSError as error:
            self._ready = False
            if not self._warned:
                _log.warning("%s: cannot be written (%s); the database has everything", self.path, error.strerror)
            self._warned = True

    def clear(self) -> None:
        """Remove all rows; the header stays."""
        try:
            if self.path.exists():
                self.path.write_bytes(_HEADER)
            self._rows = 0
        except OSError as error:
            _log.warning("%s: cannot be emptied (%s)", self.path, error.strerror)

    def _remove_oldest(self, rows: int) -> None:
        with open(self.path, "rb") as old, atomic_path(self.path) as fresh:
            for _ in range(1 + rows):  # the header, too
                old.readline()
            with fresh.open("wb") as file:
                file.write(_HEADER)
                shutil.copyfileobj(old, file, _COPY_BYTES)
        self._rows -= rows

    def _prepare(self) -> None:
        """Write the header of a new file, or remove a partial last row that a killed process left."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists() or self.path.stat().st_size == 0:
            self.path.write_bytes(_HEADER)
        with open(self.path, "rb+") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - 65536)
            file.seek(start)
            end = file.read().rfind(b"\n")
            file.truncate(start + end + 1)
            if self.keep_tasks:
                file.seek(0)
                lines = sum(block.count(b"\n") for block in iter(lambda: file.read(_COPY_BYTES), b""))
                self._rows = lines - 1  # without the header
        self._ready = True


def read_history(path: str | os.PathLike[str]) -> tuple[Workload, Floats, Floats]:
    """Read the file as training data.

    The file may contain several runs, so all arrival times are 0. A task that appears twice is read once.

    Parameters
    ----------
    path
        The CSV file.

    Returns
    -------
    tuple
        The tasks, the best GPU fraction of each, and its time in seconds.

    Raises
    ------
    InvalidInputError
        If the file has other columns, an invalid row, or no row.
    """
    file = Path(path)
    try:
        seen = _rows(file)
    except UnicodeDecodeError:
        raise InvalidInputError("file", "UTF-8 text", "other bytes", where=file.name) from None
    except csv.Error as error:
        raise InvalidInputError("file", "well-formed CSV", str(error), where=file.name) from None
    if not seen:
        raise InvalidInputError("history", "at least one row", "none", where=file.name)
    size, intensity, memory, fraction, seconds = (np.array(column) for column in zip(*seen.values(), strict=True))
    tasks = Workload(
        task_id=list(seen),
        size=size,
        compute_intensity=intensity,
        memory_required=memory,
        arrival_time=np.zeros(len(seen)),
    )
    return tasks, fraction, seconds


def _rows(file: Path) -> dict[int, tuple[float, ...]]:
    seen: dict[int, tuple[float, ...]] = {}
    with file.open(encoding="utf-8", newline="") as rows:
        reader = csv.DictReader(rows)
        missing = [name for name in COLUMNS[:7] if name not in (reader.fieldnames or ())]
        if missing:
            raise InvalidInputError(f"column {missing[0]}", "present", reader.fieldnames, where=file.name)
        for row in reader:
            try:
                values = tuple(float(row[name]) for name in (*COLUMNS[1:4], *COLUMNS[5:7]))
                seen[int(row["task_id"])] = values
            except (TypeError, ValueError):
                raise InvalidInputError(
                    "row",
                    "numbers in every column",
                    list(row.values()),
                    where=f"{file.name}, line {reader.line_num}",
                ) from None
    return seen


def _has_labels(batch: Batch) -> bool:
    """Return True if the batch is training data; measured runs say nothing about simulated devices."""
    return batch.optimal_time is not None and len(batch) > 0 and batch.run.source == "simulated"


def _lines(batch: Batch) -> str:
    tasks = batch.tasks
    assert tasks is not None
    oracle = batch.results.get(_ORACLE)
    of_oracle = (None, None, None) if oracle is None else (oracle.latency, oracle.energy, oracle.cost)
    columns: list[Any] = [
        tasks.task_id, tasks.size, tasks.compute_intensity, tasks.memory_required, tasks.arrival_time,
        batch.optimal_fraction, batch.optimal_time, *of_oracle,
    ]  # fmt: skip
    cells = ([""] * len(tasks) if column is None else _cells(column) for column in columns)
    return "".join(f"{','.join(row)}\n" for row in zip(*cells, strict=True))


def _cells(column: Any) -> list[str]:
    return ["" if value != value else repr(value) for value in np.asarray(column).tolist()]
