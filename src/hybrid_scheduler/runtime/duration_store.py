"""Learned run times on disk, shared by all programs of one user on one machine."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.atomic_files import exclusive_lock, remove_leftovers, write_atomically
from ..core.cache_folder import user_cache_folder
from ..profiling.machine_info import cpu_model, usable_cores
from ..profiling.strict_json import read_json

_log = logging.getLogger(__name__)
#: Version of the file's format, which is part of its name; files of another version are ignored.
_VERSION = 1
_FORMAT = "hybrid-scheduler run times"
#: Seconds to wait for another program that is writing.
LOCK_TIMEOUT_S = 5.0
#: Rows that are kept; those that were measured longest ago go first.
MAX_ROWS = 20_000
#: Largest size of a file.
_MAX_BYTES = 1 << 26
#: Largest size in a row: sizes are logarithms.
_MAX_SIZE = 100.0
#: Files whose problem was reported; one program may have many executors.
_reported: set[Path] = set()


def duration_folder(folder: bool | str | Path = True) -> Path:
    """Return the folder for learned run times.

    Parameters
    ----------
    folder : bool or path, optional
        A folder; True stands for HYBRID_SCHEDULER_CACHE, or for one in the user's cache folder.
    """
    if not isinstance(folder, bool):
        return Path(folder)
    given = os.environ.get("HYBRID_SCHEDULER_CACHE")
    return Path(given) if given else user_cache_folder() / "run-times"


class StoredRun(NamedTuple):
    """Run time of one function on one device, for calls of one size.

    Attributes
    ----------
    function : str
        Name of the function and hash of its code.
    device_class : str
        Where it ran.
    signature : str
        Ranks and types of the arguments, as JSON.
    sizes : list of float
        Dimensions and whole numbers among the arguments, each as ``ln(1 + value)``.
    nbytes : int
        Bytes of the arrays.
    seconds : float
        Mean run time.
    runs : int
        Number of runs.
    measured_at : int
        When it ran last, in seconds since 1970.
    """

    function: str
    device_class: str
    signature: str
    sizes: list[float]
    nbytes: int
    seconds: float
    runs: int
    measured_at: int


class DurationFile(NamedTuple):
    """Content of a file: id and description of the machine, and what was measured on it."""

    machine: str
    description: str
    rows: list[StoredRun]


class DurationStore:
    """File of learned run times for one machine.

    A file that cannot be read, or a folder that cannot be written, is reported once; the program goes on without.

    Parameters
    ----------
    folder : bool or path
        Folder of the file; True stands for the user's cache folder.
    device_classes : sequence of str
        Accelerators of this machine.
    cores : int, optional
        CPU cores that the program uses; all usable ones if left out.
    """

    def __init__(self, folder: bool | str | Path, device_classes: Sequence[str], cores: int | None = None) -> None:
        self.folder = duration_folder(folder)
        # Run times of other processors say nothing here.
        parts = cpu_model(), f"{cores or usable_cores()} cores", *sorted(device_classes)
        self.description = ", ".join(parts)
        self.machine = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
        self.path = self.folder / f"{self.machine}-v{_VERSION}.json"

    def load(self) -> list[list[Any]]:
        """Return the rows that are on disk, for `FunctionDurations.restore`."""
        return [list(row[:7]) for row in self._read().rows]

    def save(self, rows: list[list[Any]]) -> None:
        """Add rows of `FunctionDurations.state` to the file; others stay as they are."""
        if not rows:
            return
        now = int(time.time())

        def add() -> None:
            merged = {_key(row): row for row in self._read().rows}
            for row in rows:
                new = StoredRun._make((*row, now))
                merged[_key(new)] = new
            kept = sorted(merged.values(), key=lambda row: row.measured_at)[-MAX_ROWS:]
            _write(self.path, DurationFile(self.machine, self.description, kept))

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _locked(self.folder, add)
        except OSError as error:
            self._report(f"run times are not kept: {self.folder}: {error}")

    def _read(self) -> DurationFile:
        try:
            if not self.path.exists():
                return DurationFile(self.machine, self.description, [])
            found = read_duration_file(self.path)
            if found.machine != self.machine:
                raise ValueError("made on another machine")
        except (OSError, ValueError) as error:
            self._report(f"run times were not read: {self.path}: {error}")
        else:
            return found
        return DurationFile(self.machine, self.description, [])

    def _report(self, message: str) -> None:
        if self.path not in _reported:
            _reported.add(self.path)
            _log.warning("%s", message)


def duration_paths(folder: Path) -> list[Path]:
    """Return the files of learned run times in a folder, one for each machine."""
    return sorted(folder.glob("*.json"))


def read_duration_file(path: Path) -> DurationFile:
    """Read a file of learned run times.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is damaged, or of another version.
    """
    try:
        document = read_json(path, _MAX_BYTES)
        if document["format"] != _FORMAT or document["version"] != _VERSION:
            raise ValueError(f"version {str(document['version'])[:20]}, not {_VERSION}")
        rows = [StoredRun(*row) for row in document["rows"]]
        dimensions: dict[tuple[str, str, str], int] = {}
        for row in rows:
            _check(row)
            if dimensions.setdefault(row[:3], len(row.sizes)) != len(row.sizes):
                raise ValueError("rows that contradict each other")
        return DurationFile(str(document["machine"]), str(document.get("description", "")), rows)
    except (KeyError, TypeError, RecursionError, AttributeError) as error:
        raise ValueError(f"damaged ({type(error).__name__})") from None


def delete_durations(path: Path, functions: set[str] | None = None) -> None:
    """Remove functions from a file of learned run times, or the whole file.

    Parameters
    ----------
    path : Path
        The file.
    functions : set of str, optional
        Functions to remove, as in `StoredRun.function`; all if left out.
    """

    def remove() -> None:
        found = read_duration_file(path) if functions is not None else None
        kept = [row for row in found.rows if row.function not in (functions or ())] if found else []
        if found and kept:
            _write(path, found._replace(rows=kept))
        else:
            path.unlink(missing_ok=True)

    _locked(path.parent, remove)


def _locked(folder: Path, change: Callable[[], None]) -> None:
    """Change a file while no other program changes one; raises TimeoutError if another program does not end."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        with exclusive_lock(folder / ".lock") as mine:
            if mine:
                remove_leftovers(folder)
                change()
                return
        if time.monotonic() > deadline:
            raise TimeoutError("another program holds the lock")
        time.sleep(0.01)


