"""Builder of batches for the journal: tasks with their results, events, model versions, acknowledgements.

Everything is numbered here, in the order in which it happened. A batch is built when it can be handed over. What
comes while the journal is full waits for the next batch.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import InvalidInputError
from ..workload.random_columns import joined_tasks
from .command_queue import forward_result, pending_future
from .journal import (
    Batch,
    Counters,
    Event,
    IdempotencyKey,
    Journal,
    JournalFull,
    JournalUnavailable,
    RunRecord,
    StartedTasks,
    VersionRecord,
    joined_results,
)
from .live_run import LiveChunk
from .measured_run import MeasuredRun

#: Number of keys that are found in memory; the database has the older ones.
MAX_KEYS = 10_000
#: Seconds for which a key stays in memory after it was stored. A request looks for its key in the database, then
#: sends its command, which takes up to 30 s from another process: the key may have been stored in between.
KEEP_STORED_S = 120.0


@dataclass(slots=True)
class _Sent:
    """Digest of what was sent, and the future that gets its id once it is stored."""

    fingerprint: str
    stored: Future[Any]
    #: Monotonic seconds.
    stored_at: float = math.inf


class _IdempotencyCache:
    """Cache of idempotency keys, or of ids of measured runs, with the future of what was sent under them.

    A key is known while its content waits to be stored, and for some time after that.
    """

    def __init__(self, field: str, allowed: str) -> None:
        self._field = field
        self._allowed = allowed
        self._known: OrderedDict[str, _Sent] = OrderedDict()

    def find(self, key: str, fingerprint: str) -> Future[Any] | None:
        """Return the future of the key; None if it is new. Raises `InvalidInputError` for other content."""
        sent = self._known.get(key)
        if sent is None:
            return None
        if sent.stored.done() and sent.stored.exception() is not None:
            del self._known[key]  # the journal has dropped it: try again
            return None
        if sent.fingerprint != fingerprint:
            raise InvalidInputError(self._field, self._allowed, key)
        return sent.stored

    def add(self, key: str, fingerprint: str, stored: Future[Any]) -> None:
        """Remember a key, and drop the oldest ones that the database has known for long."""
        sent = self._known[key] = _Sent(fingerprint, stored)
        stored.add_done_callback(lambda _: setattr(sent, "stored_at", time.monotonic()))
        until = time.monotonic() - KEEP_STORED_S
        while len(self._known) > MAX_KEYS and next(iter(self._known.values())).stored_at < until:
            self._known.popitem(last=False)

    def drop_stored(self, stored_id: Any) -> None:
        """Drop the keys of something that is deleted, so that it can be stored again."""
        for key, sent in list(self._known.items()):
            if sent.stored.done() and sent.stored.exception() is None and sent.stored.result() == stored_id:
                del self._known[key]


class BatchBuilder:
    """Builder of journal batches. Only the engine thread uses it.

    Parameters
    ----------
    journal
        Takes the batches.
    counters
        The first numbers of tasks, results and events.
    device_names
        The devices of the run, in the order of their codes.
    keys
        Idempotency keys that an earlier engine has stored, with the id of their task or run.
    """

    def __init__(
        self,
        journal: Journal,
        counters: Counters,
        device_names: tuple[str, ...],
        keys: Mapping[IdempotencyKey, int | str] | None = None,
    ) -> None:
        self._journal = journal
        self.counters = counters
        self.device_names = device_names
        self._unsent: deque[Batch] = deque()
        self._keys = _IdempotencyCache("Idempotency-Key", "new, or sent with the same content as before")
        #: Ids of measured runs.
        self._measured = _IdempotencyCache("run_id", "one that no other run has")
        for key, stored_id in (keys or {}).items():
            stored: Future[Any] = Future()
            stored.set_result(stored_id)
            self._keys.add(key.key, key.fingerprint, stored)
        self._clear()

    def _clear(self) -> None:
        self._chunks: list[LiveChunk] = []
        self._started: list[StartedTasks] = []
        self._events: list[Event] = []
        self._versions: list[VersionRecord] = []
        #: Futures of the batch, once something waits for them.
        self._committed: Future[None] | None = None
        self._stored: Future[None] | None = None
        self._idempotency: list[IdempotencyKey] = []

    # ---------------------------------------------------------------- adding

    @property
    def has_capacity(self) -> bool:
        """Whether new tasks may be decided."""
        return not self._unsent and self._journal.has_capacity

    def require_capacity(self, action: str) -> None:
        """Raise `JournalUnavailable`, with the refused action, if the journal can take nothing now."""
        if self._journal.unavailable or not self.has_capacity:
            raise unavailable(action)

    @property
    def rows(self) -> int:
        """The number of results that wait."""
        decided = sum(len(chunk) * len(chunk.results) for chunk in self._chunks)
        return decided + sum(map(len, self._started))

    def fits(self, chunk: LiveChunk) -> bool:
        """Return whether the chunk can share a batch with those before it: results of the same lanes."""
        return not self._chunks or self._chunks[0].results.keys() == chunk.results.keys()

    def add(self, chunk: LiveChunk, first_ordinal: int) -> None:
        """Add tasks with their results; `first_ordinal` is the first one's position in the run."""
        if not self._chunks:
            self._first_ordinal = first_ordinal
        self._chunks.append(chunk)
        self.counters = self.counters._replace(
            next_task_id=self.counters.next_task_id + len(chunk),
            next_result_id=self.counters.next_result_id + len(chunk) * len(chunk.results),
        )

    def add_started(self, started: Sequence[StartedTasks]) -> None:
        """Add the results of tasks that left a common queue."""
        self._started += started
        more = sum(map(len, started))
        self.counters = self.counters._replace(next_result_id=self.counters.next_result_id + more)

    def add_event(self, type: str, run_id: str, t: float, created_at: float, body: dict[str, Any]) -> None:
        """Add a message of the stream and number it."""
        self._events.append(Event(self.counters.next_seq, type, run_id, t, created_at, body))
        self.counters = self.counters._replace(next_seq=self.counters.next_seq + 1)

    def add_version(self, record: VersionRecord) -> None:
        """Add a version of a model."""
        self._versions.append(record)

    # ---------------------------------------------------------------- acknowledgements

    def find_submission(self, key: IdempotencyKey) -> Future[Any] | None:
        """Return the future of the task or measured run that was submitted with this key; None if there is none.

        It gets the id. A task whose batch could not be stored at once waits to be stored: its key stays known.

        Raises
        ------
        InvalidInputError
            If the key was used for another task or run.
        """
        return self._keys.find(key.key, key.fingerprint)

    def acknowledge(self, task_id: int, acknowledged: Future[int], key: IdempotencyKey | None) -> None:
        """Set the future to the task's id once the batch is durable."""
        self._committed = self._committed or Future()
        forward_result(self._committed, acknowledged, task_id)
        if key is not None:
            self._idempotency.append(replace(key, task_id=task_id))
            self._stored = self._stored or Future()
            stored: Future[int] = pending_future()
            forward_result(self._stored, stored, task_id)
            self._keys.add(key.key, key.fingerprint, stored)

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

    def find_measured_run(self, run: MeasuredRun) -> Future[str] | None:
        """Return the future of a measured run that waits or was stored lately; None if there is none with its id.

        Raises
        ------
        InvalidInputError
            If another run has this id.
        """
        return None if run.run_id is None else self._measured.find(run.run_id, repr(run.created_at))

    def drop_run(self, run_id: str) -> None:
        """Drop the keys of a stored run that is deleted, so that it can be stored again."""
        self._measured.drop_stored(run_id)
        self._keys.drop_stored(run_id)

    def take_measured(self, batch: Batch) -> Future[str]:
        """Take the batch of a measured run, numbered from these counters, for the next delivery.

        Everything that waited must have been flushed. Returns the future that gets the run's id when the batch is
        durable.
        """
        assert self.has_capacity
        assert not any((self._chunks, self._started, self._events))
        committed = batch.committed
        stored = batch.stored
        run_id = batch.run.run_id
        assert committed is not None
        assert stored is not None
        stored_id: Future[str] = Future()
        forward_result(stored, stored_id, run_id)
        self._measured.add(run_id, repr(batch.run.created_at), stored_id)
        for key in batch.idempotency:
            self._keys.add(key.key, key.fingerprint, stored_id)
        self.counters = batch.counters
        self._unsent.append(batch)
        durable: Future[str] = pending_future()
        forward_result(committed, durable, run_id)
        return durable

    def deliver(self) -> bool:
        """Hand over the batches that the journal has capacity for; return False if some are left."""
        while self._unsent and self._journal.has_capacity:
            try:
                self._journal.append(self._unsent[0])
            except JournalFull:
                break
            except InvalidInputError as error:  # it can never be stored, so it must not keep back later ones
                refused = self._unsent.popleft()
                for future in (refused.committed, refused.stored):
                    if future is not None:
                        future.set_exception(error)
                raise
            self._unsent.popleft()
        return not self._unsent

    def _batch(self, run: RunRecord, state: dict[str, Any]) -> Batch:
        chunks = self._chunks
        batch = Batch(
            run,
            state,
            self.counters,
            self.device_names,
            first_result_id=self.counters.next_result_id - self.rows,
            started=tuple(self._started),
            versions=tuple(self._versions),
            events=tuple(self._events),
            idempotency=tuple(self._idempotency),
            committed=self._committed,
            stored=self._stored,
        )
        if not chunks:
            return batch
        tasks = chunks[0].tasks if len(chunks) == 1 else joined_tasks([chunk.tasks for chunk in chunks])
        return replace(
            batch,
            tasks=tasks,
            first_ordinal=self._first_ordinal,
            external_ids=tasks.external_id,
            results={name: joined_results([chunk.results[name] for chunk in chunks]) for name in chunks[0].results},
            optimal_fraction=np.concatenate([chunk.optimal_fraction for chunk in chunks]),
            optimal_time=np.concatenate([chunk.optimal_time for chunk in chunks]),
        )


def unavailable(action: str) -> JournalUnavailable:
    """Return the error for an action that the journal cannot take now."""
    return JournalUnavailable(f"the database cannot {action} now", hint="try again in a few seconds")
