"""The journal in a database: one thread that stores what the engine hands over, many batches in one transaction.

A batch leaves the queue only after the commit that holds it. If the commit fails, whoever waits for it is told at
once, and the batch is tried again until it is stored; the database remembers the number of the last batch, so one
whose commit went through although the answer was lost is not stored twice.
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
from dataclasses import dataclass
from typing import Any, Protocol

from ..core import HybridSchedulerError
from ..live.batch_records import Batch, Recovered
from ..live.journal import JournalFull, JournalUnavailable
from .batch_rows import PendingBatch, json_text
from .database import reason_of
from .database_address import DatabaseAddress
from .errors import DatabaseUnusable
from .recovery import recover
from .retention import Retention
from .sqlite_store import SqliteStore
from .store import PRUNE_EVERY, Store, delete_tasks, last_stored, prune_events, set_meta, write_group

_log = logging.getLogger(__name__)

#: Rows of results in one transaction.
GROUP_ROWS = 50_000
#: More than this waiting means: make no new tasks.
MOST_ROWS, MOST_BATCHES = 200_000, 256
#: Tasks deleted in one transaction.
DELETED_AT_ONCE = 2_000
_BACK_OFF = (0.1, 2.0)


class Publisher(Protocol):
    """An event bus, as the writer sees it."""

    def publish(self, events: Sequence[bytes]) -> None: ...


class History(Protocol):
    """A file of finished tasks beside the database."""

    def append(self, batches: Sequence[Batch]) -> None: ...

    def clear(self) -> None: ...


@dataclass(slots=True)
class _Forget:
    """A wish to delete everything up to a task that is found out when its turn comes."""

    deleted: Future[int]
    upto: int | None = None
    number: int = 0


class SqlJournal:
    """A `Journal` in SQLite or PostgreSQL.

    `on_failure` is called, in the writer's thread, when nothing more can be stored: another engine took the
    database over, or it refuses a row. `failed` then says why.
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
        self._store = store_of(address, self.instance)
        self._bus = bus
        self._history = history
        self._retention = Retention(keep_tasks) if keep_tasks else None
        self._on_failure = on_failure
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: deque[PendingBatch] = deque()
        self._forgets: deque[_Forget] = deque()
        self._beat: str | None = None
        self._rows = 0
        self._number = 0
        self._away = False
        self._closing = False
        self._deadline = float("inf")
        self._new_events = 0
        self._longest: dict[str, dict[str, float]] = {}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()

    # ---------------------------------------------------------------- the engine's side

    def open(self) -> Recovered:
        if self._thread is not None:
            raise RuntimeError("a journal is opened once")
        opened: Future[Recovered] = Future()
        self._thread = threading.Thread(target=self._run, args=(opened,), name="journal", daemon=True)
        self._thread.start()
        return opened.result()

    @property
    def has_capacity(self) -> bool:
        return self._takes(MOST_BATCHES)

    @property
    def unsaved(self) -> int:
        return len(self._queue)

    @property
    def unavailable(self) -> bool:
        return self._away or self.failed is not None

    def append(self, batch: Batch) -> None:
        # Without tasks it is small, and says that somebody paused or stopped: there is some room left for that.
        if not self._takes(MOST_BATCHES if batch.tasks is not None else 4 * MOST_BATCHES):
            raise JournalFull("too much waits to be stored")
        pending = PendingBatch.of(self._number + 1, batch, self._clock())
        with self._lock:
            self._number = pending.number
            self._queue.append(pending)
            self._rows += pending.rows
        if self._away:
            _settle(batch.committed, error=self._excuse())
        self._rouse()

    def forget(self, deleted: Future[int]) -> None:
        if self.failed is not None or self._closing or self._away:
            _settle(deleted, error=self._excuse())
            return
        with self._lock:
            self._forgets.append(_Forget(deleted, number=self._number))
        self._rouse()

    def write_heartbeat(self, status: dict[str, Any]) -> None:
        """Leave word that the engine lives, for processes that see it only through the database. Never waits."""
        self._beat = json_text({"instance": self.instance, "beat_at": self._clock(), "status": status})
        self._rouse()

    def close(self, timeout: float = 5.0) -> None:
        self._deadline = time.monotonic() + timeout
        self._closing = True
        self._rouse()
        if self._thread is not None:
            self._thread.join(timeout + 10.0)

    def _takes(self, batches: int) -> bool:
        return (
            len(self._queue) < batches
            and (self._rows <= MOST_ROWS or batches > MOST_BATCHES)
            and self.failed is None
            and not self._closing
        )

    def _excuse(self) -> JournalUnavailable:
        reason = self.failed or f"{self.address}: the database does not take anything now"
        return JournalUnavailable(
            str(reason), hint="nothing is lost: what waits is stored when the database is back"
        )

    def _rouse(self) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended
                loop.call_soon_threadsafe(self._wake.set)

    # ---------------------------------------------------------------- the writer's thread

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
        await self._store.open()
        try:
            try:
                recovered = await recover(self._store)
            except Exception as error:
                if isinstance(error, HybridSchedulerError):
                    raise
                raise self._store.explained(error) from error
            self._loop = asyncio.get_running_loop()
            opened.set_result(recovered)
            await self._work()
        finally:
            self._loop = None
            await self._store.close()

    async def _work(self) -> None:
        delay = _BACK_OFF[0]
        while self.failed is None:
            self._wake.clear()
            if self._closing and (time.monotonic() >= self._deadline or not (self._queue or self._forgets)):
                break
            try:
                busy = await self._step()
                delay = _BACK_OFF[0]
                self._away = False
            except Exception as error:
                if not self._store.is_passing(error):
                    _log.error("%s: cannot be written", self.address, exc_info=error)
                    self._fail(error if isinstance(error, HybridSchedulerError) else self._unusable(error))
                    break
                self._step_back(error)
                await self._pause(delay)
                delay = min(2 * delay, _BACK_OFF[1])
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
            until = min(until, self._deadline)  # it may have been set meanwhile

    async def _step(self) -> bool:
        """One piece of work; False when there is none. An exception leaves everything as it was."""
        if self._away or not self._store.alive:  # a server that restarted while nothing was to do is no failure
            await self._store.reopen()
            await self._drop_stored()
        worked = False
        if group := self._group():
            await self._write(group)
            worked = True
        elif self._beat is not None:
            beat, self._beat = self._beat, None
            async with self._store.transaction():
                await set_meta(self._store, "engine", beat)
        # Deleting takes turns with writing, so that a long history does not hold the engine up.
        if self._forgets:
            worked = True
            await self._forget_some(self._forgets[0])
        elif self._retention is not None and (upto := await self._retention.excess(self._store)) is not None:
            # As many as came, or it would fall behind.
            if await delete_tasks(self._store, upto, max(DELETED_AT_ONCE, sum(map(_tasks_of, group)))):
                worked = True
            else:
                self._retention.done()
        return worked

    def _group(self) -> list[PendingBatch]:
        group: list[PendingBatch] = []
        rows = 0
        with self._lock:
            for pending in self._queue:
                if group and rows + pending.rows > GROUP_ROWS:
                    break
                group.append(pending)
                rows += pending.rows
        return group

    async def _write(self, group: list[PendingBatch]) -> None:
        beat, self._beat = self._beat, None
        await write_group(self._store, self.instance, group, self._longest, beat)
        self._committed(group)
        await self._store.tidy()
        self._new_events += sum(len(pending.payloads) for pending in group)
        if self._new_events >= PRUNE_EVERY:
            self._new_events = 0
            await prune_events(self._store)

    def _committed(self, group: Sequence[PendingBatch]) -> None:
        """They are durable: say so, and let their events be seen."""
        with self._lock:
            for _ in group:
                self._rows -= self._queue.popleft().rows
        if self._away:
            _log.warning("%s: the database takes data again", self.address)
            self._away = False
        for pending in group:
            _settle(pending.batch.committed)
        if self._retention is not None:
            self._retention.added(sum(len(pending.batch) for pending in group))
        payloads = [payload for pending in group for payload in pending.payloads]
        try:
            if payloads and self._bus is not None:
                self._bus.publish(payloads)
            if self._history is not None:
                self._history.append([pending.batch for pending in group])
        except Exception:  # the rows are stored: no reason to stop
            _log.exception("telling of what was stored failed")

    async def _drop_stored(self) -> None:
        """After a failure: what was committed although we never heard of it."""
        stored = await last_stored(self._store, self.instance)
        done = [pending for pending in self._queue if pending.number <= stored]
        if done:
            self._committed(done)

    async def _forget_some(self, wish: _Forget) -> None:
        if self._queue and self._queue[0].number <= wish.number and wish.upto is None:
            return  # batches that came before it are stored first
        if wish.upto is None:
            ((upto, wish.number),) = await self._store.fetch("SELECT max(task_id), count(*) FROM tasks")
            wish.upto = upto or 0
        if await delete_tasks(self._store, wish.upto, DELETED_AT_ONCE):
            return
        if self._history is not None:
            self._history.clear()
        self._forgets.popleft()
        _settle(wish.deleted, wish.number)

    def _step_back(self, error: Exception) -> None:
        if not self._away:
            _log.warning("%s: cannot be written now: %s", self.address, self._store.explained(error))
        self._away = True
        with self._lock:
            waiting = [pending.batch.committed for pending in self._queue]
        for future in waiting:
            _settle(future, error=self._excuse())
        while self._forgets and self._forgets[0].upto is None:
            _settle(self._forgets.popleft().deleted, error=self._excuse())

    def _unusable(self, error: Exception) -> DatabaseUnusable:
        return DatabaseUnusable(f"{self.address}: cannot be written ({reason_of(error)})")

    def _fail(self, error: HybridSchedulerError) -> None:
        self.failed = error
        self._refuse_all()
        if self._on_failure is not None:
            self._on_failure(error)

    def _refuse_all(self) -> None:
        self._closing = True
        with self._lock:
            waiting = [pending.batch.committed for pending in self._queue]
            wishes = [wish.deleted for wish in self._forgets]
        for future in waiting:
            _settle(future, error=self._excuse())
        for wish in wishes:
            _settle(wish, error=self._excuse())


def _tasks_of(pending: PendingBatch) -> int:
    return len(pending.batch)


def store_of(address: DatabaseAddress, instance: str) -> Store:
    if address.is_sqlite:
        return SqliteStore(address)
    from .postgres_store import PostgresStore

    return PostgresStore(address, instance)


def _settle(future: Future[Any] | None, value: Any = None, *, error: Exception | None = None) -> None:
    """Answer whoever waits, unless they left or were answered already."""
    if future is None:
        return
    with contextlib.suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)
