"""Record of a run: configuration, seeds and versions, and a log whose digest identifies the run.

    run.json        run id (ULID), moment, seeds, configuration and its hash, versions, digest of the log
    events.jsonl    the log: one event per line, canonical JSON (sorted keys, shortest numbers), virtual time only
    trace.parquet   the tasks, where they came from a trace

A repeated run gives the same log, byte for byte; `exact_replay.py` checks that.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..cluster import RunResult
from ..core import HybridSchedulerError, InvalidInputError
from ..core.atomic_files import exclusive_lock, write_atomically
from ..core.canonical_json import canonical_json, content_hash, pretty_json
from ..core.outcome import STATUS_NAMES
from ..core.ulid import UlidGenerator
from ..engine import Comparison
from ..workload.trace_files import load_workload, save_workload
from .spec import ExperimentSpec, TraceSource

RECORD = "run.json"
EVENTS = "events.jsonl"
TRACE = "trace.parquet"
SIMULATION = "simulation"
COMPARE = "compare"
HEAVY = "heavy"
KINDS = (SIMULATION, COMPARE, HEAVY)
_FORMAT = 1
#: Packages whose version may change a number.
_PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "torch", "matplotlib")

Event = Mapping[str, Any]


def configuration_hash(kind: str, spec: ExperimentSpec, seeds: Iterable[int]) -> str:
    """Return the hash of all inputs: two runs with the same one should have the same log."""
    content = {"kind": kind, "seeds": list(seeds), "configuration": spec.as_json()}
    return content_hash(content)


def versions() -> dict[str, str]:
    """Return the versions and the system that the numbers may depend on besides the configuration."""
    installed = {"hybrid-scheduler": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return {**installed, "system": platform.system(), "machine": platform.machine()}


# ------------------------------------------------------------------------------------------ logs


def simulation_events(comparison: Comparison) -> Iterator[Event]:
    """Yield every decision and every finish, one scheduler after the other, each in the order of its own clock."""
    for name, result in comparison.results.items():
        yield from _events_of(name, result)
    for name, summary in comparison.summaries.items():
        yield {"type": "summary", "scheduler": name, "summary": summary.as_dict()}


def _events_of(name: str, result: RunResult) -> Iterator[Event]:
    outcomes = result.outcomes
    devices = [device.name for device in result.platform.devices]
    arrival = outcomes.workload.arrival_time
    count = len(arrival)
    # At one moment what ends comes before what begins, as in the cluster; a failed task never ends.
    moments = np.concatenate([outcomes.finish, arrival])
    for position in np.lexsort((np.tile(np.arange(count), 2), np.repeat([0, 1], count), moments)).tolist():
        outcome = outcomes[position % count]
        task = {"scheduler": name, "task": outcome.task_id, "device": devices[outcome.device]}
        if position >= count:
            yield {"type": "decision", "t": outcome.arrival, "fraction": outcome.fraction, **task}
        elif STATUS_NAMES[outcome.status] != "failed":
            yield {
                "type": "finish", "t": outcome.finish, "start": outcome.start,
                "status": STATUS_NAMES[outcome.status],
                "cpu": _part(outcome.cpu_start, outcome.cpu_time),
                "accelerator": _part(outcome.accelerator_start, outcome.accelerator_time), **task,
            }  # fmt: skip


def _part(start: float, seconds: float) -> list[float] | None:
    return None if math.isnan(start) else [start, seconds]


def lines(events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of a log."""
    for event in events:
        yield canonical_json(event) + "\n"


# ------------------------------------------------------------------------------------------ records


@dataclass(frozen=True)
class RunFile:
    """Content of run.json."""

    run_id: str
    kind: str
    created_at: str
    seeds: tuple[int, ...]
    configuration: dict[str, Any]
    configuration_hash: str
    versions: dict[str, str]
    events_sha256: str
    events_count: int
    trace: TraceSource | None = None

    @property
    def spec(self) -> ExperimentSpec:
        """Specification of the run."""
        return ExperimentSpec.from_json(self.configuration, self.trace)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": _FORMAT,
            "run_id": self.run_id,
            "kind": self.kind,
            "created_at": self.created_at,
            "seeds": list(self.seeds),
            "configuration": self.configuration,
            "configuration_hash": self.configuration_hash,
            "versions": self.versions,
            "events": {"file": EVENTS, "lines": self.events_count, "sha256": self.events_sha256},
        }


