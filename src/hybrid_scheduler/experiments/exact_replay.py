"""Replay of a recorded run: the same configuration and seeds must give the same log, byte for byte.

An evidence file is a report in HTML that holds the whole folder of its run, so that one file can be replayed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..core import HybridSchedulerError, InvalidInputError
from . import run_record
from .heavy_simulation import run_heavy
from .paired_comparison import SeedRun, run_seeds
from .run_record import Event, RunFile
from .spec import model_digests

_EVIDENCE_FORMAT = 1
_EVIDENCE_OPENS = '<script type="application/json" id="evidence">'
_EVIDENCE_CLOSES = "</script>\n"
RUN_FILES = (run_record.RECORD, run_record.EVENTS, run_record.TRACE)
#: Largest file in an evidence file: a log of 200,000 tasks has about 80 MB.
_MAX_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay. `line` is the number of the first line that differs, with both its texts."""

    record: RunFile
    sha256: str
    line: tuple[int, str, str] | None
    changed_versions: dict[str, tuple[str, str]]

    @property
    def same(self) -> bool:
        """Whether the logs are equal."""
        return self.sha256 == self.record.events_sha256


def comparison_events(runs: Iterable[SeedRun]) -> Iterator[Event]:
    """Yield one line per seed and scheduler, with the digest of every task's outcome."""
    for run in runs:
        for name, numbers in run.metrics.items():
            yield {
                "type": "result", "seed": run.seed, "scheduler": name, "outcomes": run.digests[name],
                "lower_bound": run.lower_bound, "summary": numbers,
                **({"batches": run.batches[name]} if run.batches else {}),
            }  # fmt: skip


def replay(
    folder: Path, *, processes: int | None = None, progress: Callable[[str, int], None] | None = None
) -> ReplayResult:
    """Run a recorded run again and compare the logs.

    Parameters
    ----------
    folder
        Folder of the recorded run.
    processes
        Number of processes; one per core if left out.
    progress
        Called with the work in progress and its count.

    Raises
    ------
    HybridSchedulerError
        If the log is missing, or no longer matches its record.
    """
    record = run_record.read_run(folder)
    log = folder / run_record.EVENTS
    if not log.exists():
        raise HybridSchedulerError(f"{log} is missing: there is nothing to compare with")
    content = log.read_bytes()
    if hashlib.sha256(content).hexdigest() != record.events_sha256:
        raise HybridSchedulerError(f"{log} was changed after the run: its digest is not the recorded one")
    digest = hashlib.sha256()
    first = None
    stored: Sequence[str] = content.decode().splitlines(keepends=True)
    repeated = run_record.lines(_events(record, processes, progress))
    for number, (before, after) in enumerate(zip_longest(stored, repeated, fillvalue=""), 1):
        digest.update(after.encode())
        if before != after and first is None:
            first = (number, before.rstrip("\n"), after.rstrip("\n"))
    models = record.configuration.get("models", {})
    before_and_now = _named(record.versions, models), _named(run_record.versions(), model_digests(models))
    return ReplayResult(record, digest.hexdigest(), first, _changed(*before_and_now))


def _named(versions: dict[str, str], models: dict[str, str]) -> dict[str, str]:
    return {**versions, **{f"model of {name}": sha256 for name, sha256 in models.items()}}


def _events(record: RunFile, processes: int | None, progress: Callable[[str, int], None] | None) -> Iterable[Event]:
    spec = record.spec
    if record.kind == run_record.COMPARE:
        return comparison_events(run_seeds(spec, record.seeds, processes=processes, progress=progress))
    if record.kind == run_record.HEAVY:
        return run_heavy(spec, record.seeds[0], progress=progress).events()
    return run_record.simulation_events(spec.run(record.seeds[0], progress=progress))


def _changed(before: dict[str, str], now: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {
        name: (before.get(name, "none"), now.get(name, "none"))
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    }


# ------------------------------------------------------------------------------------------ evidence files


def add_evidence(html: str, folder: Path) -> str:
    """Return a report with the files of its run embedded as JSON.

    Parameters
    ----------
    html
        The report.
    folder
        Folder of the recorded run.
    """
    record = run_record.read_run(folder)
    contents = {name: (folder / name).read_bytes() for name in RUN_FILES if (folder / name).exists()}
    evidence = {
        "format": _EVIDENCE_FORMAT,
        "run_id": record.run_id,
        "configuration_sha256": record.configuration_hash,
        "log_sha256": record.events_sha256,
        "report_sha256": hashlib.sha256(html.encode()).hexdigest(),
        "verify": "hybrid-scheduler report --verify THIS_FILE",
        "files": {
            name: {
                "sha256": hashlib.sha256(content).hexdigest(),
                "bytes": len(content),
                "zlib_base64": base64.b64encode(zlib.compress(content, 9)).decode(),
            }
            for name, content in contents.items()
        },
    }
    block = json.dumps(evidence, indent=1, allow_nan=False).replace("<", "\\u003c")
    before, end, after = html.rpartition("</body>")
    return f"{before}{_EVIDENCE_OPENS}{block}{_EVIDENCE_CLOSES}{end}{after}"


def unpack_evidence(path: Path, folder: Path) -> RunFile:
    """Write the files of an evidence file into a folder, and return its record.

    Parameters
    ----------
    path
        The evidence file.
    folder
        A new or empty folder.

    Raises
    ------
    InvalidInputError
        If the file is not an evidence file.
    HybridSchedulerError
        If the report or an embedded file was changed. Nothing is written then.
    """
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise _not_evidence(path, str(error)) from None
    before, opens, rest = text.partition(_EVIDENCE_OPENS)
    block, _, after = rest.partition(_EVIDENCE_CLOSES)
    if not opens:
        raise _not_evidence(path, "it holds no run")
    try:
        evidence = json.loads(block)
        if evidence["format"] != _EVIDENCE_FORMAT:
            raise ValueError(f"its format is {evidence['format']}")
        files = {name: _embedded(path, name, content) for name, content in evidence["files"].items()}
        if run_record.RECORD not in files or any(name not in RUN_FILES for name in files):
            raise ValueError(f"its files are {', '.join(files)}")
        report_sha256 = evidence["report_sha256"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _not_evidence(path, str(error)) from None
    if hashlib.sha256((before + after).encode()).hexdigest() != report_sha256:
        raise HybridSchedulerError(f"{path}: the report was changed after it was written")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return run_record.read_run(folder)


def _embedded(path: Path, name: str, one: dict[str, Any]) -> bytes:
    size = int(one["bytes"])
    if not 0 <= size <= _MAX_BYTES:
        raise ValueError(f"{name} has {size} bytes")
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(one["zlib_base64"], validate=True), size + 1)
    except (zlib.error, binascii.Error):
        content = b""
    if len(content) != size or hashlib.sha256(content).hexdigest() != one["sha256"]:
        raise HybridSchedulerError(f"{path}: the embedded {name} was changed after it was written")
    return content


def _not_evidence(path: Path, why: str) -> InvalidInputError:
    hint = f"{why}; hybrid-scheduler report RUN_DIR --evidence FILE writes one"
    return InvalidInputError("path", "an evidence file", str(path), hint=hint)
