"""Learned run times on disk, shared by all programs of one user on one machine."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.atomic_files import exclusive_lock, write_atomically
from ..profiling.machine_info import cpu_model, usable_cores

_log = logging.getLogger(__name__)
#: Version of the file's format; files of another version are ignored.
_VERSION = 1
_FORMAT = "hybrid-scheduler run times"
#: Seconds to wait for another program that is writing.
_PATIENT = 5.0
#: Rows that are kept; those of functions that ran longest ago go first.
_MOST_ROWS = 20_000


def _default_folder() -> Path:
    """Return the folder for learned run times: HYBRID_SCHEDULER_CACHE, or one in the user's cache folder."""
    given = os.environ.get("HYBRID_SCHEDULER_CACHE")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "hybrid-scheduler" / "run-times"


def _machine_id(device_classes: Sequence[str]) -> str:
    """Return an id of this machine's processors; run times of other machines say nothing here."""
    text = "\n".join((cpu_model(), str(usable_cores()), *sorted(device_classes)))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class DurationStore:
    """File of learned run times for one machine.

    A file that cannot be read, or a folder that cannot be written, is reported once; the program goes on without.

    Parameters
    ----------
    folder : bool or path
        Folder of the file; True stands for the user's cache folder.
    device_classes : sequence of str
        Accelerators of this machine.
    """

    def __init__(self, folder: bool | str | Path, device_classes: Sequence[str]) -> None:
        self.folder = _default_folder() if isinstance(folder, bool) else Path(folder)
        self.machine = _machine_id(device_classes)
        self.path = self.folder / f"{self.machine}.json"
        self._reported = False

    def load(self) -> list[list[Any]]:
        """Return the rows of `FunctionDurations.as_document` that are on disk."""
        return [row[:7] for row in self._rows()]

    def save(self, rows: list[list[Any]]) -> None:
        """Add rows to the file; those of other programs stay."""
        if not rows:
            return
        now = int(time.time())
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            deadline = time.monotonic() + _PATIENT
            while True:
                with exclusive_lock(self.folder / f".{self.machine}.lock") as mine:
                    if mine:
                        merged = {_key(row): row for row in self._rows()}
                        for row in rows:
                            before = merged.pop(_key(row), None)
                            when = before[7] if before is not None and before[:7] == row else now
                            merged[_key(row)] = [*row, when]
                        kept = sorted(merged.values(), key=lambda row: row[7])[-_MOST_ROWS:]
                        document = {"format": _FORMAT, "version": _VERSION, "machine": self.machine, "rows": kept}
                        write_atomically(self.path, json.dumps(document) + "\n")
                        return
                if time.monotonic() > deadline:
                    raise TimeoutError("another program holds the lock")
                time.sleep(0.01)
        except OSError as error:
            self._report(f"run times are not kept: {self.folder}: {error}")

    def clear(self) -> bool:
        """Remove the file; return whether there was one."""
        there = self.path.exists()
        self.path.unlink(missing_ok=True)
        return there

    def _rows(self) -> list[list[Any]]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            self._report(f"run times were not read: {self.path}: {error}")
            return []
        try:
            document = json.loads(text)
            if document["format"] != _FORMAT or document["version"] != _VERSION:
                raise ValueError(f"version {document.get('version')}, not {_VERSION}")
            if document["machine"] != self.machine:
                raise ValueError("made on another machine")
            rows = document["rows"]
            for row in rows:
                _check(row)
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
            self._report(f"run times were not read: {self.path}: {error}")
            return []
        return list(rows)

    def _report(self, message: str) -> None:
        if not self._reported:
            self._reported = True
            _log.warning("%s", message)


def _key(row: list[Any]) -> tuple[Any, ...]:
    return row[0], row[1], row[2], tuple(row[3])


def _check(row: Any) -> None:
    function, device_class, signature, sizes, nbytes, seconds, runs, when = row
    texts = isinstance(function, str) and isinstance(device_class, str) and isinstance(signature, str)
    numbers = [nbytes, seconds, runs, when, *sizes]
    if not texts or not all(type(one) in (int, float) and abs(one) < 1e18 for one in numbers):
        raise ValueError("a row that is no measurement")
    if not 0 < seconds < 1e9:
        raise ValueError("a run time that is not above 0")
    json.loads(signature)
