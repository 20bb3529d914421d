"""Deletion of old tasks, events and model versions, and of whole runs."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson
from sqlalchemy import select

from ..core import InvalidInputError
from ..live.journal import Batch
from . import tables
from .batch_rows import PendingBatch, json_text
from .batch_transaction import COUNTED_TABLES, Store, change_row_count, get_meta, set_meta
from .database import DatabaseAddress, driver_errors
from .schema_version import explain_error, run_blocking, with_connection
from .sqlite_store import SqliteStore

#: Tasks deleted in one transaction.
DELETE_CHUNK_TASKS = 2_000
#: Newest events of these types are stored; notifications are never deleted.
KEEP_EVENTS = 4000
_PRUNED_EVENT_TYPES = ("simulation_update", "log")
#: Old events are deleted after this many new ones.
PRUNE_EVERY = 250
#: Newest versions of a model that all stay, and most older ones: every second, fourth, eighth ... of them.
KEEP_VERSIONS = 200
KEEP_OLD_VERSIONS = 400
#: Old versions are thinned after this many new ones.
_THIN_EVERY = 20
#: Entry of the table `meta` while the history is being deleted.
DELETION_KEY = "deletion"
#: Entries of the table `meta` with the labels of a run begin with this, and end with its id.
LABELS_KEY = "labels:"


class History(Protocol):
    """Protocol of a file of finished tasks beside the database."""

    def append(self, batches: Sequence[Batch]) -> None:
        """Append stored batches."""

    def clear(self) -> None:
        """Remove all rows."""


@dataclass(slots=True)
class DeletionRequest:
    """A request to delete a run, or all tasks that are stored when its turn comes."""

    deleted: Future[int]
    #: Last batch before the request.
    number: int = 0
    #: The run to delete; None for all tasks.
    run_id: str | None = None
    #: Newest task to delete; None until the request is accepted.
    up_to: int | None = None
    #: Number of tasks to delete, and of those that are deleted.
    tasks: int = 0
    done: int = 0

    def text(self) -> str:
        """Return the request as it is stored, so that the next engine continues it."""
        return json_text({"up_to": self.up_to, "tasks": self.tasks, "deleted_tasks": self.done})


class Upkeep:
    """Deletions of a journal: on request, of tasks beyond a limit, and of old events and model versions.

    Finding the limit reads many rows, so it is updated only now and then.

    Parameters
    ----------
    store
        The database.
    longest
        Longest latencies by run, from which deleted runs are removed.
    history
        File that loses its rows with the tasks.
    keep_tasks
        Number of newest tasks that stay; 0 keeps all.
    """

    def __init__(
        self, store: Store, longest: dict[str, dict[str, float]], history: History | None, keep_tasks: int
    ) -> None:
        self.requests: deque[DeletionRequest] = deque()
        self._store = store
        self._longest = longest
        self._history = history
        self._keep_tasks = keep_tasks
        self._update_every = max(100, keep_tasks // 100)
        self._new_tasks = self._update_every  # update once at the start
        self._delete_up_to: int | None = None
        self._new_events = 0
        self._new_versions = _THIN_EVERY  # thin at the first one, for databases of earlier releases

    def request(self, deleted: Future[int], number: int, run_id: str | None = None) -> None:
        """Take a request after the batch of this number."""
        self.requests.append(DeletionRequest(deleted, number, run_id))

    async def resume(self) -> None:
        """Continue a deletion that an earlier engine accepted."""
        if text := await get_meta(self._store, DELETION_KEY):
            stored = orjson.loads(text)
            deleted: Future[int] = Future()
            deleted.set_running_or_notify_cancel()
            self.requests.append(
                DeletionRequest(deleted, up_to=stored["up_to"], tasks=stored["tasks"], done=stored["deleted_tasks"])
            )

    def refuse_unaccepted(self, error: Exception) -> None:
        """Refuse the requests that are not durable."""
        while self.requests and self.requests[0].up_to is None:
            resolve(self.requests.popleft().deleted, error=error)

    def added(self, group: Sequence[PendingBatch]) -> None:
        """Count what was stored."""
        for pending in group:
            self._new_tasks += len(pending.batch)
            self._new_events += len(pending.payloads)
            self._new_versions += len(pending.batch.versions)

    async def prune(self) -> None:
        """Delete old events and model versions once there are enough new ones."""
        if self._new_events >= PRUNE_EVERY:
            self._new_events = 0
            await _prune_events(self._store)
        if self._new_versions > _THIN_EVERY:
            self._new_versions = 0
            await _thin_model_versions(self._store)

    async def delete_some(self, first_waiting: float, new_tasks: int) -> bool:
        """Do one transaction's work; return False if there is none.

        Parameters
        ----------
        first_waiting
            Number of the first batch that waits to be stored.
        new_tasks
            Tasks that were just stored: at least as many are deleted, or deleting would fall behind.
        """
        if self.requests:
            request = self.requests[0]
            # Earlier batches are stored first.
            if request.up_to is not None or first_waiting > request.number:
                await self._work_on(request)
            return True
        up_to = await self._excess()
        if up_to is None:
            return False
        if await delete_tasks(self._store, up_to, max(DELETE_CHUNK_TASKS, new_tasks)):
            return True
        await _delete_old_versions(self._store, up_to)
        self._delete_up_to = None
        return False

    async def _excess(self) -> int | None:
        """Return the newest task beyond the limit, or None."""
        if self._keep_tasks and self._new_tasks >= self._update_every:
            self._new_tasks = 0
            found = await self._store.fetch(
                "SELECT task_id FROM tasks ORDER BY task_id DESC LIMIT 1 OFFSET ?", self._keep_tasks
            )
            self._delete_up_to = found[0][0] if found else None
        return self._delete_up_to

    async def _work_on(self, request: DeletionRequest) -> None:
        if request.run_id is not None:
            if request.deleted.set_running_or_notify_cancel():  # after a failure it is refused, not retried
                request.done = await delete_run(self._store, request.run_id, DELETE_CHUNK_TASKS)
                self._longest.pop(request.run_id, None)
        elif request.deleted.cancelled():
            pass
        elif request.up_to is None:
            await self._accept(request)
            return
        elif await delete_tasks(self._store, request.up_to, DELETE_CHUNK_TASKS, request):
            return
        else:
            async with self._store.transaction():
                await set_meta(self._store, DELETION_KEY, None)
        self.requests.popleft()
        resolve(request.deleted, request.done)

    async def _accept(self, request: DeletionRequest) -> None:
        ((newest,),) = await self._store.fetch("SELECT max(task_id) FROM tasks")
        tasks = int(await get_meta(self._store, "rows:tasks") or 0)
        accepted = replace(request, up_to=newest or 0, tasks=tasks)
        async with self._store.transaction():
            await set_meta(self._store, DELETION_KEY, accepted.text())
        if not request.deleted.set_running_or_notify_cancel():
            self.requests.popleft()
            async with self._store.transaction():
                await set_meta(self._store, DELETION_KEY, None)
            return
        self.requests[0] = accepted
        if self._history is not None:
            self._history.clear()  # now, when it has no newer rows


def resolve(future: Future[Any] | None, value: Any = None, *, error: Exception | None = None) -> None:
    """Set the result or the error of a future, unless it is done or cancelled."""
    if future is None:
        return
    with contextlib.suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)


def create_store(address: DatabaseAddress, instance: str) -> Store:
    """Return the store for the kind of database; `instance` identifies its sessions."""
    if address.is_sqlite:
        return SqliteStore(address)
    from .postgres_store import PostgresStore

    return PostgresStore(address, instance)


async def delete_tasks(store: Store, up_to: int, chunk: int, progress: DeletionRequest | None = None) -> bool:
    """Delete the oldest tasks with everything that belongs to them.

    Parameters
    ----------
    store
        The database.
    up_to
        Newest task to delete.
    chunk
        About how many tasks to delete in this transaction.
    progress
        Counts the deleted tasks and is stored in the same transaction.

    Returns
    -------
    bool
        False if there was nothing to delete.
    """
    ((lowest,),) = await store.fetch("SELECT min(task_id) FROM tasks WHERE task_id <= ?", up_to)
    if lowest is None:
        return False
    highest = min(up_to, lowest + chunk - 1)
    before = 0 if progress is None else progress.done
    try:
        async with store.transaction():
            deleted = await _delete_rows(store, "task_id >= ? AND task_id <= ?", lowest, highest)
            if progress is not None:
                progress.done = before + deleted
                await set_meta(store, DELETION_KEY, progress.text())
    except BaseException:
        if progress is not None:
            progress.done = before
        raise
    return True


async def delete_run(store: Store, run_id: str, chunk: int) -> int:
    """Delete a run with everything that belongs to it, in one transaction.

    Parameters
    ----------
    store
        The database.
    run_id
        The run, which no engine writes.
    chunk
        Tasks per statement, so that none takes longer than the server allows.

    Returns
    -------
    int
        Number of deleted tasks.
    """
    tasks = 0
    oldest = "SELECT task_id FROM tasks WHERE run_id = ? ORDER BY ordinal LIMIT ?"
    async with store.transaction():
        while True:
            query = f"SELECT min(task_id), max(task_id) FROM ({oldest}) AS oldest"
            ((lowest, highest),) = await store.fetch(query, run_id, chunk)
            if lowest is None:
                break
            # The ids of another run may lie between those of this one.
            own = "SELECT task_id FROM tasks WHERE run_id = ? AND task_id >= ? AND task_id <= ?"
            tasks += await _delete_rows(store, f"task_id IN ({own})", run_id, lowest, highest)
        ((last,),) = await store.fetch("SELECT max(seq) FROM events WHERE run_id = ?", run_id)
        if last is not None and last > int(await get_meta(store, "pruned_seq") or 0):
            await set_meta(store, "pruned_seq", str(last))
        for table in ("events", "model_versions", "runs"):
            await store.execute(f"DELETE FROM {table} WHERE run_id = ?", run_id)
        await set_meta(store, LABELS_KEY + run_id, None)
    return tasks


async def _delete_rows(store: Store, condition: str, *parameters: Any) -> int:
    """Delete tasks with everything that belongs to them, and return their number."""
    deleted = 0
    for table in ("idempotency_keys", "training_data", "scheduler_results", "tasks"):
        deleted = await store.execute(f"DELETE FROM {table} WHERE {condition}", *parameters)
        if deleted and table in COUNTED_TABLES:
            await change_row_count(store, table, -deleted)
    return deleted  # the last table is that of the tasks


def delete_run_offline(address: DatabaseAddress, run_id: str) -> int:
    """Delete a run from a database that no engine uses.

    Parameters
    ----------
    address
        The database.
    run_id
        The run.

    Returns
    -------
    int
        Number of deleted tasks.

    Raises
    ------
    InvalidInputError
        If there is no such run.
    EngineBusy
        If an engine uses the database.
    DatabaseUnavailable, DatabaseUnusable
        If the database cannot be read or written.
    """
    known = select(tables.runs.c.run_id).where(tables.runs.c.run_id == run_id)
    if with_connection(address, lambda connection: connection.scalar(known), read_only=True) is None:
        raise InvalidInputError("ID", "the id of a stored run", run_id)

    async def under_lock() -> int:
        store = create_store(address, "delete-run")
        await store.open()
        try:
            return await delete_run(store, run_id, DELETE_CHUNK_TASKS)
        except driver_errors() as error:
            raise explain_error(address, error) from error
        finally:
            await store.close()

    return run_blocking(under_lock())


async def _prune_events(store: Store) -> None:
    """Delete old updates and log lines, and store up to which number the stream has gaps."""
    found = await store.fetch(
        "SELECT seq FROM events WHERE type IN (?, ?) ORDER BY seq DESC LIMIT 1 OFFSET ?",
        *_PRUNED_EVENT_TYPES,
        KEEP_EVENTS,
    )
    if not found:
        return
    (last,) = found[0]
    async with store.transaction():
        await store.execute("DELETE FROM events WHERE seq <= ? AND type IN (?, ?)", last, *_PRUNED_EVENT_TYPES)
        await set_meta(store, "pruned_seq", str(last))


async def _thin_model_versions(store: Store) -> None:
    """Delete versions of models so that those of a run and scheduler stay few, however long it runs.

    The newest `KEEP_VERSIONS` stay, and the first. Of those between, every k-th stays, where k is the smallest
    power of two that leaves at most `KEEP_OLD_VERSIONS`. Larger powers keep a part of what smaller ones kept.
    """
    crowded = await store.fetch(
        "SELECT run_id, scheduler_name, max(version) FROM model_versions GROUP BY run_id, scheduler_name "
        "HAVING count(*) > ?",
        KEEP_VERSIONS,
    )
    for run_id, scheduler, newest in crowded:
        last_old = newest - KEEP_VERSIONS
        step = 1
        while last_old > step * KEEP_OLD_VERSIONS:
            step *= 2
        if step > 1:
            async with store.transaction():
                await store.execute(
                    "DELETE FROM model_versions WHERE run_id = ? AND scheduler_name = ? "
                    "AND version > 1 AND version <= ? AND version % ? <> 0",
                    run_id,
                    scheduler,
                    last_old,
                    step,
                )


async def _delete_old_versions(store: Store, up_to: int) -> None:
    """Delete versions that were trained at a deleted task; the newest of each model stays.

    Parameters
    ----------
    store
        The database.
    up_to
        The newest deleted task.
    """
    async with store.transaction():
        await store.execute(
            "DELETE FROM model_versions WHERE at_task <= ? AND version < (SELECT max(newest.version) "
            "FROM model_versions AS newest WHERE newest.run_id = model_versions.run_id "
            "AND newest.scheduler_name = model_versions.scheduler_name)",
            up_to,
        )
