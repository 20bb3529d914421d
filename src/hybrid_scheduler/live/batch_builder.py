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

from ..core import InvalidInputError, Workload
from .batch_records import (
    RESULT_COLUMNS,
    Batch,
    Counters,
    Event,
    IdempotencyKey,
    ResultColumns,
    RunRecord,
    VersionRecord,
)
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
        self._keys: OrderedDict[str, tuple[str, Future[int]]] = OrderedDict()
        #: Measured runs that are not durable yet.
        self._measured: dict[str, Future[None]] = {}
        self._clear()

    def _clear(self) -> None:
        self._chunks: list[LiveChunk] = []
        self._events: list[Event] = []
        self._versions: list[VersionRecord] = []
        self._acknowledgements: list[tuple[int, Future[int]]] = []
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

    def submitted(self, key: IdempotencyKey) -> Future[int] | None:
        """Return the future of an earlier submission with this key; None if there is none.

        Raises
        ------
        InvalidInputError
            If the key was used for another task.
        """
        known = self._keys.get(key.key)
        if known is None:
            return None
        fingerprint, task_id = known
        if task_id.done() and task_id.exception() is not None:
            del self._keys[key.key]  # the earlier submission failed: try again
            return None
        if fingerprint != key.fingerprint:
            raise InvalidInputError("Idempotency-Key", "new, or sent with the same task as before", key.key)
        return task_id

    def acknowledge(self, task_id: int, acknowledged: Future[int], key: IdempotencyKey | None) -> None:
        """Set the future to the task's id once the batch is durable."""
        self._acknowledgements.append((task_id, acknowledged))
        if key is not None:
            self._idempotency.append(replace(key, task_id=task_id))
            self._keys[key.key] = key.fingerprint, acknowledged
            while len(self._keys) > _MAX_KEYS:
                self._keys.popitem(last=False)

    # ---------------------------------------------------------------- handing over

    def flush(self, run: RunRecord, state: dict[str, Any]) -> None:
        """Build a batch of all that waits and hand it over, unless the journal is full.

        Parameters
        ----------
        run
            The record of the run.
        state
            The run's checkpoint right after the last task that waits.
        """
        self.deliver()
        if not self.has_capacity:
            return
        batch = self._batch(run, state)
        self._clear()
        self._unsent.append(batch)
        self.deliver()

    def storing(self, run_id: str) -> Future[None] | None:
        """Return the future of a measured run that is not durable yet; None if there is none with this id."""
        return self._measured.get(run_id)

    def take_measured(self, batch: Batch) -> Future[None]:
        """Take the batch of a measured run, numbered from these counters, for the next delivery.

        Everything that waited must have been flushed. Returns the future that is set when the batch is durable.
        """
        assert self.has_capacity
        assert not self._chunks
        assert not self._events
        committed, run_id = batch.committed, batch.run.run_id
        assert committed is not None
        self._measured[run_id] = committed
        committed.add_done_callback(lambda done: self._measured.pop(run_id, None))
        self.counters = batch.counters
        self._unsent.append(batch)
        return committed

    def deliver(self) -> None:
        """Hand over the batches that the journal has capacity for."""
        while self._unsent and self._journal.has_capacity:
            try:
                self._journal.append(self._unsent[0])
            except JournalFull:
                return
            self._unsent.popleft()

    def _batch(self, run: RunRecord, state: dict[str, Any]) -> Batch:
        common: dict[str, Any] = {
            "run": run,
            "state": state,
            "counters": self.counters,
            "device_names": self.device_names,
            "versions": tuple(self._versions),
            "events": tuple(self._events),
            "idempotency": tuple(self._idempotency),
            "committed": self._committed() if self._acknowledgements else None,
        }
        if not self._chunks:
            return Batch(**common)
        chunks = self._chunks
        tasks = chunks[0].tasks if len(chunks) == 1 else _joined([chunk.tasks for chunk in chunks])
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

    def _committed(self) -> Future[None]:
        acknowledgements = list(self._acknowledgements)

        def acknowledge(done: Future[None]) -> None:  # runs in the thread that commits
            error = None if done.cancelled() else done.exception()
            for task_id, acknowledged in acknowledgements:
                if acknowledged.done():
                    continue
                if error is None and not done.cancelled():
                    acknowledged.set_result(task_id)
                else:
                    acknowledged.set_exception(error or RuntimeError("the journal gave up"))

        committed: Future[None] = Future()
        committed.add_done_callback(acknowledge)
        return committed


def _joined(parts: list[Workload]) -> Workload:
    kinds = None
    if any(part.kinds != ("generic",) for part in parts):
        kinds = [part.kinds[code] for part in parts for code in part.kind.tolist()]
    external = None
    if any(part.external_id for part in parts):
        external = [name for part in parts for name in part.external_id or (None,) * len(part)]
    columns: dict[str, Any] = {
        name: np.concatenate([part.columns()[name] for part in parts]) for name in parts[0].columns()
    }
    return Workload(**columns, kind=kinds, external_id=external)


def _concatenated(parts: list[ResultColumns]) -> ResultColumns:
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in RESULT_COLUMNS
    }
    return ResultColumns(**columns, model_version=parts[0].model_version)
