"""What a learned scheduler cannot learn again from the last thousand tasks: the weights of an agent, on disk.

For schedulers that have ``save_model(path)`` and take a ``model``. Files are written beside the engine's thread.
They belong to one run: another run starts from the model that ships.
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
#: Wall seconds between two.
_EVERY = 60.0


class ModelSnapshots:
    """Without a folder nothing is kept."""

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._next = clock.now() + _EVERY
        self._writing: Future[None] | None = None
        self._writer = ThreadPoolExecutor(1, "snapshots") if folder else None

    def path(self, run_id: str, spec: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{run_id}.{re.sub(r'[^A-Za-z0-9_-]+', '-', spec)[:80]}.pth"

    def scheduler(self, run_id: str, spec: str) -> Scheduler | None:
        """The scheduler with the weights it had; None if none were kept."""
        path = self.path(run_id, spec)
        if path is None or not path.exists():
            return None
        name, arguments = parse_spec(spec)
        return schedulers()[name].factory(**{**arguments, "model": path})

    def save_if_due(self, run_id: str, lanes: Iterable[SchedulerLane]) -> None:
        if self._clock.now() >= self._next:
            self.save(run_id, lanes)

    def save(self, run_id: str, lanes: Iterable[SchedulerLane]) -> None:
        """Copy the weights now, write them in the background."""
        self._next = self._clock.now() + _EVERY
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
        """A run has ended: it will not be resumed."""
        if self._folder is not None and self._writer is not None:
            self._writer.submit(_remove, self._folder, run_id)

    def close(self) -> None:
        """Wait for what is being written."""
        if self._writer is not None:
            self._writer.shutdown(wait=True)


def _frozen(scheduler: Any) -> Any:
    """A copy whose weights the engine no longer changes."""
    still = copy.copy(scheduler)
    agent = getattr(scheduler, "agent_", None)
    if agent is not None:
        still.agent_ = copy.copy(agent)
        still.agent_.weights = agent.weights.copy()
    return still


def _write(jobs: list[tuple[Any, Path]]) -> None:
    for scheduler, path in jobs:
        try:
            scheduler.save_model(path)  # whole or not at all
        except Exception:
            _log.exception("the model could not be kept in %s", path)


def _remove(folder: Path, run_id: str) -> None:
    with suppress(OSError):
        for path in sorted(folder.glob(f"{run_id}.*.pth")):
            path.unlink(missing_ok=True)
