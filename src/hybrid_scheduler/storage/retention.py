"""Deletion of old tasks, events and model versions, and of whole runs."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import select

from ..core import InvalidInputError
from . import tables
from .batch_transaction import COUNTED_TABLES, Store, change_row_count, set_meta
from .database import DatabaseAddress, driver_errors
from .schema_version import explain_error, run_blocking, with_connection

#: Newest events of these types are stored; notifications are never deleted.
KEEP_EVENTS = 4000
_PRUNED_EVENT_TYPES = ("simulation_update", "log")
#: Old events are deleted after this many new ones.
PRUNE_EVERY = 250
#: Newest versions of a model that all stay, and most older ones: every second, fourth, eighth ... of them.
KEEP_VERSIONS, KEEP_OLD_VERSIONS = 200, 400
#: Old versions are thinned after this many new ones.
THIN_EVERY = 20
#: Entry of the table `meta` while the history is being deleted.
DELETION_KEY = "deletion"
#: Entries of the table `meta` with the labels of a run begin with this, and end with its id.
LABELS_KEY = "labels:"


class Retention:
    """Limit on the number of stored tasks.

    Finding the limit reads many rows, so it is updated only now and then.

    Parameters
    ----------
    keep_tasks
        Number of newest tasks that stay.
    """

    def __init__(self, keep_tasks: int) -> None:
        self.keep_tasks = keep_tasks
        self._update_every = max(100, keep_tasks // 100)
        self._new_tasks = self._update_every  # update once at the start
        self._delete_up_to: int | None = None

    def added(self, tasks: int) -> None:
        """Count tasks that were stored."""
        self._new_tasks += tasks

    async def excess(self, store: Store) -> int | None:
        """Return the newest task to delete, or None."""
        if self._new_tasks >= self._update_every:
            self._new_tasks = 0
            found = await store.fetch(
                "SELECT task_id FROM tasks ORDER BY task_id DESC LIMIT 1 OFFSET ?", self.keep_tasks
            )
            self._delete_up_to = found[0][0] if found else None
        return self._delete_up_to

    def done(self) -> None:
        """Note that all excess tasks are deleted."""
        self._delete_up_to = None


class DeletionProgress(Protocol):
    """Progress of a deletion that is stored along with it."""

    done: int

    def text(self) -> str:
        """Return the progress as text."""


async def delete_tasks(store: Store, up_to: int, chunk: int, progress: DeletionProgress | None = None) -> bool:
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
            deleted = 0
            for table in ("idempotency_keys", "training_data", "scheduler_results", "tasks"):
                deleted = await store.execute(
                    f"DELETE FROM {table} WHERE task_id >= ? AND task_id <= ?", lowest, highest
                )
                if deleted and table in COUNTED_TABLES:
                    await change_row_count(store, table, -deleted)
            if progress is not None:
                progress.done = before + deleted  # the last table is that of the tasks
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
    deleted = dict.fromkeys(COUNTED_TABLES, 0)
    oldest = "SELECT task_id FROM tasks WHERE run_id = ? ORDER BY ordinal LIMIT ?"
    async with store.transaction():
        while True:
            query = f"SELECT min(task_id), max(task_id) FROM ({oldest}) AS oldest"
            ((lowest, highest),) = await store.fetch(query, run_id, chunk)
            if lowest is None:
                break
            # The ids of another run may lie between those of this one.
            own = "SELECT task_id FROM tasks WHERE run_id = ? AND task_id >= ? AND task_id <= ?"
            for table in ("idempotency_keys", "training_data", "scheduler_results", "tasks"):
                count = await store.execute(
                    f"DELETE FROM {table} WHERE task_id IN ({own})", run_id, lowest, highest
                )
                if table in deleted:
                    deleted[table] += count
        for table, count in deleted.items():
            if count:
                await change_row_count(store, table, -count)
        ((last,),) = await store.fetch("SELECT max(seq) FROM events WHERE run_id = ?", run_id)
        pruned = await store.fetch("SELECT value FROM meta WHERE key = 'pruned_seq'")
        if last is not None and last > (int(pruned[0][0]) if pruned else 0):
            await set_meta(store, "pruned_seq", str(last))
        for table in ("events", "model_versions", "runs"):
            await store.execute(f"DELETE FROM {table} WHERE run_id = ?", run_id)
        await store.execute("DELETE FROM meta WHERE key = ?", LABELS_KEY + run_id)
    return deleted["tasks"]


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
    from .journal_writer import DELETE_CHUNK_TASKS, create_store  # which imports this module

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


async def prune_events(store: Store) -> None:
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


async def thin_model_versions(store: Store) -> None:
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


async def delete_old_versions(store: Store, up_to: int) -> None:
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
