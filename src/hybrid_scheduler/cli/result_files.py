"""Files of `simulate --out DIR`, written all at once or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..cluster import RunResult
from ..core import HybridSchedulerError, InvalidInputError
from ..core.canonical_json import pretty_json
from ..core.outcome import STATUS_NAMES
from ..engine import Comparison
from ..experiments import run_record
from ..experiments.exact_replay import comparison_events
from ..experiments.paired_comparison import seed_run
from ..reports.file_formats import write_table
from .inputs import SimulationInputs

_SUMMARY = "summary.json"
#: Up to this number of tasks over all schedulers the log holds every task, about 400 bytes each.
LOGGED_TASKS = 200_000
_OWN_FILES = re.compile(r"summary\.(json|csv)|tasks-.+\.parquet|run\.json|events\.jsonl|trace\.parquet")


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise now if the folder could not be written after a long run.

    Raises
    ------
    InvalidInputError
        If the folder is a file, holds other files, cannot be written, or is not empty and `force` is false.
    """
    target = folder.resolve()
    if target.exists() and not target.is_dir():
        raise InvalidInputError("--out", "a folder", str(folder))
    try:
        occupied = target.exists() and any(target.iterdir())
        if occupied and not _has_only_own_files(target):
            raise InvalidInputError("--out", "a folder that is new, empty or written by this command", str(folder))
        if occupied and not force:
            hint = "--force replaces its results"
            raise InvalidInputError("--out", "a new or empty folder", str(folder), hint=hint)
        parent = next(path for path in target.parents if path.exists())
        probe = _beside(parent / target.name)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        hint = error.strerror or type(error).__name__
        raise InvalidInputError("--out", "a folder that can be written", str(folder), hint=hint) from None


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
        with _explained(folder):
            stage.mkdir(parents=True)
            _write(stage, comparison, document)
            if record is not None:
                record(stage)

        def commit() -> None:
            with _explained(folder):
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

    outcomes, charges = result.outcomes, result.energy_and_cost
    names = [device.name for device in result.platform.devices]
    columns = {
        "task_id": outcomes.workload.task_id,
        "device": pa.DictionaryArray.from_arrays(outcomes.device, names),
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
    # A failed task has no start and no finish: empty is clearer than NaN.
    arrays = {
        name: pa.array(column, from_pandas=True) if isinstance(column, np.ndarray) else column
        for name, column in columns.items()
    }
    parquet.write_table(pa.table(arrays), path)


def write_record(inputs: SimulationInputs, comparison: Comparison, folder: Path) -> None:
    """Write the record that `replay` repeats; for a long run the log has one digest per scheduler."""
    spec = replace(inputs.spec, schedulers=tuple(comparison.results))
    if len(comparison.workload) * len(comparison.results) <= LOGGED_TASKS:
        run_record.write_run(
            folder, run_record.SIMULATION, spec, [inputs.seed], run_record.simulation_events(comparison)
        )
    else:
        found = comparison_events([seed_run(spec, inputs.seed, comparison)])
        run_record.write_run(folder, run_record.COMPARE, spec, [inputs.seed], found)


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


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HybridSchedulerError(f"cannot write {folder}: {error.strerror or error}") from error