def write_run(
    folder: Path, kind: str, spec: ExperimentSpec, seeds: Iterable[int], events: Iterable[Event]
) -> RunFile:
    """Write log and record into `folder`, which is made; the record comes last, so that half a run has none.

    Parameters
    ----------
    folder
        Folder of the run.
    kind
        One of `KINDS`.
    spec
        Specification of the run.
    seeds
        Its seeds.
    events
        Lines of the log.
    """
    chosen = tuple(seeds)
    configuration = spec.as_json()
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    count = 0
    with (folder / EVENTS).open("wb") as file:
        for line in lines(events):
            content = line.encode()
            digest.update(content)
            file.write(content)
            count += 1
    if spec.trace is not None:
        save_workload(spec.trace.workload, folder / TRACE)
    now = time.time()
    record = RunFile(
        UlidGenerator(lambda: now)(), kind, datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"), chosen,
        configuration, configuration_hash(kind, spec, chosen), versions(), digest.hexdigest(), count,
        spec.trace,
    )  # fmt: skip
    write_atomically(folder / RECORD, pretty_json(record.as_json(), sort_keys=True))
    return record


def read_run(folder: Path) -> RunFile:
    """Read the record of a run folder.

    Raises
    ------
    InvalidInputError
        If the folder holds no record.
    HybridSchedulerError
        If the record is damaged or of an unknown kind.
    """
    path = folder / RECORD
    if not folder.is_dir():
        raise InvalidInputError("folder", "the folder of a recorded run", str(folder))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        events = content["events"]
        record = RunFile(
            content["run_id"], content["kind"], content["created_at"], tuple(content["seeds"]),
            content["configuration"], content["configuration_hash"], content["versions"],
            events["sha256"], events["lines"], _trace(folder, content["configuration"].get("trace")),
        )  # fmt: skip
    except FileNotFoundError:
        below = sorted(path.parent for path in folder.glob(f"*/{RECORD}"))
        commands = "hybrid-scheduler simulate --out DIR, compare --out DIR, report --keep DIR and heavy make one"
        hint = f"{below[0]} is one" if below else commands
        raise InvalidInputError("folder", f"a folder with a {RECORD}", str(folder), hint=hint) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HybridSchedulerError(f"{path} cannot be read: {error}") from None
    if record.kind not in KINDS or content.get("format") != _FORMAT:
        raise HybridSchedulerError(f"{path} is of a kind this version does not know: {record.kind}")
    return record


def _trace(folder: Path, known: Mapping[str, Any] | None) -> TraceSource | None:
    """Return the tasks beside the record if it is that of a trace; refuse tasks that were changed since."""
    if known is None:
        return None
    path = folder / TRACE
    if not path.exists():
        raise HybridSchedulerError(f"{path} is missing: the record's tasks were a trace")
    source = TraceSource.of(known["name"], load_workload(path), known["batches"] if known["batches"] > 1 else None)
    if source.sha256 != known["sha256"]:
        raise HybridSchedulerError(f"{path} was changed after the run: its digest is not the recorded one")
    return source


@contextmanager
def directory_lock(lock: Path, folder: Path) -> Iterator[None]:
    """Hold `lock`, the file that stands for `folder`; the system releases it however the process ends.

    Raises
    ------
    InvalidInputError
        If another run holds the lock.
    """
    with exclusive_lock(lock) as held:
        if not held:
            raise InvalidInputError("folder", "a folder that no other run is writing to", str(folder))
        yield


def prepare_folder(folder: Path) -> None:
    """Make a folder for results.

    Raises
    ------
    InvalidInputError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = error.strerror or type(error).__name__
        raise InvalidInputError("folder", "a folder that can be written", str(folder), hint=hint) from None


@contextmanager
def writing(path: Path, hint: str | None = None) -> Iterator[None]:
    """Turn an error of the system within this block into one that says what could not be written."""
    try:
        yield
    except OSError as error:
        raise HybridSchedulerError(f"cannot write {path}: {error.strerror or error}", hint=hint) from error
