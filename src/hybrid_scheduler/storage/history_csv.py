"""A plain file of tasks and their best split, for people and for training.

The database is the record, this is a copy: rows are appended after the commit that holds them. If the file cannot
be written, that is logged once and the run goes on.
"""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import Floats, InvalidInputError, Workload
from ..live.batch_records import Batch

_log = logging.getLogger(__name__)

_ORACLE = "oracle"
COLUMNS = (
    "task_id", "size", "compute_intensity", "memory_required", "arrival_time",
    "optimal_gpu_fraction", "optimal_time", "oracle_latency", "oracle_energy", "oracle_cost",
)  # fmt: skip
_HEADER = (",".join(COLUMNS) + "\n").encode()


class HistoryCsv:
    """Used by one journal, in its thread."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._ready = False
        self._complained = False

    def append(self, batches: Sequence[Batch]) -> None:
        text = "".join(_lines(batch) for batch in batches if _is_taught(batch))
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
                    os.truncate(self.path, end)  # no half rows
                    raise
        except OSError as error:
            self._ready = False
            if not self._complained:
                _log.warning("%s: cannot be written (%s); the database has everything", self.path, error.strerror)
            self._complained = True

    def clear(self) -> None:
        try:
            if self.path.exists():
                self.path.write_bytes(_HEADER)
        except OSError as error:
            _log.warning("%s: cannot be emptied (%s)", self.path, error.strerror)

    def _prepare(self) -> None:
        """A header in a new file; in an old one no half row at the end, where a process was killed."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists() or self.path.stat().st_size == 0:
            self.path.write_bytes(_HEADER)
        with open(self.path, "rb+") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - 65536)
            file.seek(start)
            end = file.read().rfind(b"\n")
            file.truncate(start + end + 1)
        self._ready = True


def read_history(path: str | os.PathLike[str]) -> tuple[Workload, Floats, Floats]:
    """Tasks, the best GPU fraction of each, and its time: what an offline trainer learns from.

    The file may hold several runs, so arrival times say nothing here; all are 0. A task is taken once.
    """
    file = Path(path)
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


def _is_taught(batch: Batch) -> bool:
    """What real devices did teaches nothing about simulated ones."""
    return batch.optimal_time is not None and len(batch) > 0 and batch.run.source == "simulated"


def _lines(batch: Batch) -> str:
    tasks = batch.tasks
    assert tasks is not None
    oracle = batch.results.get(_ORACLE)
    nothing = [""] * len(tasks)
    columns: list[Any] = [
        map(str, tasks.task_id.tolist()),
        *(map(repr, column.tolist()) for column in (tasks.size, tasks.compute_intensity, tasks.memory_required)),
        map(repr, tasks.arrival_time.tolist()),
        _cells(batch.optimal_fraction) if batch.optimal_fraction is not None else nothing,
        _cells(batch.optimal_time) if batch.optimal_time is not None else nothing,
    ]
    if oracle is None:
        columns += [nothing] * 3
    else:
        columns += [_cells(oracle.latency), _cells(oracle.energy_consumption), _cells(oracle.execution_cost)]
    return "".join(f"{','.join(row)}\n" for row in zip(*columns, strict=True))


def _cells(column: Floats) -> list[str]:
    return ["" if value != value else repr(value) for value in np.asarray(column, dtype=np.float64).tolist()]
