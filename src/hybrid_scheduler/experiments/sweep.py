"""Policies × scenarios × loads × platforms × seeds: many small runs, on this machine or on a Ray cluster.

A cell is one scheduler on one seed of one spec. Its result is one line in `cells.jsonl`, on the disk before the
next is counted, so a sweep that is killed goes on where it was. Cells are known by a digest of all that their
result depends on; whoever adds a load or a seed later repeats nothing. The table at the end is in the order of the
plan, whatever order the cells were finished in.
"""

from __future__ import annotations

import json
import math
import os
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
from .directory_lock import directory_lock
from .paired_comparison import SeedRun, run_seed
from .spec import ExperimentSpec

CELLS, TABLE = "cells.jsonl", "results.parquet"
_KEY_LENGTH = 24


@dataclass(frozen=True)
class Cell:
    """One scheduler, one seed."""

    spec: ExperimentSpec
    seed: int

    @cached_property
    def key(self) -> str:
        content = {"configuration": self.spec.as_json(), "seed": self.seed, "version": __version__}
        return content_hash(content)[:_KEY_LENGTH]

    @property
    def name(self) -> str:
        spec = self.spec
        where = f"{spec.source} · {spec.machine.platform.name}"
        return f"{spec.schedulers[0]} · {where} · {self.seed}"


def cells_of(specs: Iterable[ExperimentSpec], seeds: Sequence[int]) -> list[Cell]:
    """Every spec taken apart, in order; what is asked twice is run once."""
    cells = {
        cell.key: cell
        for spec in specs
        for seed in seeds
        for name in spec.schedulers
        for cell in [Cell(replace(spec, schedulers=(name,)), seed)]
    }
    return list(cells.values())


def run_cell(cell: Cell) -> dict[str, Any]:
    """The row of one cell. The same wherever it runs."""
    spec, name = cell.spec, cell.spec.schedulers[0]
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
    """Of the intervals within one trace; a scenario has those over its seeds. None where a queue grows."""
    halves = {
        metric: dependent_interval(np.array(values)).half_width
        for metric, values in run.batches.get(name, {}).items()
    }
    return {f"{metric}_half_width": half if math.isfinite(half) else None for metric, half in halves.items()}


#: Called with (the cell that was finished, cells done, cells in all).
Progress = Callable[[str, int, int], None]


class Backend(Protocol):
    """Runs cells somewhere. Yields each with its row, or with the error that it raised, in any order."""

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, dict[str, Any] | Exception]]: ...


def run_sweep(
    cells: Sequence[Cell], folder: Path, backend: Backend, *, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Run what is not finished, keep every result, and write the table. Returns its rows, in the plan's order."""
    if not cells:
        raise InvalidInputError("sweep", "at least one cell", "none")
    _prepare(folder)
    report = progress or (lambda *_: None)
    with directory_lock(folder / "lock", folder), (folder / CELLS).open("a+b") as file:
        wanted = {cell.key for cell in cells}
        done = {key: row for key, row in _finished(file).items() if key in wanted}
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


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = error.strerror or type(error).__name__
        raise InvalidInputError("--out", "a folder that can be written", str(folder), hint=hint) from None


def _finished(file: IO[bytes]) -> dict[str, dict[str, Any]]:
    """What earlier runs left. A last line that was cut off by a kill is dropped."""
    file.seek(0)
    rows: dict[str, dict[str, Any]] = {}
    whole = 0
    for number, line in enumerate(file, 1):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("cut off")
            row = json.loads(line)
            rows[row["key"]] = row
        except (ValueError, KeyError, TypeError):
            if file.read(1):  # not the last line: nothing of ours does that
                raise HybridSchedulerError(f"{file.name}: line {number} is damaged") from None
            break
        whole += len(line)
    file.truncate(whole)
    file.seek(0, os.SEEK_END)
    return rows


def _append(file: IO[bytes], row: dict[str, Any]) -> None:
    file.write(canonical_json(row).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Parquet; the same rows give the same bytes."""
    import pyarrow as pa
    from pyarrow import parquet

    # Through the stored form, so that a value that was just computed and one that was read back are alike.
    plain = [json.loads(canonical_json(row)) for row in rows]
    columns = {name: [_number(row[name]) for row in plain] for name in plain[0]}
    with atomic_path(path) as fresh:
        parquet.write_table(pa.table(columns), fresh)


def _number(value: Any) -> Any:
    """Whole numbers of measured columns come as either kind; one kind per column."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def read_table(folder: Path) -> Any:
    """The finished table as a pandas frame."""
    import pandas as pd

    path = folder / TABLE
    if not path.exists():
        hint = "the sweep has not come to its end: run it again to go on" if (folder / CELLS).exists() else None
        raise InvalidInputError("folder", f"one with a {TABLE}", str(folder), hint=hint)
    return pd.read_parquet(path)
