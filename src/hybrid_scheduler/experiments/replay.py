"""Replay of a recorded run: the same configuration and seeds must give the same log, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from ..core import HybridSchedulerError
from . import run_record
from .heavy_simulation import run_heavy
from .paired_comparison import SeedRun, run_seeds
from .run_record import Event, RunFile
from .spec import model_digests


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


def comparison_events(found: Iterable[SeedRun]) -> Iterator[Event]:
    """Yield one line per seed and scheduler, with the digest of every task's outcome."""
    for run in found:
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
    digest, first = hashlib.sha256(), None
    stored: Sequence[str] = content.decode().splitlines(keepends=True)
    repeated = run_record.lines(_events(record, processes, progress))
    for number, (before, after) in enumerate(zip_longest(stored, repeated, fillvalue=""), 1):
        digest.update(after.encode())
        if before != after and first is None:
            first = (number, before.rstrip("\n"), after.rstrip("\n"))
    now = run_record.versions()
    recorded_models = record.configuration.get("models", {})
    models = {f"model of {name}": sha256 for name, sha256 in model_digests(recorded_models).items()}
    recorded = {**record.versions, **{f"model of {name}": sha256 for name, sha256 in recorded_models.items()}}
    return ReplayResult(record, digest.hexdigest(), first, _changed(recorded, {**now, **models}))


def _events(record: RunFile, processes: int | None, progress: Callable[[str, int], None] | None) -> Iterable[Event]:
    spec = record.spec
    if record.kind == run_record.COMPARE:
        return comparison_events(run_seeds(spec, record.seeds, processes=processes, progress=progress))
    if record.kind == run_record.HEAVY:
        return run_heavy(spec, record.seeds[0], progress=progress).events()
    return run_record.simulation_events(spec.run(record.seeds[0], progress=progress))


def _changed(before: dict[str, str], now: dict[str, str]) -> dict[str, tuple[str, str]]:
    names = sorted({*before, *now})
    return {
        name: (before.get(name, "none"), now.get(name, "none"))
        for name in names
        if before.get(name) != now.get(name)
    }
