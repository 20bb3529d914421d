"""Journal of the live engine in a database: one thread that stores queued batches in transactions.

A batch leaves the queue only after the commit that contains it. If a commit fails, waiting callers get an error at
once (`Batch.committed`), and the batch is retried until it is stored (`Batch.stored`). The database also stores the
number of the last batch: a batch whose commit succeeded although the confirmation was lost is not stored twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from ..core import HybridSchedulerError, InvalidInputError
from ..live.journal import Batch, JournalFull, JournalUnavailable, Recovered, RunLabels
from .batch_rows import EventPayload, PendingBatch, json_text
from .batch_transaction import Store, last_stored, set_heartbeat, set_meta, without_stored_runs, write_group
from .database import DatabaseAddress, DatabaseUnusable, error_reason
from .recovery import recover
from .retention import LABELS_KEY, History, Upkeep, create_store, resolve

_log = logging.getLogger(__name__)

#: Result rows in one transaction.
_MAX_TRANSACTION_ROWS = 50_000
#: The journal has no capacity for new tasks while more than this is queued.
_MAX_WAITING_ROWS = 200_000
MAX_WAITING_BATCHES = 256
#: Seconds until the first retry after a failure, and at most between two retries.
_RETRY_DELAYS_S = (0.1, 2.0)


class Publisher(Protocol):
    """Protocol of the event bus, as the journal uses it."""

    def publish(self, events: Sequence[EventPayload]) -> None:
        """Send the payloads of stored events."""


@dataclass(frozen=True, slots=True)
class _LabelRequest:
    """New labels of a run, and the last batch before the request."""

    run_id: str
    #: The labels as they are stored.
    text: str
    stored: Future[None]
    number: int

    async def write(self, store: Store) -> None:
        async with store.transaction():
            if await store.fetch("SELECT 1 FROM runs WHERE run_id = ?", self.run_id):
                await set_meta(store, LABELS_KEY + self.run_id, self.text)


class _BatchQueue:
    """Batches that wait to be stored, in order, between the engine's thread and the writer's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[PendingBatch] = deque()
        #: Result rows of all that waits, and number of the newest batch.
        self.rows = 0
        self.number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def first(self) -> float:
        """Number of the oldest batch; infinite without one."""
        return self._waiting[0].number if self._waiting else math.inf

    def append(self, pending: PendingBatch) -> None:
        with self._lock:
            self.number = pending.number
            self._waiting.append(pending)
            self.rows += pending.rows

    def all(self) -> list[PendingBatch]:
        with self._lock:
            return list(self._waiting)

    def group(self) -> list[PendingBatch]:
        """Return the oldest batches, as many as one transaction may hold."""
        group: list[PendingBatch] = []
        rows = 0
        for pending in self.all():
            rows += pending.rows
            if group and rows > _MAX_TRANSACTION_ROWS:
                break
            group.append(pending)
        return group

    def remove(self, count: int) -> None:
        """Remove the oldest batches."""
        with self._lock:
            for _ in range(count):
                self.rows -= self._waiting.popleft().rows


