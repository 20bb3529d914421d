"""Saving and loading workloads: CSV or Parquet by the file's suffix.

Loading is all or nothing: a file with a bad row is refused with the place and the reason, unless skipping bad
rows was asked for. Saving never leaves half a file behind. Messages name the file but not the folders above it.
Parquet is imported where it is used: importing it takes longer than reading a usual CSV.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core import InvalidInputError, UnknownNameError, Workload
from .csv_file import read_csv, write_csv
from .trace_columns import ReadReport, workload_from

SUFFIXES = (".csv", ".parquet")

AnyPath = str | os.PathLike[str]


def save(workload: Workload, path: AnyPath) -> None:
    """Write the workload to a .csv or .parquet file, replacing it in one step."""
    target = Path(path)
    suffix = _suffix(target)
    try:
        with _replacing(target) as temporary:
            if suffix == ".csv":
                with temporary.open("x", encoding="utf-8", newline="") as file:
                    write_csv(workload, file)
            else:
                from .parquet_file import write_parquet

                with temporary.open("xb") as binary:
                    write_parquet(workload, binary)
    except UnicodeEncodeError as error:
        raise InvalidInputError("kind or external_id", "text that UTF-8 can hold", error.object) from None
    except OSError as error:
        raise InvalidInputError(
            "path", "a file that can be written", target.name, hint=error.strerror or type(error).__name__
        ) from None


def load(path: AnyPath) -> Workload:
    """Read a .csv or .parquet file. Bad rows are an `InvalidInputError` that names the first and counts them."""
    return load_with_report(path)[0]


def load_with_report(path: AnyPath, skip_bad: bool = False) -> tuple[Workload, ReadReport]:
    """Like `load`, and says what became of rows and columns.

    With `skip_bad` bad rows are left out, and so are tasks that depend on one that was.
    """
    source = Path(path)
    suffix = _suffix(source)
    try:
        if source.is_dir():
            raise InvalidInputError("path", "a file, not a folder", source.name)
        if not source.exists():
            raise InvalidInputError("path", "a file that exists", source.name)
        if suffix == ".csv":
            rows, word = read_csv(source), "line"
        else:
            from .parquet_file import read_parquet

            rows, word = read_parquet(source), "row"
    except OSError as error:
        raise InvalidInputError(
            "path", "a file that can be read", source.name, hint=error.strerror or type(error).__name__
        ) from None
    return workload_from(rows, source.name, word, skip_bad=skip_bad)


def trace_named(name: str, folder: AnyPath) -> Path:
    """The trace of that name in the folder: ``week`` is week.csv or week.parquet. A path is not a name."""
    if not name or name.startswith(".") or any(mark in name for mark in "/\\:\0"):
        raise InvalidInputError("trace", "a bare name, without folders", name)
    root = Path(folder)
    for candidate in (name, *(name + suffix for suffix in SUFFIXES)):
        if candidate.lower().endswith(SUFFIXES) and (root / candidate).is_file():
            return root / candidate
    known = {path.stem for suffix in SUFFIXES for path in root.glob(f"*{suffix}")}
    raise UnknownNameError("trace", name, known)


def _suffix(path: Path) -> str:
    if "\0" in str(path):
        raise InvalidInputError("path", "free of NUL characters", path.name)
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInputError("path", f"a name that ends in {' or '.join(SUFFIXES)}", path.name)
    return path.suffix.lower()


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A temporary file beside the target that takes its place when all went well, and vanishes when not."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
