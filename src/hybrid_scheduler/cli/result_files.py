"""Files of results: those of `simulate --out DIR`, written all at once or not at all, and logs of single tasks."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..cluster import RunResult
from ..core import InvalidInputError, Outcomes, Platform
from ..core.atomic_files import atomic_path
from ..core.canonical_json import pretty_json
from ..core.outcome import STATUS_NAMES
from ..engine import Comparison
from ..experiments import run_record
from ..experiments.exact_replay import comparison_events
from ..experiments.paired_comparison import seed_run
from ..experiments.spec import ExperimentSpec
from ..physics import Tariff
from ..reports.file_formats import write_table
from .doctor import why_not_writable
from .options import check_folder

_SUMMARY = "summary.json"
#: Up to this number of tasks over all schedulers the log holds every task, about 400 bytes each.
LOGGED_TASKS = 200_000
_OWN_FILES = re.compile(r"summary\.(json|csv)|tasks-.+\.parquet|run\.json|events\.jsonl|trace\.parquet")


def check_target(folder: Path, *, force: bool) -> None:
    """Raise now if the folder could not be written after a long run.

    Raises
    ------
    InvalidInputError
        If the folder is a file, holds other files, cannot be written, or is not empty and `force` is false.
    """
    check_folder("--out", folder)
    target = folder.resolve()
    if reason := why_not_writable(target.parent):
        raise InvalidInputError("--out", "a folder that can be written", str(folder), hint=reason)
    occupied = target.exists() and any(target.iterdir())
    if occupied and not _has_only_own_files(target):
        raise InvalidInputError("--out", "a folder that is new, empty or written by this command", str(folder))
    if occupied and not force:
        raise InvalidInputError("--out", "a new or empty folder", str(folder), hint="--force replaces its results")


@contextmanager
def staged(
    folder: Path | None,
    comparison: Comparison,
    document: dict[str, Any],
    record: Callable[[Path], object] | None = None,
) -> Iterator[Callable[[], None]]:
    """Write all files into a temporary folder beside `folder`.

    Parameters
    ----------
    folder
        The target, or None to write nothing.
    comparison, document
        Results and their JSON form.
    record
        Writes further files into the temporary folder, such as the record of the run.

    Yields
    ------
    callable
        Moves the temporary folder to its place.
    """
    if folder is None:
        yield lambda: None
        return
    target = folder.resolve()
    missing = [parent for parent in target.parents if not parent.exists()]
    stage = _beside(target)
    try:
        with run_record.writing(folder):
            stage.mkdir(parents=True)
            _write(stage, comparison, document)
            if record is not None:
                record(stage)

        def commit() -> None:
            with run_record.writing(folder):
                _replace(target, stage)

        yield commit
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if not target.exists():
            for parent in missing:
                parent.rmdir()


def _write(folder: Path, comparison: Comparison, document: dict[str, Any]) -> None:
    (folder / _SUMMARY).write_text(pretty_json(document), encoding="utf-8")
    _write_summaries(folder / "summary.csv", document["schedulers"])
    for spec, result in comparison.results.items():
        write_tasks(folder / f"tasks-{_file_name(spec)}.parquet", result)


def _write_summaries(path: Path, summaries: dict[str, dict[str, Any]]) -> None:
    """Write one row per scheduler, without numbers per device: a cluster has thousands of devices."""
    rows = [
        {"scheduler": spec} | {key: value for key, value in summary.items() if not isinstance(value, dict)}
        for spec, summary in summaries.items()
    ]
    write_table(path, list(rows[0]), rows)


def write_tasks(path: Path, result: RunResult) -> None:
    """Write the outcome of every task as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table(_task_columns(result)), path)


def _task_columns(result: RunResult) -> dict[str, Any]:
    """Return the outcome of every task as Arrow columns; a failed task has no start and no finish."""
    import pyarrow as pa

    outcomes = result.outcomes
    charges = result.energy_and_cost
    columns = {
        "task_id": outcomes.workload.task_id,
        "device": pa.DictionaryArray.from_arrays(
            outcomes.device, [device.name for device in result.platform.devices]
        ),
        "gpu_fraction": outcomes.fraction,
        "arrival": outcomes.workload.arrival_time,
        "start": outcomes.start,
        "finish": outcomes.finish,
        "time": outcomes.time,
        "latency": outcomes.latency,
        "wait": outcomes.wait,
        "energy": charges.energy,
        "cost": charges.cost,
        "status": pa.DictionaryArray.from_arrays(outcomes.status.astype(np.int8), list(STATUS_NAMES)),
    }
    # Empty is clearer than NaN.
    return {
        name: pa.array(column, from_pandas=True) if isinstance(column, np.ndarray) else column
        for name, column in columns.items()
    }


@contextmanager
def task_log(path: Path, platform: Platform, tariff: Tariff) -> Iterator[Callable[[str, Outcomes], None]]:
    """Write a CSV file with one row per scheduler and task, which appears when the block ends.

    Parameters
    ----------
    path
        The file.
    platform, tariff
        The machine's.

    Yields
    ------
    callable
        Adds the rows of a scheduler's tasks.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with atomic_path(path) as fresh, ExitStack() as files:
        writer: Any = None

        def add(scheduler: str, outcomes: Outcomes) -> None:
            nonlocal writer
            columns = _task_columns(RunResult(outcomes, platform, tariff, np.zeros(0)))
            names = pa.array([scheduler] * len(outcomes))
            for name in ("device", "status"):
                columns[name] = columns[name].dictionary_decode()
            table = pa.table({"scheduler": names, **columns})
            if writer is None:
                writer = files.enter_context(arrow_csv.CSVWriter(fresh, table.schema))
            writer.write_table(table)

        yield add


def write_record(spec: ExperimentSpec, seed: int, comparison: Comparison, folder: Path) -> None:
    """Write the record that `replay` repeats; for a long run the log has one digest per scheduler."""
    spec = replace(spec, schedulers=tuple(comparison.results))
    if len(comparison.workload) * len(comparison.results) <= LOGGED_TASKS:
        run_record.write_run(folder, run_record.SIMULATION, spec, [seed], run_record.simulation_events(comparison))
    else:
        found = comparison_events([seed_run(spec, seed, comparison)])
        run_record.write_run(folder, run_record.COMPARE, spec, [seed], found)


def _file_name(spec: str) -> str:
    """Return a file name for a scheduler: round_robin(variant=half) -> round_robin-variant=half."""
    return re.sub(r"[^\w.=+-]+", "-", spec).strip("-")


def _has_only_own_files(folder: Path) -> bool:
    names = [entry.name for entry in folder.iterdir()]
    return _SUMMARY in names and all(_OWN_FILES.fullmatch(name) for name in names)


def _beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")


def _replace(target: Path, stage: Path) -> None:
    """Move `stage` to `target`; an old folder is deleted only when the new one is in place."""
    if not target.exists():
        os.rename(stage, target)
        return
    old = _beside(target)
    os.rename(target, old)
    try:
        os.rename(stage, target)
    except OSError:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)
