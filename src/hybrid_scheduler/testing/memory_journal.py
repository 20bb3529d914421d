"""Journal in memory, for tests and notebooks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from ..live.journal import (
    Batch,
    Counters,
    Event,
    IdempotencyKey,
    JournalFull,
    JournalUnavailable,
    Recent,
    Recovered,
    RunLabels,
)


class MemoryJournal:
    """Journal that keeps every batch in a list, durable at once by default.

    After ``hold()`` batches wait, as on a slow disk, until ``release()``. After ``fail()`` waiting batches get
    `JournalUnavailable`, until ``release()``. A second `open` returns the state that a restart would find.

    Parameters
    ----------
    most_batches
        Batches that may wait before the journal is full.
    on_events
        Called with the events of stored batches.
    """

    def __init__(self, *, most_batches: int = 256, on_events: Callable[[list[Event]], None] | None = None) -> None:
        self.batches: list[Batch] = []
        self.events: list[Event] = []
        self.labels: dict[str, RunLabels] = {}
        self.forgotten = 0
        self.opened = False
        self._waiting: list[Batch] = []
        self._most = most_batches
        self._on_events = on_events
        self._held = False
        self._unavailable = False
        self._counters = Counters()
        self._lock = threading.Condition()

    # ---------------------------------------------------------------- Journal

    def open(self) -> Recovered:
        """Open the journal and return where the last engine ended."""
        self.opened = True
        with_run = [batch for batch in self.batches if batch.run.status != "stopped"]
        stopped = {batch.run.run_id for batch in self.batches if batch.run.status == "stopped"}
        last = next((batch for batch in reversed(with_run) if batch.run.run_id not in stopped), None)
        keys = {key: _stored_id(batch, key) for batch in self.batches for key in batch.idempotency}
        if last is None:
            return Recovered(self._counters, keys=keys)
        return Recovered(self._counters, last.run, last.state, self._recent(last.run.run_id), keys)

    @property
    def has_capacity(self) -> bool:
        """Whether a batch with tasks can be appended."""
        return len(self._waiting) < self._most

    @property
    def unsaved(self) -> int:
        """Number of batches that are not durable yet."""
        return len(self._waiting)

    @property
    def unavailable(self) -> bool:
        """Whether the store is unavailable."""
        return self._unavailable

    def append(self, batch: Batch) -> None:
        """Take a batch; see `Journal.append`."""
        if not self.has_capacity and batch.tasks is not None:
            raise JournalFull("too many batches wait to be stored")
        with self._lock:
            self._waiting.append(batch)
            if self._unavailable:
                _settle(batch.committed, error=JournalUnavailable("the journal was set to fail"))
        if not self._held:
            self._store()

    def forget(self, deleted: Future[int], run_id: str | None = None) -> None:
        """Count all tasks as deleted, or remove the batches of a run; see `Journal.forget`."""
        with self._lock:
            if run_id is not None:
                count = sum(len(batch) for batch in self.batches if batch.run.run_id == run_id)
                self.batches = [batch for batch in self.batches if batch.run.run_id != run_id]
                _settle(deleted, count)
                return
            count = sum(map(len, self.batches)) - self.forgotten
            self.forgotten += count
        _settle(deleted, count)

    def describe(self, run_id: str, labels: RunLabels, stored: Future[None]) -> None:
        """Keep the labels of a run; see `Journal.describe`."""
        self.labels[run_id] = labels
        _settle(stored)

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits, and close."""
        if not self._unavailable:
            self._store()
        self.opened = False

    # ---------------------------------------------------------------- for tests

    def hold(self) -> None:
        """Let batches wait from now on."""
        self._held = True

    def fail(self) -> None:
        """Make the store unavailable from now on."""
        self._held = self._unavailable = True
        for batch in self._waiting:
            _settle(batch.committed, error=JournalUnavailable("the journal was set to fail"))

    def release(self) -> None:
        """Store everything that waits, and later batches at once."""
        self._held = self._unavailable = False
        self._store()

    def wait_for(self, condition: Callable[[MemoryJournal], bool], timeout: float = 10.0) -> bool:
        """Wait until the condition holds for the stored batches; return False after the timeout."""
        with self._lock:
            return self._lock.wait_for(lambda: condition(self), timeout)

    @property
    def tasks(self) -> int:
        """Number of stored tasks."""
        return sum(map(len, self.batches))

    def _store(self) -> None:
        with self._lock:
            done, self._waiting = self._waiting, []
            self.batches += done
            for batch in done:
                self._counters = batch.counters
                self.events += batch.events
            self._lock.notify_all()
        for batch in done:
            _settle(batch.committed)
            _settle(batch.stored)
        events = [event for batch in done for event in batch.events]
        if events and self._on_events is not None:
            self._on_events(events)

    def _recent(self, run_id: str) -> Recent | None:
        """Return the tasks of the newest batch that has some."""
        for batch in reversed(self.batches):
            if batch.run.run_id == run_id and batch.tasks is not None:
                started = {each.scheduler: each for each in batch.started}
                return Recent(batch.tasks, batch.results, started)
        return None


def _stored_id(batch: Batch, key: IdempotencyKey) -> int | str:
    return batch.run.run_id if batch.run.source == "measured" else key.task_id


def _settle(future: Future[Any] | None, value: Any = None, *, error: Exception | None = None) -> None:
    if future is not None:
        with contextlib.suppress(InvalidStateError):
            future.set_exception(error) if error is not None else future.set_result(value)
