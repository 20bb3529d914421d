"""Sweep over schedulers, scenarios, loads, platforms and seeds, on this machine or on a Ray cluster.

A cell is one scheduler on one seed of one specification. Its result is one line in `cells.jsonl`, on the disk
before the next is counted, so a sweep that is killed resumes where it was. Cells are identified by a digest of all
that their result depends on; adding a load or a seed later repeats nothing. The table at the end is in the order of
the plan, whatever order the cells were finished in.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from .. import __version__
from ..core import HybridSchedulerError, InvalidInputError
from ..core.atomic_files import atomic_path
from ..core.canonical_json import canonical_json, content_hash
from ..metrics import dependent_interval
from .paired_comparison import SeedRun, run_seed
from .process_pool import ATTEMPTS, as_finished, cores, in_flight
from .run_record import directory_lock, prepare_folder
from .spec import ExperimentSpec

CELLS = "cells.jsonl"
TABLE = "results.parquet"
_KEY_LENGTH = 24


@dataclass(frozen=True)
class Cell:
    """One scheduler on one seed."""

    spec: ExperimentSpec
    seed: int

    @cached_property
    def key(self) -> str:
        """Digest of all that the result depends on."""
        content = {"configuration": self.spec.as_json(), "seed": self.seed, "version": __version__}
        return content_hash(content)[:_KEY_LENGTH]

    @property
    def name(self) -> str:
        """Text for progress and errors."""
        spec = self.spec
        where = f"{spec.source} · {spec.machine.platform.name}"
        return f"{spec.schedulers[0]} · {where} · {self.seed}"


def cells_of(specs: Iterable[ExperimentSpec], seeds: Sequence[int]) -> list[Cell]:
    """Split specifications into cells, in order; repeated cells are run once."""
    cells = {
        cell.key: cell
        for spec in specs
        for seed in seeds
        for name in spec.schedulers
        for cell in [Cell(replace(spec, schedulers=(name,)), seed)]
    }
    return list(cells.values())


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run one cell and return its row, which is the same wherever it runs."""
    spec = cell.spec
    name = cell.spec.schedulers[0]
    run = run_seed(spec, cell.seed)
    return {
        "key": cell.key,
        "scenario": spec.name,
        "load": spec.load,
        "batch": spec.batch,
        "platform": spec.machine.platform.name,
        "noise": spec.machine.noise.sigma,
        "seed": cell.seed,
        "scheduler": name,
        "lower_bound": run.lower_bound,
        **run.metrics[name],
        **_half_widths(run, name),
        "outcomes": run.digests[name],
    }


def _half_widths(run: SeedRun, name: str) -> dict[str, float | None]:
    """Return half widths of the intervals within one trace; None where a queue grows.

    A scenario has intervals over seeds instead.
    """
    halves = {
        metric: dependent_interval(np.array(values)).half_width
        for metric, values in run.batches.get(name, {}).items()
    }
    return {f"{metric}_half_width": half if math.isfinite(half) else None for metric, half in halves.items()}


#: Called with (the cell that was finished, cells done, cells in all).
Progress = Callable[[str, int, int], None]


class Backend(Protocol):
    """Interface of a place where cells run."""

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, dict[str, Any] | Exception]]:
        """Yield each cell with its row, or with the error that it raised, in any order."""


