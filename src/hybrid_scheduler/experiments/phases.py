"""Resumable phases: finished phases are kept, unfinished ones leave no files behind.

A phase reads files and writes files, nothing else. Its fingerprint covers all that its outputs depend on: its
parameters, the contents of its inputs and the version of this package. It is skipped when the last finished run had
the same fingerprint and its outputs are unchanged since.

Outputs are written into a hidden folder beside the results and moved into place when the phase is done. The note
that it is finished comes last: a run that is killed in between does the phase again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..core import HybridSchedulerError, InvalidInputError
from ..core.atomic_files import write_atomically
from ..core.canonical_json import content_hash, pretty_json
from .run_record import directory_lock

#: Folder of the list of finished phases, the lock and unfinished files.
HIDDEN = ".pipeline"


@dataclass(frozen=True, slots=True)
class PhaseContext:
    """Files and progress of a running phase: it reads finished files, writes unfinished ones, reports 0 to 1."""

    folder: Path
    stage: Path
    report: Callable[[str, float], None]

    def read(self, name: str) -> Path:
        """Return the path of a finished file."""
        return self.folder / name

    def write(self, name: str) -> Path:
        """Return the path for an output, in the folder of unfinished files."""
        path = self.stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase; inputs and outputs are files by their path below the folder of the results."""

    name: str
    outputs: tuple[str, ...]
    work: Callable[[PhaseContext], None]
    inputs: tuple[str, ...] = ()
    #: Everything else that the outputs depend on; compared by its text.
    parameters: tuple[Any, ...] = ()

    def fingerprint(self, folder: Path) -> str:
        """Return the digest of all that the outputs depend on."""
        content = {
            "phase": self.name,
            "version": __version__,
            "parameters": [repr(parameter) for parameter in self.parameters],
            "inputs": {name: _digest(folder / name) for name in self.inputs},
            "outputs": self.outputs,
        }
        return content_hash(content)


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """Result of a phase."""

    phase: Phase
    skipped: bool
    seconds: float
    fingerprint: str


#: Called with (number of the phase from 0 on, what it does, share done).
Progress = Callable[[int, str, float], None]


def run_phases(
    phases: Sequence[Phase],
    folder: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    finished: Callable[[int, PhaseResult], None] | None = None,
) -> list[PhaseResult]:
    """Run the phases that are not yet done, in order.

    Parameters
    ----------
    phases
        The phases.
    folder
        Folder of the results.
    force
        Run all phases.
    progress
        Called with the number of the phase, what it does, and the share done.
    finished
        Called after each phase.

    Raises
    ------
    InvalidInputError
        If the folder cannot be used, or another run uses it.
    HybridSchedulerError
        If a file cannot be written.
    """
    hidden = _prepare_folder(folder)
    done: list[PhaseResult] = []
    with directory_lock(hidden / "lock", folder):
        finished_phases = _FinishedPhases(hidden / "finished.json")
        if force:
            finished_phases.clear()
        for number, phase in enumerate(phases):

            def report(text: str, share: float, number: int = number) -> None:
                if progress:
                    progress(number, text, share)

            report(phase.name, 0.0)
            with _explain_write_errors(folder):
                done.append(_run(phase, folder, hidden / "unfinished", finished_phases, report))
            if finished:
                finished(number, done[-1])
    return done


def _run(
    phase: Phase, folder: Path, stage: Path, finished_phases: _FinishedPhases, report: Callable[[str, float], None]
) -> PhaseResult:
    began = time.perf_counter()
    fingerprint = phase.fingerprint(folder)
    if finished_phases.is_current(phase, fingerprint, folder):
        return PhaseResult(phase, True, 0.0, fingerprint)
    # An earlier run may have been killed here.
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    try:
        phase.work(PhaseContext(folder, stage, report))
        for name in phase.outputs:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(stage / name, target)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    finished_phases.add(phase, fingerprint, folder)
    return PhaseResult(phase, False, time.perf_counter() - began, fingerprint)


class _FinishedPhases:
    """Finished phases, each with its fingerprint and the digests of its outputs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, dict[str, Any]] = {}
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return  # missing or damaged: all phases run again
        if isinstance(entries, dict):
            self._entries = {name: entry for name, entry in entries.items() if isinstance(entry, dict)}

    def is_current(self, phase: Phase, fingerprint: str, folder: Path) -> bool:
        entry = self._entries.get(phase.name, {})
        return entry.get("fingerprint") == fingerprint and entry.get("outputs") == _digests(phase, folder)

    def add(self, phase: Phase, fingerprint: str, folder: Path) -> None:
        self._entries[phase.name] = {"fingerprint": fingerprint, "outputs": _digests(phase, folder)}
        self._save()

    def clear(self) -> None:
        self._entries = {}
        self._save()

    def _save(self) -> None:
        write_atomically(self._path, pretty_json(self._entries))


def _digests(phase: Phase, folder: Path) -> Mapping[str, str | None]:
    return {name: _digest(folder / name) for name in phase.outputs}


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


# ------------------------------------------------------------------------------------------ the folder


def _prepare_folder(folder: Path) -> Path:
    hidden = folder / HIDDEN
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError("--out", "a folder", str(folder))
    try:
        hidden.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = error.strerror or type(error).__name__
        raise InvalidInputError("--out", "a folder that can be written", str(folder), hint=hint) from None
    return hidden


@contextmanager
def _explain_write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "finished phases are kept: run it again to go on"
        raise HybridSchedulerError(f"cannot write {folder}: {error.strerror or error}", hint=hint) from error
