"""Builder of batches for the journal: tasks with their results, events, model versions, acknowledgements.

Everything is numbered here, in the order in which it happened. A batch is built when it can be handed over. What
comes while the journal is full waits for the next batch.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import InvalidInputError
from .batch_records import (
    RESULT_COLUMNS,
    Batch,
    Counters,
    Event,
    IdempotencyKey,
    ResultColumns,
    RunRecord,
    VersionRecord,
    joined_tasks,
)
from .command_queue import forward_result
from .journal import Journal, JournalFull
from .live_run import LiveChunk

#: Number of keys that are answered from memory; the database knows the older ones.
_MAX_KEYS = 10_000


class BatchBuilder:
    """What waits for the journal. Only the engine thread uses it.

    Parameters
    ----------
    journal
        Takes the batches.
    counters
        The first numbers of tasks, results and events.
    device_names
        The devices of the run, in the order of their codes.
    """

    def __init__(self, journal: Journal, counters: Counters, device_names: tuple[str, ...]) -> None:
        self._journal, self.counters, self.device_names = journal, counters, device_names
        self._unsent: deque[Batch] = deque()
        #: Keys with the digest of their task, and the future that gets its id when the task is stored.
        self._keys: OrderedDict[str, tuple[str, Future[Any]]] = OrderedDict()
        #: Measured runs that are neither stored nor dropped yet.
        self._measured: dict[str, Future[None]] = {}
        self._clear()

    def _clear(self) -> None:
        self._chunks: list[LiveChunk] = []
        self._events: list[Event] = []
        self._versions: list[VersionRecord] = []
        self._acknowledgements: list[tuple[int, Future[int]]] = []
        self._stored: list[tuple[int, Future[int]]] = []
        self._idempotency: list[IdempotencyKey] = []

    # ---------------------------------------------------------------- adding

    @property
    def has_capacity(self) -> bool:
        """Whether new tasks may be decided."""
        return not self._unsent and self._journal.has_capacity

    @property
    def rows(self) -> int:
        """The number of results that wait."""
        return sum(len(chunk) * len(chunk.results) for chunk in self._chunks)

    def fits(self, chunk: LiveChunk) -> bool:
        """Return whether the chunk can share a batch with those before it: same lanes, same models."""
        return not self._chunks or self._chunks[0].deciders == chunk.deciders

    def add(self, chunk: LiveChunk, first_ordinal: int) -> None:
        """Add tasks with their results; `first_ordinal` is the first one's position in the run."""
        if not self._chunks:
            self._first_ordinal = first_ordinal
        self._chunks.append(chunk)
        self.counters = self.counters._replace(
            next_task_id=self.counters.next_task_id + len(chunk),
            next_result_id=self.counters.next_result_id + len(chunk) * len(chunk.results),
        )

    def event(self, type: str, run_id: str, t: float, created_at: float, body: dict[str, Any]) -> None:
        """Add a message of the stream and number it."""
        self._events.append(Event(self.counters.next_seq, type, run_id, t, created_at, body))
        self.counters = self.counters._replace(next_seq=self.counters.next_seq + 1)

    def version(self, record: VersionRecord) -> None:
        """Add a version of a model."""
        self._versions.append(record)

    # ---------------------------------------------------------------- acknowledgements

    def submitted(self, key: IdempotencyKey) -> Future[Any] | None:
        """Return the future of the task or measured run that was submitted with this key; None if there is none.

        It gets the id. A task whose batch could not be stored at once waits to be stored: its key stays known.

        Raises
        ------
        InvalidInputError
            If the key was used for another task or run.
        """
        known = self._keys.get(key.key)
        if known is None:
            return None
        fingerprint, task_id = known
        if task_id.done() and task_id.exception() is not None:
            del self._keys[key.key]  # the journal has dropped the task: try again
            return None
        if fingerprint != key.fingerprint:
            raise InvalidInputError("Idempotency-Key", "new, or sent with the same content as before", key.key)
        return task_id

    def acknowledge(self, task_id: int, acknowledged: Future[int], key: IdempotencyKey | None) -> None:
        """Set the future to the task's id once the batch is durable."""
        self._acknowledgements.append((task_id, acknowledged))
        if key is not None:
            self._idempotency.append(replace(key, task_id=task_id))
            stored: Future[int] = Future()
            self._stored.append((task_id, stored))
            self._remember(key, stored)

    def _remember(self, key: IdempotencyKey, stored: Future[Any]) -> None:
        self._keys[key.key] = key.fingerprint, stored
        # The database does not know the key of something that waits to be stored.
        while len(self._keys) > _MAX_KEYS and next(iter(self._keys.values()))[1].done():
            self._keys.popitem(last=False)

    # ---------------------------------------------------------------- handing over

    def flush(self, run: RunRecord, state: dict[str, Any]) -> bool:
        """Build a batch of all that waits and hand it over; return False if the journal is full.

        Parameters
        ----------
        run
            The record of the run.
        state
            The run's checkpoint right after the last task that waits.
        """
        self.deliver()
        if not self.has_capacity:
            return False
        batch = self._batch(run, state)
        self._clear()
        self._unsent.append(batch)
        self.deliver()
        return True

    def storing(self, run_id: str) -> Future[None] | None:
        """Return the future of a measured run that waits to be stored; None if there is none with this id."""
        return self._measured.get(run_id)

    def take_measured(self, batch: Batch) -> Future[None]:
        """Take the batch of a measured run, numbered from these counters, for the next delivery.

        Everything that waited must have been flushed. Returns the future that is set when the batch is durable.
        """
        assert self.has_capacity
        assert not self._chunks
        assert not self._events
        committed, stored, run_id = batch.committed, batch.stored, batch.run.run_id
        assert committed is not None
        assert stored is not None
        self._measured[run_id] = stored
        stored.add_done_callback(lambda done: self._measured.pop(run_id, None))
        for key in batch.idempotency:
            stored_id: Future[str] = Future()
            forward_result(stored, stored_id, run_id)
            self._remember(key, stored_id)
        self.counters = batch.counters
        self._unsent.append(batch)
        return committed

    def deliver(self) -> bool:
        """Hand over the batches that the journal has capacity for; return False if some are left."""
        while self._unsent and self._journal.has_capacity:
            try:
                self._journal.append(self._unsent[0])
            except JournalFull:
                break
            self._unsent.popleft()
        return not self._unsent

    def _batch(self, run: RunRecord, state: dict[str, Any]) -> Batch:
        common: dict[str, Any] = {
            "run": run,
            "state": state,
            "counters": self.counters,
            "device_names": self.device_names,
            "versions": tuple(self._versions),
            "events": tuple(self._events),
            "idempotency": tuple(self._idempotency),
            "committed": _future_for(self._acknowledgements),
            "stored": _future_for(self._stored),
        }
        if not self._chunks:
            return Batch(**common)
        chunks = self._chunks
        tasks = chunks[0].tasks if len(chunks) == 1 else joined_tasks([chunk.tasks for chunk in chunks])
        names = list(chunks[0].results)
        return Batch(
            **common,
            tasks=tasks,
            first_ordinal=self._first_ordinal,
            external_ids=tasks.external_id,
            results={name: _concatenated([chunk.results[name] for chunk in chunks]) for name in names},
            first_result_id=self.counters.next_result_id - len(tasks) * len(names),
            optimal_fraction=np.concatenate([chunk.optimal_fraction for chunk in chunks]),
            optimal_time=np.concatenate([chunk.optimal_time for chunk in chunks]),
        )


def _future_for(waiting: list[tuple[int, Future[int]]]) -> Future[None] | None:
    """Return a future that sets those that wait to their task's id, or to its own error; None if none waits."""
    if not waiting:
        return None
    futures = list(waiting)

    def settle(done: Future[None]) -> None:  # runs in the thread that commits
        error = None if done.cancelled() else done.exception()
        for task_id, future in futures:
            if future.done():
                continue
            if error is None and not done.cancelled():
                future.set_result(task_id)
            else:
                future.set_exception(error or RuntimeError("the journal gave up"))

    whole: Future[None] = Future()
    whole.add_done_callback(settle)
    return whole


def _concatenated(parts: list[ResultColumns]) -> ResultColumns:
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in RESULT_COLUMNS
    }
    return ResultColumns(**columns, model_version=parts[0].model_version)