class SqlJournal:
    """A `Journal` in SQLite or PostgreSQL.

    Parameters
    ----------
    address
        The database.
    bus
        Receives the events after their commit.
    history
        File to which finished tasks are appended.
    keep_tasks
        Number of newest tasks to keep; 0 keeps all.
    on_failure
        Called in the writer's thread when nothing more can be stored: another engine has taken over, or the
        database refuses a row. The attribute `failed` then has the reason.
    clock
        Returns Unix seconds.
    """

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        bus: Publisher | None = None,
        history: History | None = None,
        keep_tasks: int = 0,
        on_failure: Callable[[HybridSchedulerError], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.address = address
        self.instance = uuid.uuid4().hex
        self.failed: HybridSchedulerError | None = None
        #: Written by the journal's thread alone.
        self.store = create_store(address, self.instance)
        self._bus = bus
        self._history = history
        self._on_failure = on_failure
        self._clock = clock
        self._queue = _BatchQueue()
        self._label_requests: deque[_LabelRequest] = deque()
        self._longest: dict[str, dict[str, float]] = {}
        self._upkeep = Upkeep(self.store, self._longest, history, keep_tasks)
        self._heartbeat: str | None = None
        self.in_outage = False
        self._closing = False
        self._deadline = math.inf
        self._thread: threading.Thread | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()

    # ---------------------------------------------------------------- engine's thread

    def open(self) -> Recovered:
        """Start the writer's thread and return where the last engine ended.

        Raises
        ------
        EngineBusy, DatabaseUnavailable, DatabaseUnusable
            As the store's own `open`.
        """
        if self._thread is not None:
            raise RuntimeError("a journal is opened once")
        opened: Future[Recovered] = Future()
        self._thread = threading.Thread(target=self._run, args=(opened,), name="journal", daemon=True)
        self._thread.start()
        return opened.result()

    @property
    def has_capacity(self) -> bool:
        """False while so much is queued that no new tasks should be made."""
        return self._accepts(MAX_WAITING_BATCHES)

    @property
    def unsaved(self) -> int:
        """Number of batches that are not durable yet."""
        return len(self._queue)

    @property
    def unavailable(self) -> bool:
        """True while the last attempt to store something failed."""
        return self.in_outage or self.failed is not None

    def check(self, batch: Batch) -> None:
        """Raise `InvalidInputError` if a text of the batch cannot be stored."""
        PendingBatch.of(0, batch, 0.0)

    def append(self, batch: Batch) -> None:
        """Queue a batch; never waits.

        Raises
        ------
        JournalFull
            If too much is queued.
        InvalidInputError
            If a text of the batch cannot be stored.
        """
        # A batch without tasks is small and records a command such as pause: it has a higher limit.
        if not self._accepts(MAX_WAITING_BATCHES if batch.tasks is not None else 4 * MAX_WAITING_BATCHES):
            raise JournalFull("too much waits to be stored")
        self._queue.append(PendingBatch.of(self._queue.number + 1, batch, self._clock()))
        if self.in_outage:
            resolve(batch.committed, error=self._unavailable_error())
        self._wake_writer()

    def delete_tasks(self, deleted: Future[int]) -> None:
        """Delete all tasks; runs and counters stay.

        The future gets the number of deleted tasks. Until it is running it may be cancelled. It is running once the
        request is durable: from then on it is completed, also by the next engine.
        """
        if self._accepts_request(deleted):
            self._upkeep.request(deleted, self._queue.number)
            self._wake_writer()

    def delete_run(self, run_id: str, deleted: Future[int]) -> None:
        """Delete a run with all its rows, in one transaction; the future gets the number of deleted tasks.

        Until the future is running it may be cancelled.
        """
        if self._accepts_request(deleted):
            self._upkeep.request(deleted, self._queue.number, run_id)
            self._wake_writer()

    def describe(self, run_id: str, labels: RunLabels, stored: Future[None]) -> None:
        """Replace name, tags and note of a run, after the batches that wait; see `Journal.describe`."""
        if self._accepts_request(stored):
            text = json_text(asdict(labels), "labels")
            self._label_requests.append(_LabelRequest(run_id, text, stored, self._queue.number))
            self._wake_writer()

    def write_heartbeat(self, status: dict[str, Any]) -> None:
        """Store the engine's status for API processes, with the database's time; never waits."""
        self._heartbeat = json_text({"instance": self.instance, "status": status})
        self._wake_writer()

    def close(self, timeout: float = 5.0) -> None:
        """Store what is queued, for at most `timeout` seconds, and release the database."""
        self._deadline = time.monotonic() + timeout
        self._closing = True
        self._wake_writer()
        if self._thread is not None:
            self._thread.join(timeout + 10.0)

    def _accepts(self, batches: int) -> bool:
        return (
            len(self._queue) < batches
            and (self._queue.rows <= _MAX_WAITING_ROWS or batches > MAX_WAITING_BATCHES)
            and self.failed is None
            and not self._closing
        )

    def _accepts_request(self, future: Future[Any]) -> bool:
        """Return True, or refuse the request."""
        accepts = self.failed is None and not self._closing and not self.in_outage
        if not accepts:
            resolve(future, error=self._unavailable_error())
        return accepts

    def _unavailable_error(self) -> JournalUnavailable:
        reason = self.failed or f"{self.address}: the database does not accept data now"
        return JournalUnavailable(
            str(reason), hint="nothing is lost: queued data is stored when the database is back"
        )

    def _wake_writer(self) -> None:
        loop = self.loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended
                loop.call_soon_threadsafe(self._wake.set)

    # ---------------------------------------------------------------- writer's thread

    def _run(self, opened: Future[Recovered]) -> None:
        try:
            asyncio.run(self._main(opened))
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)
            else:
                _log.exception("the writer stopped")
                self._end(HybridSchedulerError(f"{self.address}: the writer stopped ({error!r})"))

    async def _main(self, opened: Future[Recovered]) -> None:
        await self.store.open()
        try:
            try:
                recovered = await recover(self.store)
            except Exception as error:
                if isinstance(error, HybridSchedulerError):
                    raise
                raise self.store.explain_error(error) from error
            await self._upkeep.resume()
            self.loop = asyncio.get_running_loop()
            opened.set_result(recovered)
            await self._work()
        finally:
            self.loop = None
            await self.store.close()

    async def _work(self) -> None:
        delay = _RETRY_DELAYS_S[0]
        while self.failed is None:
            self._wake.clear()
            waiting = self._queue or self._upkeep.requests or self._label_requests
            if self._closing and (time.monotonic() >= self._deadline or not waiting):
                break
            try:
                busy = await self._step()
                delay = _RETRY_DELAYS_S[0]
                self.in_outage = False
            except Exception as error:
                if not self.store.is_transient(error):
                    _log.error("%s: cannot be written", self.address, exc_info=error)
                    if not isinstance(error, HybridSchedulerError):
                        error = DatabaseUnusable(f"{self.address}: cannot be written ({error_reason(error)})")
                    self._end(error)
                    return
                self._begin_outage(error)
                await self._pause(delay)
                delay = min(2 * delay, _RETRY_DELAYS_S[1])
                continue
            if not busy:
                await self._wake.wait()
        if self._queue:
            _log.error("%s: %d batches could not be stored", self.address, len(self._queue))
        self._end()

    async def _pause(self, delay: float) -> None:
        until = min(time.monotonic() + delay, self._deadline)
        while (left := until - time.monotonic()) > 0:
            try:
                await asyncio.wait_for(self._wake.wait(), left)
            except TimeoutError:
                return
            self._wake.clear()
            until = min(until, self._deadline)  # `close` may have set the deadline meanwhile

    async def _step(self) -> bool:
        """Do one transaction's work; return False if there is none. After an exception all work remains queued."""
        if self.in_outage or not self.store.is_connected:  # a restart of an idle server is no failure
            await self.store.reopen()
            # Of some batches the commit may have succeeded although its confirmation was lost.
            stored = await last_stored(self.store, self.instance)
            if done := [pending for pending in self._queue.all() if pending.number <= stored]:
                self._mark_committed(done)
        group = self._queue.group()
        worked = bool(group)
        if group:
            await self._write(group)
        elif self._heartbeat is not None:
            heartbeat = self._heartbeat
            self._heartbeat = None
            async with self.store.transaction():
                await set_heartbeat(self.store, heartbeat)
        if self._label_requests and self._queue.first > self._label_requests[0].number:
            worked = True
            await self._label_requests[0].write(self.store)
            resolve(self._label_requests.popleft().stored)
        # Deleting alternates with writing, so that a long history does not delay the engine.
        new_tasks = sum(len(pending.batch) for pending in group)
        return await self._upkeep.delete_some(self._queue.first, new_tasks) or worked

    async def _write(self, group: list[PendingBatch]) -> None:
        heartbeat = self._heartbeat
        self._heartbeat = None
        group, conflicts = await without_stored_runs(self.store, group)
        await write_group(self.store, self.instance, group, self._longest, heartbeat)
        for pending in conflicts:
            error = InvalidInputError("run_id", "one that no other run has", pending.batch.run.run_id)
            resolve(pending.batch.committed, error=error)
            resolve(pending.batch.stored, error=error)
        self._mark_committed(group)
        await self.store.maintain()
        await self._upkeep.prune()

    def _mark_committed(self, group: Sequence[PendingBatch]) -> None:
        """Remove durable batches from the queue, resolve their futures, and publish their events."""
        self._queue.remove(len(group))
        if self.in_outage:
            _log.warning("%s: the database accepts data again", self.address)
            self.in_outage = False
        for pending in group:
            resolve(pending.batch.committed)
            resolve(pending.batch.stored)
        self._upkeep.added(group)
        payloads = [payload for pending in group for payload in pending.payloads]
        try:
            if payloads and self._bus is not None:
                self._bus.publish(payloads)
            if self._history is not None:
                self._history.append([pending.batch for pending in group])
        except Exception:  # the rows are stored, so the writer continues
            _log.exception("publishing stored events failed")

    def _begin_outage(self, error: Exception) -> None:
        if not self.in_outage:
            _log.warning("%s: cannot be written now: %s", self.address, self.store.explain_error(error))
        self.in_outage = True
        reason = self._unavailable_error()
        for pending in self._queue.all():
            resolve(pending.batch.committed, error=reason)
        while self._label_requests:
            resolve(self._label_requests.popleft().stored, error=reason)
        self._upkeep.refuse_unaccepted(reason)

    def _end(self, failed: HybridSchedulerError | None = None) -> None:
        """Refuse all that waits and all that comes."""
        self.failed = failed
        self._closing = True
        reason = self._unavailable_error()
        for pending in self._queue.all():
            resolve(pending.batch.committed, error=reason)
            resolve(pending.batch.stored, error=reason)
        for request in list(self._label_requests):
            resolve(request.stored, error=reason)
        for deletion in list(self._upkeep.requests):
            resolve(deletion.deleted, error=reason)
        if failed is not None and self._on_failure is not None:
            self._on_failure(failed)
