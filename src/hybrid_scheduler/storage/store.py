"""What the writer needs of a database, and the transaction it makes of a group of batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import orjson

from ..core import HybridSchedulerError
from ..live.batch_records import Counters
from . import batch_rows
from .batch_rows import Columns, PendingBatch, json_text

#: Newest events of these types that stay; notifications stay all.
EVENTS_KEPT = 4000
FLEETING = ("simulation_update", "log")
#: Looking for old events is worth it once so many new ones have come.
PRUNE_EVERY = 250

COUNTED = ("tasks", "scheduler_results", "training_data")

_UPSERT_META = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_COUNT = "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + ? AS TEXT) WHERE key = ?"
_UPSERT_RUN = (
    f"INSERT INTO runs ({', '.join(batch_rows.RUN_COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(batch_rows.RUN_COLUMNS))}) "
    "ON CONFLICT (run_id) DO UPDATE SET ended_at = excluded.ended_at, status = excluded.status, "
    "scenario = excluded.scenario, utilisation = excluded.utilisation, schedulers = excluded.schedulers, "
    "config = excluded.config, config_hash = excluded.config_hash, tasks = runs.tasks + excluded.tasks, "
    "state = excluded.state, devices = excluded.devices, longest = excluded.longest"
)
_UPSERT_VERSION = (
    "INSERT INTO model_versions "
    "(run_id, scheduler_name, version, samples, r2, trigger, at_task, created_at, seconds) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, scheduler_name, version) DO UPDATE SET "
    "samples = excluded.samples, r2 = excluded.r2, trigger = excluded.trigger, at_task = excluded.at_task, "
    "created_at = excluded.created_at, seconds = excluded.seconds"
)
_INSERT_KEY = (
    "INSERT INTO idempotency_keys (key, fingerprint, task_id, created_at) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (key) DO NOTHING"
)


class Store(Protocol):
    """One connection that writes, in one thread. Statements use ``?`` for parameters."""

    #: The database stores NaN as NULL by itself.
    nan_is_null: bool

    @property
    def alive(self) -> bool:
        """False if the connection is known to be gone."""

    async def open(self) -> None:
        """Connect, become the only engine, bring the schema up to date. Raises `EngineBusy` and others."""

    async def reopen(self) -> None:
        """After a failure: a connection that works again, or an exception. Raises `EngineBusy`."""

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """All or nothing; durable when it ends."""

    async def execute(self, statement: str, *parameters: Any) -> int:
        """Returns how many rows it touched."""

    async def fetch(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]: ...

    def prepared(self, parts: Sequence[Columns]) -> list[Any]:
        """Rows in the form that `insert` takes, one of each part in turn. Lists of them may be joined."""

    async def insert(self, table: str, columns: Sequence[str], prepared: list[Any]) -> None: ...

    async def tidy(self) -> None:
        """Called after commits that have been acknowledged. Never fails."""

    def is_passing(self, error: Exception) -> bool:
        """True where trying again can help: the disk is full, the server is away."""

    def explained(self, error: Exception) -> HybridSchedulerError: ...

    async def close(self) -> None:
        """Let another engine in."""


async def write_group(
    store: Store,
    instance: str,
    group: Sequence[PendingBatch],
    longest: dict[str, dict[str, float]],
    beat: str | None,
) -> None:
    """Everything of these batches in one transaction. `longest` is what is known of each run; it is updated."""
    last = group[-1]
    tasks: list[Any] = []
    results: list[Any] = []
    training: list[Any] = []
    events: list[Any] = []
    counts = dict.fromkeys(COUNTED, 0)
    newest_of_run: dict[str, PendingBatch] = {}
    added: dict[str, int] = {}
    for pending in group:
        batch = pending.batch
        run_id = batch.run.run_id
        newest_of_run[run_id] = pending
        added[run_id] = added.get(run_id, 0) + len(batch)
        if batch.tasks is not None:
            tasks += store.prepared([batch_rows.task_columns(pending)])
            counts["tasks"] += len(batch)
            if batch.results:
                results += store.prepared(batch_rows.result_parts(batch, nan_is_null=store.nan_is_null))
                counts["scheduler_results"] += pending.rows
            if batch.optimal_fraction is not None:
                training += store.prepared([batch_rows.training_columns(batch, nan_is_null=store.nan_is_null)])
                counts["training_data"] += len(batch)
        if batch.events:
            events += store.prepared([batch_rows.event_columns(pending)])

    async with store.transaction():
        for run_id, pending in newest_of_run.items():
            if run_id not in longest:
                longest[run_id] = await _longest_of(store, run_id)
            for each in group:
                if each.batch.run.run_id == run_id:
                    _raise_to(longest[run_id], batch_rows.longest_latencies(each.batch))
            row = batch_rows.run_row(pending.batch.run, pending, added[run_id], longest[run_id])
            await store.execute(_UPSERT_RUN, *row)
        for table, columns, prepared in (
            ("tasks", batch_rows.TASK_COLUMNS, tasks),
            ("scheduler_results", batch_rows.RESULT_COLUMNS, results),
            ("training_data", batch_rows.TRAINING_COLUMNS, training),
            ("events", batch_rows.EVENT_COLUMNS, events),
        ):
            if prepared:
                await store.insert(table, columns, prepared)
        for pending in group:
            for v in pending.batch.versions:
                await store.execute(
                    _UPSERT_VERSION, v.run_id, v.scheduler_name, int(v.version), int(v.samples), v.r2, v.trigger,
                    int(v.at_task), v.created_at, v.seconds,
                )  # fmt: skip
            for key in pending.batch.idempotency:
                await store.execute(_INSERT_KEY, key.key, key.fingerprint, int(key.task_id), pending.recorded_at)
        for name, more in counts.items():
            if more:
                await count(store, name, more)
        await set_meta(store, "counters", json_text(last.batch.counters._asdict()))
        await set_meta(store, "journal", json_text({"instance": instance, "batch": last.number}))
        if beat is not None:
            await set_meta(store, "engine", beat)


async def set_meta(store: Store, key: str, value: str) -> None:
    await store.execute(_UPSERT_META, key, value)


async def count(store: Store, table: str, more: int) -> None:
    """Keep the number of a table's rows: counting ten million of them takes seconds."""
    if await store.execute(_COUNT, more, f"rows:{table}") == 0:
        await store.execute("INSERT INTO meta (key, value) VALUES (?, ?)", f"rows:{table}", str(more))


