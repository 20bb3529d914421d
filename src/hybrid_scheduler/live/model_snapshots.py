"""Snapshots of models that a restart could not learn again from the newest tasks, such as an agent's weights.

Snapshots are made of schedulers with a method ``save_model(path)`` and a parameter ``model``. A thread of its own
writes the files. They belong to one run: another run starts from the model of the package.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core import Scheduler
from ..schedulers import schedulers
from ..schedulers.registry import parse_spec
from .clock import Clock
from .scheduler_lane import SchedulerLane

_log = logging.getLogger(__name__)
#: Wall seconds between two snapshots.
_INTERVAL_S = 60.0
#: Ending of the files, and that of snapshots which earlier versions wrote.
_SUFFIX, _OLD_SUFFIX = ".safetensors", ".pth"


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
        self._folder, self._clock = folder, clock
        self._next = clock.now() + _INTERVAL_S
        self._writing: Future[None] | None = None
        self._writer = ThreadPoolExecutor(1, "snapshots") if folder else None

    def path(self, run_id: str, spec: str) -> Path | None:
        """Return the file of a scheduler's snapshot; None without a folder."""
        if self._folder is None:
            return None
        return self._folder / f"{run_id}.{re.sub(r'[^A-Za-z0-9_-]+', '-', spec)[:80]}{_SUFFIX}"

    def scheduler(self, run_id: str, spec: str) -> Scheduler | None:
        """Return the scheduler with the weights of its snapshot; None if there is none."""
        path = self.path(run_id, spec)
        if path is not None and not path.exists():
            path = path.with_suffix(_OLD_SUFFIX)
        if path is None or not path.exists():
            return None
        name, arguments = parse_spec(spec)
        return schedulers()[name].factory(**{**arguments, "model": path})

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
            (_frozen(lane.scheduler), path)
            for lane in lanes
            if hasattr(lane.scheduler, "save_model")
            and lane.failure is None
            and (path := self.path(run_id, lane.name)) is not None
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


def _frozen(scheduler: Any) -> Any:
    """Return a copy whose weights the engine does not change."""
    frozen = copy.copy(scheduler)
    agent = getattr(scheduler, "agent_", None)
    if agent is not None:
        frozen.agent_ = copy.copy(agent)
        frozen.agent_.weights = agent.weights.copy()
    return frozen


def _write(jobs: list[tuple[Any, Path]]) -> None:
    for scheduler, path in jobs:
        try:
            scheduler.save_model(path)  # writes the file completely or not at all
        except Exception:
            _log.exception("the snapshot could not be written to %s", path)


def _remove(folder: Path, run_id: str) -> None:
    with suppress(OSError):
        for suffix in (_SUFFIX, _OLD_SUFFIX):
            for path in sorted(folder.glob(f"{run_id}.*{suffix}")):
                path.unlink(missing_ok=True)
