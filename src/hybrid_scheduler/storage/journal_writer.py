"""Journal of the live engine in a database: one thread that stores queued batches in transactions.

A batch leaves the queue only after the commit that contains it. If a commit fails, waiting callers get an error at
once (`Batch.committed`), and the batch is retried until it is stored (`Batch.stored`). The database also stores the
number of the last batch: a batch whose commit succeeded although the confirmation was lost is not stored twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import orjson

from ..core import HybridSchedulerError, InvalidInputError
from ..live.journal import Batch, JournalFull, JournalUnavailable, Recovered, RunLabels
from .batch_rows import PendingBatch, json_text
from .batch_transaction import Store, last_stored, set_heartbeat, set_meta, without_stored_runs, write_group
from .database import DatabaseAddress, DatabaseUnusable, error_reason
from .recovery import recover
from .retention import (
    DELETION_KEY,
    LABELS_KEY,
    PRUNE_EVERY,
    THIN_EVERY,
    Retention,
    delete_old_versions,
    delete_run,
    delete_tasks,
    prune_events,
    thin_model_versions,
)
from .sqlite_store import SqliteStore

_log = logging.getLogger(__name__)

#: Result rows in one transaction.
_MAX_TRANSACTION_ROWS = 50_000
#: The journal has no capacity for new tasks while more than this is queued.
_MAX_WAITING_ROWS, MAX_WAITING_BATCHES = 200_000, 256
#: Tasks deleted in one transaction.
DELETE_CHUNK_TASKS = 2_000
#: Seconds until the first retry after a failure, and at most between two retries.
_RETRY_DELAYS_S = (0.1, 2.0)


class Publisher(Protocol):
    """Protocol of the event bus, as the journal uses it."""

    def publish(self, events: Sequence[bytes]) -> None:
        """Send the payloads of stored events."""


class History(Protocol):
    """Protocol of a file of finished tasks beside the database."""

    def append(self, batches: Sequence[Batch]) -> None:
        """Append stored batches."""

    def clear(self) -> None:
        """Remove all rows."""


@dataclass(slots=True)
class _DeleteRequest:
    """A request to delete a run, or all tasks that are stored when its turn comes."""

    deleted: Future[int]
    #: The run to delete; None for all tasks.
    run_id: str | None = None
    #: Last batch before the request.
    number: int = 0
    #: Newest task to delete; None until the request is accepted.
    up_to: int | None = None
    #: Number of tasks to delete, and of those that are deleted.
    tasks: int = 0
    done: int = 0

    def text(self) -> str:
        """Return the request as it is stored, so that the next engine continues it."""
        return json_text({"up_to": self.up_to, "tasks": self.tasks, "deleted_tasks": self.done})


@dataclass(frozen=True, slots=True)
class _LabelRequest:
    """New labels of a run, and the last batch before the request."""

    run_id: str
    labels: RunLabels
    stored: Future[None]
    number: int


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
        self._retention = Retention(keep_tasks) if keep_tasks else None
        self._on_failure = on_failure
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: deque[PendingBatch] = deque()
        self._delete_requests: deque[_DeleteRequest] = deque()
        self._label_requests: deque[_LabelRequest] = deque()
        self._heartbeat: str | None = None
        self._rows = 0
        self._number = 0
        self.in_outage = False
        self._closing = False
        self._deadline = float("inf")
        self._new_events = 0
        self._new_versions = THIN_EVERY  # thin at the first one, for databases of earlier releases
        self._longest: dict[str, dict[str, float]] = {}
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

    def append(self, batch: Batch) -> None:
        """Queue a batch; never waits.

        Raises
        ------
        JournalFull
            If too much is queued.
        """
        # A batch without tasks is small and records a command such as pause: it has a higher limit.
        if not self._accepts(MAX_WAITING_BATCHES if batch.tasks is not None else 4 * MAX_WAITING_BATCHES):
            raise JournalFull("too much waits to be stored")
        pending = PendingBatch.of(self._number + 1, batch, self._clock())
        with self._lock:
            self._number = pending.number
            self._queue.append(pending)
            self._rows += pending.rows
        if self.in_outage:
            _resolve(batch.committed, error=self._unavailable_error())
        self._wake_writer()

    def delete_tasks(self, deleted: Future[int]) -> None:
        """Delete all tasks; runs and counters stay.

        The future gets the number of deleted tasks. Until it is running it may be cancelled. It is running once the
        request is durable: from then on it is completed, also by the next engine.
        """
        self._request_deletion(deleted, None)

    def delete_run(self, run_id: str, deleted: Future[int]) -> None:
        """Delete a run with all its rows, in one transaction; the future gets the number of deleted tasks.

        Until the future is running it may be cancelled.
        """
        self._request_deletion(deleted, run_id)

    def _request_deletion(self, deleted: Future[int], run_id: str | None) -> None:
        if self.failed is not None or self._closing or self.in_outage:
            _resolve(deleted, error=self._unavailable_error())
            return
        with self._lock:
            self._delete_requests.append(_DeleteRequest(deleted, run_id, self._number))
        self._wake_writer()

    def describe(self, run_id: str, labels: RunLabels, stored: Future[None]) -> None:
        """Replace name, tags and note of a run, after the batches that wait; see `Journal.describe`."""
        if self.failed is not None or self._closing or self.in_outage:
            _resolve(stored, error=self._unavailable_error())
            return
        with self._lock:
            self._label_requests.append(_LabelRequest(run_id, labels, stored, self._number))
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
            and (self._rows <= _MAX_WAITING_ROWS or batches > MAX_WAITING_BATCHES)
            and self.failed is None
            and not self._closing
        )

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
                self._fail(HybridSchedulerError(f"{self.address}: the writer stopped ({error!r})"))

    async def _main(self, opened: Future[Recovered]) -> None:
        await self.store.open()
        try:
            try:
                recovered = await recover(self.store)
            except Exception as error:
                if isinstance(error, HybridSchedulerError):
                    raise
                raise self.store.explain_error(error) from error
            await self._resume_deletion()
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
            waiting = self._queue or self._delete_requests or self._label_requests
            if self._closing and (time.monotonic() >= self._deadline or not waiting):
                break
            try:
                busy = await self._step()
                delay = _RETRY_DELAYS_S[0]
                self.in_outage = False
            except Exception as error:
                if not self.store.is_transient(error):
                    _log.error("%s: cannot be written", self.address, exc_info=error)
                    self._fail(error if isinstance(error, HybridSchedulerError) else self._unusable(error))
                    break
                self._begin_outage(error)
                await self._pause(delay)
                delay = min(2 * delay, _RETRY_DELAYS_S[1])
                continue
            if not busy:
                await self._wake.wait()
        if self._queue:
            _log.error("%s: %d batches could not be stored", self.address, len(self._queue))
        self._refuse_all()

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
            await self._remove_stored()
        worked = False
        if group := self._group():
            await self._write(group)
            worked = True
        elif self._heartbeat is not None:
            heartbeat, self._heartbeat = self._heartbeat, None
            async with self.store.transaction():
                await set_heartbeat(self.store, heartbeat)
        if self._label_requests and not (self._queue and self._queue[0].number <= self._label_requests[0].number):
            worked = True
            await self._write_labels(self._label_requests[0])
        # Deleting alternates with writing, so that a long history does not delay the engine.
        if self._delete_requests:
            worked = True
            await self._delete_chunk(self._delete_requests[0])
        elif self._retention is not None and (up_to := await self._retention.excess(self.store)) is not None:
            # At least as many as were added, or deleting would fall behind.
            if await delete_tasks(self.store, up_to, max(DELETE_CHUNK_TASKS, sum(map(_tasks_of, group)))):
                worked = True
            else:
                await delete_old_versions(self.store, up_to)
                self._retention.done()
        return worked

    def _group(self) -> list[PendingBatch]:
        group: list[PendingBatch] = []
        rows = 0
        with self._lock:
            for pending in self._queue:
                if group and rows + pending.rows > _MAX_TRANSACTION_ROWS:
                    break
                group.append(pending)
                rows += pending.rows
        return group

    async def _write(self, group: list[PendingBatch]) -> None:
        heartbeat, self._heartbeat = self._heartbeat, None
        group, conflicts = await without_stored_runs(self.store, group)
        await write_group(self.store, self.instance, group, self._longest, heartbeat)
        for pending in conflicts:
            error = InvalidInputError("run_id", "one that no other run has", pending.batch.run.run_id)
            _resolve(pending.batch.committed, error=error)
            _resolve(pending.batch.stored, error=error)
        self._mark_committed(group)
        await self.store.maintain()
        self._new_events += sum(len(pending.payloads) for pending in group)
        if self._new_events >= PRUNE_EVERY:
            self._new_events = 0
            await prune_events(self.store)
        new_versions = sum(len(pending.batch.versions) for pending in group)
        self._new_versions += new_versions
        if new_versions and self._new_versions > THIN_EVERY:
            self._new_versions = 0
            await thin_model_versions(self.store)

    def _mark_committed(self, group: Sequence[PendingBatch]) -> None:
        """Remove durable batches from the queue, resolve their futures, and publish their events."""
        with self._lock:
            for _ in group:
                self._rows -= self._queue.popleft().rows
        if self.in_outage:
            _log.warning("%s: the database accepts data again", self.address)
            self.in_outage = False
        for pending in group:
            _resolve(pending.batch.committed)
            _resolve(pending.batch.stored)
        if self._retention is not None:
            self._retention.added(sum(len(pending.batch) for pending in group))
        payloads = [payload for pending in group for payload in pending.payloads]
        try:
            if payloads and self._bus is not None:
                self._bus.publish(payloads)
            if self._history is not None:
                self._history.append([pending.batch for pending in group])
        except Exception:  # the rows are stored, so the writer continues
            _log.exception("publishing stored events failed")

    async def _remove_stored(self) -> None:
        """Remove batches from the queue whose commit succeeded although its confirmation was lost."""
        stored = await last_stored(self.store, self.instance)
        done = [pending for pending in self._queue if pending.number <= stored]
        if done:
            self._mark_committed(done)

    async def _write_labels(self, request: _LabelRequest) -> None:
        async with self.store.transaction():
            if await self.store.fetch("SELECT 1 FROM runs WHERE run_id = ?", request.run_id):
                await set_meta(self.store, LABELS_KEY + request.run_id, json_text(asdict(request.labels)))
        self._label_requests.popleft()
        _resolve(request.stored)

    async def _delete_chunk(self, request: _DeleteRequest) -> None:
        if self._queue and self._queue[0].number <= request.number and request.up_to is None:
            return  # earlier batches are stored first
        if request.run_id is not None:
            await self._delete_run(request, request.run_id)
            return
        if request.up_to is None:
            await self._accept_deletion(request)
            return
        if await delete_tasks(self.store, request.up_to, DELETE_CHUNK_TASKS, request):
            return
        async with self.store.transaction():
            await self.store.execute("DELETE FROM meta WHERE key = ?", DELETION_KEY)
        self._delete_requests.popleft()
        _resolve(request.deleted, request.done)

    async def _delete_run(self, request: _DeleteRequest, run_id: str) -> None:
        tasks = 0
        if request.deleted.set_running_or_notify_cancel():  # after a failure the request is refused, not retried
            tasks = await delete_run(self.store, run_id, DELETE_CHUNK_TASKS)
            self._longest.pop(run_id, None)
        self._delete_requests.popleft()
        _resolve(request.deleted, tasks)

    async def _accept_deletion(self, request: _DeleteRequest) -> None:
        if request.deleted.cancelled():
            self._delete_requests.popleft()
            return
        ((newest,),) = await self.store.fetch("SELECT max(task_id) FROM tasks")
        tasks = await self.store.fetch("SELECT value FROM meta WHERE key = 'rows:tasks'")
        accepted = replace(request, up_to=newest or 0, tasks=int(tasks[0][0]) if tasks else 0)
        async with self.store.transaction():
            await set_meta(self.store, DELETION_KEY, accepted.text())
        if not request.deleted.set_running_or_notify_cancel():
            self._delete_requests.popleft()
            async with self.store.transaction():
                await self.store.execute("DELETE FROM meta WHERE key = ?", DELETION_KEY)
            return
        self._delete_requests[0] = accepted
        if self._history is not None:
            self._history.clear()  # now, when it has no newer rows

    async def _resume_deletion(self) -> None:
        """Continue a deletion that an earlier engine accepted."""
        if found := await self.store.fetch("SELECT value FROM meta WHERE key = ?", DELETION_KEY):
            stored = orjson.loads(found[0][0])
            deleted: Future[int] = Future()
            deleted.set_running_or_notify_cancel()
            self._delete_requests.append(
                _DeleteRequest(deleted, up_to=stored["up_to"], tasks=stored["tasks"], done=stored["deleted_tasks"])
            )

    def _begin_outage(self, error: Exception) -> None:
        if not self.in_outage:
            _log.warning("%s: cannot be written now: %s", self.address, self.store.explain_error(error))
        self.in_outage = True
        with self._lock:
            waiting = [pending.batch.committed for pending in self._queue]
        for future in waiting:
            _resolve(future, error=self._unavailable_error())
        while self._label_requests:
            _resolve(self._label_requests.popleft().stored, error=self._unavailable_error())
        while self._delete_requests and self._delete_requests[0].up_to is None:
            _resolve(self._delete_requests.popleft().deleted, error=self._unavailable_error())

    def _unusable(self, error: Exception) -> DatabaseUnusable:
        return DatabaseUnusable(f"{self.address}: cannot be written ({error_reason(error)})")

    def _fail(self, error: HybridSchedulerError) -> None:
        self.failed = error
        self._refuse_all()
        if self._on_failure is not None:
            self._on_failure(error)

    def _refuse_all(self) -> None:
        self._closing = True
        with self._lock:
            batches = [pending.batch for pending in self._queue]
            waiting: list[Future[Any] | None] = [
                each for batch in batches for each in (batch.committed, batch.stored)
            ]
            waiting += [request.deleted for request in self._delete_requests]
            waiting += [request.stored for request in self._label_requests]
        for future in waiting:
            _resolve(future, error=self._unavailable_error())


def _tasks_of(pending: PendingBatch) -> int:
    return len(pending.batch)


def create_store(address: DatabaseAddress, instance: str) -> Store:
    """Return the store for the kind of database; `instance` identifies its sessions."""
    if address.is_sqlite:
        return SqliteStore(address)
    from .postgres_store import PostgresStore

    return PostgresStore(address, instance)


def _resolve(future: Future[Any] | None, value: Any = None, *, error: Exception | None = None) -> None:
    """Set the result or the error of a future, unless it is done or cancelled."""
    if future is None:
        return
    with contextlib.suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)
