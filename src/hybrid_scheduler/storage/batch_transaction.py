"""Write access to the database: the protocol of a store, and the transaction that writes batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import astuple, fields
from typing import Any, Protocol

import orjson

from ..core import HybridSchedulerError
from ..live.journal import Counters, EngineBusy, VersionRecord
from . import batch_rows
from .batch_rows import Columns, PendingBatch, json_text
from .database import DatabaseAddress, driver_errors
from .schema_version import explain_error, upgrade_connection, with_connection

#: Tables whose number of rows is stored, because counting ten million rows takes seconds.
COUNTED_TABLES = ("tasks", "scheduler_results", "training_data")

_UPSERT_META = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_ADD_TO_COUNT = "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + ? AS TEXT) WHERE key = ?"
_UPSERT_RUN = (
    f"INSERT INTO runs ({', '.join(batch_rows.RUN_COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(batch_rows.RUN_COLUMNS))}) "
    "ON CONFLICT (run_id) DO UPDATE SET ended_at = excluded.ended_at, status = excluded.status, "
    "scenario = excluded.scenario, utilisation = excluded.utilisation, schedulers = excluded.schedulers, "
    "config = excluded.config, config_hash = excluded.config_hash, tasks = runs.tasks + excluded.tasks, "
    "state = excluded.state, devices = excluded.devices, longest = excluded.longest"
)
_VERSION = tuple(column.name for column in fields(VersionRecord))
_UPSERT_VERSION = (
    f"INSERT INTO model_versions ({', '.join(_VERSION)}) VALUES ({', '.join('?' * len(_VERSION))}) "
    "ON CONFLICT (run_id, scheduler_name, version) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _VERSION[3:])
)
_INSERT_KEY = (
    "INSERT INTO idempotency_keys (key, fingerprint, task_id, created_at) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (key) DO NOTHING"
)


class Store(Protocol):
    """Protocol of the one connection that writes, in one thread. Statements use ``?`` for parameters."""

    #: True if the database itself stores NaN as NULL.
    nan_is_null: bool
    address: DatabaseAddress

    @property
    def is_connected(self) -> bool:
        """False if the connection is known to be lost."""

    async def open(self) -> None:
        """Connect, take the engine's lock, and upgrade the schema.

        Raises
        ------
        EngineBusy
            If another engine uses the database.
        DatabaseUnavailable, DatabaseUnusable
            If the database does not answer or cannot be used.
        """
        try:
            await self.take_lock()
            try:
                with_connection(self.address, lambda connection: upgrade_connection(connection, self.address))
                await self.connect()
            except BaseException:
                await self.close()
                raise
        except Exception as error:
            if isinstance(error, HybridSchedulerError) or not isinstance(error, (*driver_errors(), ValueError)):
                raise
            raise self.explain_error(error) from error

    async def take_lock(self) -> None:
        """Take the lock of the database's one engine; raise `EngineBusy` if another engine has it."""

    async def connect(self) -> None:
        """Connect under the lock, to a database with the newest schema."""

    def busy_error(self) -> EngineBusy:
        """Return the error of a database that another engine uses."""
        return EngineBusy(
            f"{self.address}: another engine is using this database",
            hint="stop that one first, or choose another database",
        )

    async def reopen(self) -> None:
        """Restore the connection after a failure, or raise.

        Raises
        ------
        EngineBusy
            If another engine has taken over.
        """

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return a block whose statements take effect together; they are durable when it ends."""

    async def execute(self, statement: str, *parameters: Any) -> int:
        """Run a statement and return the number of affected rows."""

    async def fetch(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""

    def prepare_rows(self, parts: Sequence[Columns]) -> list[Any]:
        """Return rows in the form that `insert` takes, one of each part in turn. Such lists may be joined."""

    async def insert(self, table: str, columns: Sequence[str], prepared: list[Any]) -> None:
        """Insert prepared rows."""

    async def maintain(self) -> None:
        """Do maintenance after acknowledged commits. Never raises."""

    def is_transient(self, error: Exception) -> bool:
        """Return True if a retry can help: the disk is full, the server is unavailable."""

    def explain_error(self, error: BaseException) -> HybridSchedulerError:
        """Return an error that names the database."""
        return explain_error(self.address, error)

    async def close(self) -> None:
        """Disconnect and release the engine's lock."""


async def write_group(
    store: Store,
    instance: str,
    group: Sequence[PendingBatch],
    longest: dict[str, dict[str, float]],
    heartbeat: str | None,
) -> None:
    """Write batches in one transaction.

    Parameters
    ----------
    store
        The database.
    instance
        Identifies the journal that wrote them.
    group
        The batches in order.
    longest
        Longest latency by run and scheduler; it is updated.
    heartbeat
        The engine's heartbeat, to be written along.
    """
    rows: dict[str, list[Any]] = {table: [] for table in batch_rows.COLUMNS}
    counts = dict.fromkeys(batch_rows.COLUMNS, 0)
    newest_of_run: dict[str, PendingBatch] = {}
    added: Counter[str] = Counter()
    for pending in group:
        if not pending.repeated:
            newest_of_run[pending.batch.run.run_id] = pending
            added[pending.batch.run.run_id] += len(pending.batch)
        for table, parts in batch_rows.table_parts(pending, nan_is_null=store.nan_is_null).items():
            rows[table] += store.prepare_rows(parts)
            counts[table] += sum(len(part[0]) for part in parts)

    async with store.transaction():
        for run_id, pending in newest_of_run.items():
            own = await _longest_of(store, run_id, group, longest)
            await store.execute(_UPSERT_RUN, *batch_rows.run_row(pending.batch.run, pending, added[run_id], own))
        for table, prepared in rows.items():
            if prepared:
                await store.insert(table, batch_rows.COLUMNS[table], prepared)
        counts["scheduler_results"] += await _insert_started(store, group)
        for pending in group:
            for version in pending.batch.versions:
                await store.execute(_UPSERT_VERSION, *map(_plain, astuple(version)))
            for key in pending.batch.idempotency:
                await store.execute(_INSERT_KEY, key.key, key.fingerprint, int(key.task_id), pending.recorded_at)
        for table in COUNTED_TABLES:
            if counts[table]:
                await change_row_count(store, table, counts[table])
        last = group[-1]
        await set_meta(store, "counters", json_text(last.batch.counters._asdict()))
        await set_meta(store, "journal", json_text({"instance": instance, "batch": last.number}))
        if heartbeat is not None:
            await set_heartbeat(store, heartbeat)