def run_sweep(
    cells: Sequence[Cell], folder: Path, backend: Backend, *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Run the cells that are not finished, keep every result, and write the table.

    Parameters
    ----------
    cells
        The plan.
    folder
        Folder of the results.
    backend
        Where the cells run.
    progress
        Called with the finished cell, the number of cells done, and their total.

    Returns
    -------
    list of dict
        The rows, in the order of the plan.

    Raises
    ------
    InvalidInputError
        If there are no cells, or the folder cannot be used.
    HybridSchedulerError
        If a cell failed; the results of the others are kept.
    """
    if not cells:
        raise InvalidInputError("sweep", "at least one cell", "none")
    prepare_folder(folder)
    report = progress or (lambda *_: None)
    with directory_lock(folder / "lock", folder), (folder / CELLS).open("a+b") as file:
        planned = {cell.key for cell in cells}
        done = {key: row for key, row in _finished(file).items() if key in planned}
        report("", len(done), len(cells))
        failed: list[tuple[Cell, Exception]] = []
        missing = [cell for cell in cells if cell.key not in done]
        for cell, row in backend.run(missing):
            if isinstance(row, Exception):
                failed.append((cell, row))
                continue
            _append(file, row)
            done[cell.key] = row
            report(cell.name, len(done), len(cells))
    if failed:
        cell, error = failed[0]
        raise HybridSchedulerError(
            f"{len(failed)} of {len(cells)} cells failed, the first ({cell.name}): {error}",
            hint=f"the other {len(done)} are kept in {folder}: run it again to go on",
        )
    rows = [done[cell.key] for cell in cells]
    _write_table(folder / TABLE, rows)
    return rows


def _finished(file: IO[bytes]) -> dict[str, dict[str, Any]]:
    """Return the rows that earlier runs left; a last line that was cut off by a kill is dropped."""
    file.seek(0)
    rows: dict[str, dict[str, Any]] = {}
    valid_bytes = 0
    for number, line in enumerate(file, 1):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("cut off")
            row = json.loads(line)
            rows[row["key"]] = row
        except (ValueError, KeyError, TypeError):
            if file.read(1):  # not the last line: the sweep itself never leaves such a line
                raise HybridSchedulerError(f"{file.name}: line {number} is damaged") from None
            break
        valid_bytes += len(line)
    file.truncate(valid_bytes)
    file.seek(0, os.SEEK_END)
    return rows


def _append(file: IO[bytes], row: dict[str, Any]) -> None:
    file.write(canonical_json(row).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the rows as Parquet; the same rows give the same bytes."""
    import pyarrow as pa
    from pyarrow import parquet

    # Through the stored form, so that computed values and those read back are alike.
    plain = [json.loads(canonical_json(row)) for row in rows]
    # Cells of a trace that gets no interval, such as a run in which most tasks fail, lack its columns.
    names = dict.fromkeys(name for row in plain for name in row)
    columns = {name: [_number(row.get(name)) for row in plain] for name in names}
    with atomic_path(path) as fresh:
        parquet.write_table(pa.table(columns), fresh)


def _number(value: Any) -> Any:
    """Return whole numbers as floats: measured columns mix both, and a column has one type."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def sweep_folders(parent: Path) -> list[tuple[str, int, float]]:
    """Return the sweeps below a folder: name, number of finished cells and Unix time of the newest, newest first.

    Parameters
    ----------
    parent
        Folder of the folders that `run_sweep` wrote.
    """
    sweeps = []
    for path in parent.glob(f"*/{CELLS}") if parent.is_dir() else ():
        with path.open("rb") as file:
            sweeps.append((path.parent.name, sum(line.endswith(b"\n") for line in file), path.stat().st_mtime))
    return sorted(sweeps, key=lambda each: -each[2])


def read_cells(folder: Path, most: int) -> list[dict[str, Any]]:
    """Return the first finished cells of a sweep, which may still be running; a damaged line is left out.

    Parameters
    ----------
    folder
        Folder of the results.
    most
        Largest number of cells.
    """
    rows: list[dict[str, Any]] = []
    with (folder / CELLS).open("rb") as file:
        for line in file:
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if isinstance(row, dict):
                    rows.append(row)
            if len(rows) == most:
                break
    return rows


# ------------------------------------------------------------------------------------------ backends

RAY_TIMEOUT_S = 30.0

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LocalBackend:
    """Backend of a sweep on this machine: spawned processes, by default one per core."""

    processes: int | None = None

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row | Exception]]:
        """Yield each cell with its row or error; cells of a killed process run again."""
        workers = min(self.processes or cores(), len(cells))
        for position, row in as_finished(_row_or_error, cells, workers):
            yield cells[position], row


def _row_or_error(cell: Cell) -> Row | Exception:
    try:
        return run_cell(cell)
    except HybridSchedulerError as error:
        return _Refused(str(error))


class _Refused(Exception):
    """Message of an error, which crosses process borders where the error itself might not."""


@dataclass(frozen=True, slots=True)
class RaySweepBackend:
    """Backend of a sweep on a Ray cluster: at `address`, or started here. Cells of lost nodes run again."""

    address: str | None = None

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row | Exception]]:
        """Yield each cell with its row or error."""
        ray = self._connected()
        remote = ray.remote(num_cpus=1, max_retries=ATTEMPTS)(_row_or_error)

        def most() -> int:
            # Some more than can run, so that no core is idle, and few enough to stop soon.
            return 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))

        try:
            for cell, reference in in_flight(cells, remote.remote, most, lambda running: ray.wait(running)[0]):
                try:
                    yield cell, ray.get(reference)
                except ray.exceptions.RayError as error:
                    yield cell, _Refused(f"lost {ATTEMPTS + 1} times: {type(error).__name__}")
        finally:
            ray.shutdown()

    def _connected(self) -> Any:
        from ..runtime.ray_executor import check_answers, connect

        if self.address is not None and self.address != "auto":
            check_answers(self.address)
            if not self.address.startswith("ray://"):
                _check_ray(self.address)
        return connect(self.address)


def _check_ray(address: str) -> None:
    """Refuse an address at which something other than Ray listens.

    A separate process asks, so that it can time out.
    """
    from ..runtime.ray_executor import RUN_WITHOUT_RAY

    command = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
    try:
        alive = subprocess.run(command, timeout=RAY_TIMEOUT_S, capture_output=True).returncode == 0
    except subprocess.TimeoutExpired:
        alive = False
    if not alive:
        allowed = "that of a Ray cluster, and what answers there is not Ray"
        raise InvalidInputError("address", allowed, address, hint=RUN_WITHOUT_RAY)