def _write(path: Path, content: DurationFile) -> None:
    document = {"format": _FORMAT, "version": _VERSION, **content._asdict()}
    write_atomically(path, json.dumps(document) + "\n")


def _key(row: StoredRun) -> tuple[Any, ...]:
    return row.function, row.device_class, row.signature, tuple(row.sizes)


def _check(row: StoredRun) -> None:
    """Raise ValueError for a row that cannot be a measurement."""
    texts = all(isinstance(text, str) for text in row[:3])
    numbers = [row.nbytes, row.seconds, row.runs, row.measured_at, *row.sizes]
    if (
        not texts
        or type(row.sizes) is not list
        or not all(type(number) in (int, float) and 0 <= number < 1e18 for number in numbers)
        or not 0 < row.seconds < 1e9
        or not all(size < _MAX_SIZE for size in row.sizes)
    ):
        raise ValueError("a row that is no measurement")
    signature = json.loads(row.signature)
    if type(signature) is not list or not all(_is_plain(part) for part in signature):
        raise ValueError("a row with a damaged signature")


def _is_plain(value: Any) -> bool:
    """Return whether a value is one of those in the signature of a call: a word, a number, or a list of them."""
    return not isinstance(value, dict | list) or (
        isinstance(value, list) and not any(isinstance(item, dict | list) for item in value)
    )