async def _longest_of(
    store: Store, run_id: str, group: Sequence[PendingBatch], longest: dict[str, dict[str, float]]
) -> dict[str, float]:
    """Return the longest latency of each scheduler in a run, up to these batches."""
    if run_id not in longest:
        found = await store.fetch("SELECT longest FROM runs WHERE run_id = ?", run_id)
        longest[run_id] = dict(orjson.loads(found[0][0])) if found else {}
    own = longest[run_id]
    for pending in group:
        if pending.batch.run.run_id == run_id:
            for name, latency in batch_rows.longest_latencies(pending.batch).items():
                own[name] = max(latency, own.get(name, 0.0))
    return own


async def _insert_started(store: Store, group: Sequence[PendingBatch]) -> int:
    """Insert the results of tasks that left a common queue, and return their number.

    A task may have been deleted while it waited. Tasks are deleted in the order of their numbers.
    """
    results: list[Any] = []
    count = 0
    oldest: dict[str, int] = {}
    for pending in group:
        batch = pending.batch
        run_id = pending.batch.run.run_id
        if not batch.started:
            continue
        if run_id not in oldest:
            first = "SELECT task_id FROM tasks WHERE run_id = ? ORDER BY ordinal LIMIT 1"
            found = await store.fetch(first, run_id)
            oldest[run_id] = found[0][0] if found else batch.counters.next_task_id
        for part in batch_rows.started_parts(batch, oldest[run_id], nan_is_null=store.nan_is_null):
            if part[0]:
                results += store.prepare_rows([part])
                count += len(part[0])
    if results:
        await store.insert("scheduler_results", batch_rows.COLUMNS["scheduler_results"], results)
    return count


async def without_stored_runs(
    store: Store, group: Sequence[PendingBatch]
) -> tuple[list[PendingBatch], list[PendingBatch]]:
    """Return all batches in a form that can be written, and of these the conflicts.

    A measured run that is stored already keeps only its events (`as_repeated`). A conflict is a measured run with
    the id of another run.

    A client sends a measured run again if it got no response. Its request may have looked for the run before an
    earlier request of its own was stored, even by an earlier engine. Only the writer itself can be sure.
    """
    stored: dict[str, tuple[str, float]] = {}
    checked: list[PendingBatch] = []
    conflicts: list[PendingBatch] = []
    for pending in group:
        run = pending.batch.run
        if run.source != "measured":
            checked.append(pending)
            continue
        if run.run_id not in stored:
            found = await store.fetch("SELECT source, created_at FROM runs WHERE run_id = ?", run.run_id)
            if not found:
                stored[run.run_id] = run.source, run.created_at
                checked.append(pending)
                continue
            stored[run.run_id] = found[0][0], found[0][1]
        checked.append(pending.as_repeated())
        if stored[run.run_id] != (run.source, run.created_at):
            conflicts.append(pending)
    return checked, conflicts


async def set_heartbeat(store: Store, heartbeat: str) -> None:
    """Set the engine's heartbeat, with the time by the database's clock."""
    await set_meta(store, "engine", heartbeat)
    now = f"CAST({store.address.clock_sql} AS TEXT)"
    await store.execute(_UPSERT_META.replace("(?, ?)", f"('engine_beat_at', {now})"))


async def set_meta(store: Store, key: str, value: str | None) -> None:
    """Set an entry of the table `meta`; None removes it."""
    if value is None:
        await store.execute("DELETE FROM meta WHERE key = ?", key)
    else:
        await store.execute(_UPSERT_META, key, value)


async def get_meta(store: Store, key: str) -> str | None:
    """Return an entry of the table `meta`; None without one."""
    found = await store.fetch("SELECT value FROM meta WHERE key = ?", key)
    return str(found[0][0]) if found else None


async def change_row_count(store: Store, table: str, more: int) -> None:
    """Add to the stored number of a table's rows."""
    if await store.execute(_ADD_TO_COUNT, more, f"rows:{table}") == 0:
        await store.execute("INSERT INTO meta (key, value) VALUES (?, ?)", f"rows:{table}", str(more))


async def stored_counters(store: Store) -> Counters:
    """Return the next numbers of tasks, results and events.

    They are compared with the rows, in case a table was restored without its counters.
    """
    value = await get_meta(store, "counters")
    known = Counters(**orjson.loads(value)) if value else Counters()
    largest = [
        (await store.fetch(f"SELECT max({column}) FROM {table}"))[0][0] or 0
        for table, column in (("tasks", "task_id"), ("scheduler_results", "id"), ("events", "seq"))
    ]
    return Counters(*(max(after, number + 1) for after, number in zip(known, largest, strict=True)))


async def last_stored(store: Store, instance: str) -> int:
    """Return the number of this journal's newest stored batch; 0 if there is none."""
    value = await get_meta(store, "journal")
    entry = orjson.loads(value) if value else {}
    return int(entry["batch"]) if entry.get("instance") == instance else 0


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
