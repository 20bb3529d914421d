"""Models of the lanes: versions of a duration model, and snapshots of weights.

Snapshots are for models that a restart could not learn again from the newest tasks, such as an agent's weights.
They are what `Learner.snapshot` returns. A thread of its own writes the files. They belong to one run: another run
starts from the model of the package. The snapshot before the newest is kept too, so that a damaged file
loses minutes of learning at most.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import LearnedState, Learner, LearningEvent, ModelVersion, Scheduler
from ..core.atomic_files import remove_leftovers, write_atomically
from ..learning.duration.retraining import BackgroundRetraining, LearnsDurations, TrainingWorker
from ..learning.duration.versions import newest_number
from ..schedulers import schedulers
from ..workload.argument_checks import parse_spec
from .clock import Clock

if TYPE_CHECKING:
    from .scheduler_lane import SchedulerLane

_log = logging.getLogger(__name__)
#: Wall seconds between two snapshots.
_INTERVAL_S = 60.0
#: Endings of the newest snapshot, of the one before it, and of snapshots which earlier versions wrote.
_SUFFIX = ".safetensors"
_PREVIOUS_SUFFIX = ".previous"
_OLD_SUFFIX = ".pth"
_SUFFIXES = (_SUFFIX, _PREVIOUS_SUFFIX, _OLD_SUFFIX)
#: Added to the name of a folder or pipe that stands where a snapshot belongs.
_REFUSED = ".refused"


class LaneModel:
    """The duration model of one scheduler. Version numbers continue where an earlier process stopped.

    Parameters
    ----------
    scheduler
        Keeps its duration model in the attribute `duration_model_`.
    trainer
        Where the model is trained.
    """

    def __init__(self, scheduler: LearnsDurations, trainer: TrainingWorker) -> None:
        self._scheduler = scheduler
        self.times = scheduler.duration_model_
        self.retraining = BackgroundRetraining(trainer)
        self.retraining.adopt(scheduler)
        #: Versions of earlier processes, and versions of this one that were reported.
        self._base = 0
        self._reported = 0
        self._seconds: float | None = None

    @property
    def version(self) -> int | None:
        """The number of the model that decides now; None before the first."""
        return self._base + newest_number(self.times.versions) or None

    def resume_from(self, version: int) -> None:
        """Count the models so far as one, with the number after the checkpoint's `version`."""
        count = newest_number(self.times.versions)
        self._base = version + (1 if count else 0) - count
        self._reported = max(0, count - 1)

    def start_training(self) -> None:
        """Start the latest request of the model, if it has one and none runs."""
        self.retraining.start(self._scheduler)

    def swap_in(self, at_task: int) -> list[LearningEvent]:
        """Swap in the model that was trained; it decides from task `at_task` on."""
        events = self.retraining.collect(at_task)
        self._seconds = self.retraining.seconds
        return events

    def new_versions(self) -> list[tuple[int, ModelVersion, float | None]]:
        """Return the versions since the last call: number, description, and seconds of training."""
        versions = self.times.versions
        fresh = versions[max(0, len(versions) + self._reported - newest_number(versions)) :]
        self._reported = newest_number(versions)
        seconds = self._seconds
        self._seconds = None
        return [(self._base + version.version, version, seconds) for version in fresh]


class ModelSnapshots:
    """Snapshots in a folder.

    Parameters
    ----------
    folder
        Where the files go; None keeps no snapshots.
    clock
        Wall time.
    """

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._next = clock.now() + _INTERVAL_S
        self._writing: Future[None] | None = None
        self._writer = ThreadPoolExecutor(1, "snapshots") if folder else None

    def path(self, run_id: str, spec: str) -> Path | None:
        """Return the file of a scheduler's snapshot; None without a folder."""
        if self._folder is None:
            return None
        return self._folder / f"{run_id}.{re.sub(r'[^A-Za-z0-9_-]+', '-', spec)[:80]}{_SUFFIX}"

    def sweep(self) -> None:
        """Remove the temporary files of snapshots that a killed process did not complete."""
        if self._folder is not None:
            remove_leftovers(self._folder)

    def schedulers(self, run_id: str, spec: str) -> Iterator[Scheduler]:
        """Yield the scheduler with each of its snapshots, the newest first. The files are not read yet."""
        path = self.path(run_id, spec)
        files = [path.with_suffix(suffix) for suffix in _SUFFIXES] if path is not None else []
        for file in files:
            if file.exists():
                yield with_model(spec, file)

    def save_if_due(self, run_id: str, lanes: Iterable[SchedulerLane]) -> None:
        """Save if the last snapshot is old enough."""
        if self._clock.now() >= self._next:
            self.save(run_id, lanes)

    def save(self, run_id: str, lanes: Iterable[SchedulerLane]) -> None:
        """Copy the weights now, write them in the background."""
        self._next = self._clock.now() + _INTERVAL_S
        if self._writer is None or (self._writing is not None and not self._writing.done()):
            return
        jobs = [
            (frozen, path)
            for lane in lanes
            if lane.failure is None
            and (path := self.path(run_id, lane.name)) is not None
            and isinstance(lane.scheduler, Learner)
            and (frozen := lane.scheduler.snapshot()) is not None
        ]
        if jobs:
            self._writing = self._writer.submit(_write, jobs)

    def drop(self, run_id: str) -> None:
        """Delete the snapshots of a run that has ended."""
        if self._folder is not None and self._writer is not None:
            self._writer.submit(_remove, self._folder, run_id)

    def close(self) -> None:
        """Wait until everything is written."""
        if self._writer is not None:
            self._writer.shutdown(wait=True)


def with_model(spec: str, model: Path | None) -> Scheduler:
    """Return a new scheduler with another model than its spec says; None means untrained."""
    name, arguments = parse_spec(spec)
    return schedulers()[name].make(**{**arguments, "model": model})


def _write(jobs: list[tuple[LearnedState, Path]]) -> None:
    for learned, path in jobs:
        try:
            if path.exists() and not path.is_file():
                path.rename(path.with_name(path.name + _REFUSED))
            before = path.read_bytes() if path.exists() else None
            learned.save_model(path)  # writes the file completely or not at all
            if before is not None:
                write_atomically(path.with_suffix(_PREVIOUS_SUFFIX), before)
        except Exception:
            _log.exception("the snapshot could not be written to %s", path)


def _remove(folder: Path, run_id: str) -> None:
    with suppress(OSError):
        for suffix in _SUFFIXES:
            for path in sorted(folder.glob(f"{run_id}.*{suffix}")):
                path.unlink(missing_ok=True)
