"""Saving and loading of workloads as CSV or Parquet files, chosen by suffix; .csv.gz is read too.

Loading is all or nothing: a file with a bad row is an error with the line and the reason, unless bad rows are
skipped on request. Saving never leaves half a file. Messages name the file but not its folders. Parquet is imported
only when used, because the import takes longer than reading a typical CSV file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..core import InvalidInputError, UnknownNameError, Workload
from ..core.atomic_files import atomic_path
from .argument_checks import file_errors
from .csv_file import read_csv, write_csv
from .trace_columns import ReadReport, workload_from

SUFFIXES = (".csv", ".parquet")
_READABLE = (*SUFFIXES, ".csv.gz")

AnyPath = str | os.PathLike[str]


def save_workload(workload: Workload, path: AnyPath) -> None:
    """Write a workload to a .csv or .parquet file, replacing it atomically.

    Parameters
    ----------
    workload
        Tasks to write.
    path
        File to write; its suffix chooses the format.

    Raises
    ------
    InvalidInputError
        If the suffix is unknown or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hybrid_scheduler import WorkloadGenerator, load_workload, save_workload
    >>> workload = WorkloadGenerator(seed=1).generate_workload(10, utilisation=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_workload(workload, Path(folder) / "trace.csv")
    ...     len(load_workload(Path(folder) / "trace.csv"))
    10
    """
    target = Path(path)
    suffix = _suffix(target)
    with (
        file_errors("path", "a file that can be written", target),
        atomic_path(target, make_folders=False) as new,
    ):
        try:
            if suffix == ".csv":
                with new.open("x", encoding="utf-8", newline="") as file:
                    write_csv(workload, file)
            else:
                from .parquet_file import write_parquet

                with new.open("xb") as binary:
                    write_parquet(workload, binary)
        except UnicodeEncodeError as error:
            raise InvalidInputError("kind or external_id", "text that UTF-8 can hold", error.object) from None


def load_workload(path: AnyPath) -> Workload:
    """Return the workload of a .csv or .parquet file.

    Parameters
    ----------
    path
        File to read.

    Returns
    -------
    Workload
        The tasks of the file.

    Raises
    ------
    InvalidInputError
        If the file cannot be read or has bad rows; the message names the first and counts them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hybrid_scheduler import load_workload
    >>> header = "task_id,size,compute_intensity,memory_required,arrival_time"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "trace.csv"
    ...     _ = path.write_text(header + chr(10) + "0,2500,0.5,100,0.0")
    ...     load_workload(path)[0].size
    2500.0
    """
    return load_with_report(path)[0]


def load_with_report(
    path: AnyPath, skip_bad: bool = False, max_bytes: int | None = None
) -> tuple[Workload, ReadReport]:
    """Return the workload of a file, and a report of its rows and columns.

    Parameters
    ----------
    path
        .csv, .csv.gz or .parquet file.
    skip_bad
        Whether to leave out bad rows, and the tasks that depend on them, instead of raising an error.
    max_bytes
        Largest size of the decoded rows; None for no limit.

    Raises
    ------
    DecodedTooLarge
        If the rows are larger than `max_bytes`.
    InvalidInputError
        If the file cannot be read, or has bad rows and `skip_bad` is False.
    """
    source = Path(path)
    suffix = _suffix(source, _READABLE)
    with file_errors("path", "a file that can be read", source):
        if source.is_dir():
            raise InvalidInputError("path", "a file, not a folder", source.name)
        if not source.exists():
            raise InvalidInputError("path", "a file that exists", source.name)
        if suffix != ".parquet":
            rows = read_csv(source, max_bytes)
            word = "line"
        else:
            from .parquet_file import read_parquet

            rows = read_parquet(source, max_bytes)
            word = "row"
    return workload_from(rows, source.name, word, skip_bad=skip_bad)


def trace_named(name: str, folder: AnyPath) -> Path:
    """Return the path of a named trace in a folder: ``week`` is week.csv or week.parquet."""
    if not name or name.startswith(".") or any(mark in name for mark in "/\\:\0"):
        raise InvalidInputError("trace", "a bare name, without folders", name)
    root = Path(folder)
    for candidate in (name, *(name + suffix for suffix in _READABLE)):
        if candidate.lower().endswith(_READABLE) and (root / candidate).is_file():
            return root / candidate
    known = {path.name.removesuffix(suffix) for suffix in _READABLE for path in root.glob(f"*{suffix}")}
    raise UnknownNameError("trace", name, known)


def find_trace(trace: str, folder: AnyPath) -> Path:
    """Return the file of a trace that is given as a path, or as a bare name in a folder."""
    path = Path(trace)
    return path if path.exists() or len(path.parts) > 1 else trace_named(trace, folder)


def _suffix(path: Path, allowed: Sequence[str] = SUFFIXES) -> str:
    if "\0" in str(path):
        raise InvalidInputError("path", "free of NUL characters", path.name)
    for suffix in allowed:
        if path.name.lower().endswith(suffix):
            return suffix
    named = " or ".join(SUFFIXES)
    raise InvalidInputError("path", f"a name that ends in {named}", path.name, hint=_other_format_hint(path))


def _other_format_hint(path: Path) -> str | None:
    return f"hybrid-scheduler import {path.name} reads other formats" if path.is_file() else None