async def prune_events(store: Store) -> None:
    """Drop old updates and log lines, and remember up to where the stream has holes."""
    found = await store.fetch(
        "SELECT seq FROM events WHERE type IN (?, ?) ORDER BY seq DESC LIMIT 1 OFFSET ?", *FLEETING, EVENTS_KEPT
    )
    if not found:
        return
    (last,) = found[0]
    async with store.transaction():
        await store.execute("DELETE FROM events WHERE seq <= ? AND type IN (?, ?)", last, *FLEETING)
        await set_meta(store, "pruned_seq", str(last))


async def delete_tasks(store: Store, upto: int, most: int) -> bool:
    """Delete the oldest tasks up to this id, at most about so many; False when there are none left."""
    ((lowest,),) = await store.fetch("SELECT min(task_id) FROM tasks WHERE task_id <= ?", upto)
    if lowest is None:
        return False
    highest = min(upto, lowest + most - 1)
    async with store.transaction():
        for table in ("idempotency_keys", "training_data", "scheduler_results", "tasks"):
            gone = await store.execute(f"DELETE FROM {table} WHERE task_id >= ? AND task_id <= ?", lowest, highest)
            if gone and table in COUNTED:
                await count(store, table, -gone)
    return True


async def stored_counters(store: Store) -> Counters:
    """The next numbers. A look at the rows themselves guards against a table restored without its counters."""
    ((value,),) = await store.fetch("SELECT max(value) FROM meta WHERE key = 'counters'")
    known = Counters(**orjson.loads(value)) if value else Counters()
    ((task,),) = await store.fetch("SELECT max(task_id) FROM tasks")
    ((result,),) = await store.fetch("SELECT max(id) FROM scheduler_results")
    ((seq,),) = await store.fetch("SELECT max(seq) FROM events")
    return Counters(
        max(known.next_task_id, (task or 0) + 1),
        max(known.next_result_id, (result or 0) + 1),
        max(known.next_seq, (seq or 0) + 1),
    )


async def last_stored(store: Store, instance: str) -> int:
    """Number of this journal's newest batch in the database; 0 if there is none."""
    found = await store.fetch("SELECT value FROM meta WHERE key = 'journal'")
    if not found:
        return 0
    mark = orjson.loads(found[0][0])
    return int(mark["batch"]) if mark["instance"] == instance else 0


async def _longest_of(store: Store, run_id: str) -> dict[str, float]:
    found = await store.fetch("SELECT longest FROM runs WHERE run_id = ?", run_id)
    return dict(orjson.loads(found[0][0])) if found else {}


def _raise_to(known: dict[str, float], new: dict[str, float]) -> None:
    for name, value in new.items():
        known[name] = max(value, known.get(name, 0.0))
