"""Integrity check of a database: schema, SQLite's check of the file, and consistency of rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import NamedTuple

import orjson
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ..live.journal import unstorable_text
from .batch_transaction import COUNTED_TABLES
from .database import DatabaseAddress, DatabaseUnusable
from .recovery import waiting_tasks
from .schema_version import newest_revision, revision_of, with_connection
from .tables import metadata


class Finding(NamedTuple):
    """Result of one check."""

    name: str
    ok: bool
    detail: str


def _orphans(table: str, parent: str, key: str) -> str:
    return (
        f"SELECT count(*) FROM {table} AS child "
        f"WHERE NOT EXISTS (SELECT 1 FROM {parent} AS parent WHERE parent.{key} = child.{key})"
    )


def _repeated(table: str, key: str) -> str:
    return f"SELECT count(*) FROM (SELECT 1 FROM {table} GROUP BY {key} HAVING count(*) > 1) AS twice"


#: Name of the check, query that counts invalid rows, and their description.
_INVALID_ROWS = (
    ("results", _orphans("scheduler_results", "tasks", "task_id"), "results without their task"),
    ("training data", _orphans("training_data", "tasks", "task_id"), "rows without their task"),
    ("tasks", _orphans("tasks", "runs", "run_id"), "tasks without their run"),
    ("pairs", _repeated("scheduler_results", "task_id, scheduler_name"), "tasks with two results of one scheduler"),
    ("events", _repeated("events", "seq"), "sequence numbers used twice"),
    (
        "magnitudes",
        "SELECT count(*) FROM scheduler_results WHERE "
        + " OR ".join(f"{column} > 1e15" for column in ("finish_time", "latency", "cpu_time", "gpu_time"))
        + " OR (gpu_time > 0 AND gpu_time < 1e-12) OR (cpu_time > 0 AND cpu_time < 1e-12)",
        "results with times below 1e-12 s or above 1e15 s",
    ),
)
#: Rows of another program among the tasks: name of the check, query for their ids, and their description.
_FOREIGN_TASKS = (
    (
        "values of tasks",
        "SELECT task_id FROM tasks WHERE size IS NULL OR size <= 0 OR compute_intensity IS NULL "
        "OR compute_intensity < 0 OR compute_intensity > 1 OR memory_required IS NULL OR memory_required < 0 "
        "OR arrival_time IS NULL OR arrival_time < 0 ORDER BY task_id",
        "tasks with values that no task can have",
    ),
    (
        "tasks without results",
        "SELECT task_id FROM tasks t WHERE NOT EXISTS "
        "(SELECT 1 FROM scheduler_results r WHERE r.task_id = t.task_id) ORDER BY task_id",
        "tasks without a result",
    ),
)
#: JSON columns of runs, which clients can fill. The checkpoint has integers that `orjson` refuses.
_DOCUMENTS = ("schedulers", "config", "devices", "longest", "state")
_COUNTERS = (
    ("next_task_id", "tasks", "task_id"),
    ("next_result_id", "scheduler_results", "id"),
    ("next_seq", "events", "seq"),
)


def verify(address: DatabaseAddress) -> list[Finding]:
    """Check a database; nothing is changed.

    Parameters
    ----------
    address
        The database to read.

    Returns
    -------
    list of Finding
        One entry per check.

    Raises
    ------
    DatabaseUnavailable, DatabaseUnusable
        If the database cannot be read.
    """

    def check(connection: sa.Connection) -> list[Finding]:
        revision = revision_of(connection, address)
        if revision is None:
            raise DatabaseUnusable(f"{address}: is empty", hint="run hybrid-scheduler db init")
        current = revision == newest_revision()
        detail = f"version {revision}" + ("" if current else f", the newest is {newest_revision()}: db upgrade")
        findings = [Finding("schema", current, detail)]
        if current:
            findings.append(_check_schema(connection))
        if address.is_sqlite:
            findings.append(_check_file(connection))
        return [*findings, *_check_rows(connection)]

    return with_connection(address, check, read_only=True)


def _check_schema(connection: sa.Connection) -> Finding:
    def is_own_table(name: str | None, kind: str, parents: object) -> bool:
        return kind != "table" or name in metadata.tables

    context = MigrationContext.configure(connection, opts={"include_name": is_own_table, "compare_type": True})
    differences = compare_metadata(context, metadata)
    detail = "as expected" if not differences else "; ".join(map(_describe, differences[:5]))
    return Finding("tables", not differences, detail)


def _describe(difference: object) -> str:
    """Return a text such as "remove_table tasks" for Alembic's tuples, which nest where a column differs."""
    while isinstance(difference, list) and difference:
        difference = difference[0]
    parts = difference if isinstance(difference, tuple) else (difference,)
    return " ".join(str(getattr(part, "name", part)) for part in parts if part is not None)


def _check_file(connection: sa.Connection) -> Finding:
    rows = [str(row[0]) for row in connection.execute(sa.text("PRAGMA integrity_check(10)"))]
    return Finding("file", rows == ["ok"], "sound" if rows == ["ok"] else "; ".join(rows))


def _check_documents(connection: sa.Connection) -> Finding:
    columns = ", ".join(f"CAST({column} AS TEXT)" for column in _DOCUMENTS)
    unreadable = []
    for run_id, platform, *texts in connection.execute(sa.text(f"SELECT run_id, platform, {columns} FROM runs")):
        try:
            documents = [json.loads(text or "null") for text in texts]
            orjson.dumps(documents[:-1])
            sound = unstorable_text([platform, *documents]) is None
        except (ValueError, TypeError, RecursionError):
            sound = False
        if not sound:
            unreadable.append(str(run_id))
    found = f"{len(unreadable)} runs with values that cannot be shown, such as {', '.join(unreadable[:3])}"
    return Finding("runs", not unreadable, found if unreadable else "every value can be shown")


def _check_devices(connection: sa.Connection) -> Finding:
    devices = {
        run_id: orjson.loads(text)
        for run_id, text in connection.execute(sa.text("SELECT run_id, CAST(devices AS TEXT) FROM runs"))
    }
    query = "SELECT run_id, device, min(task_id) FROM scheduler_results GROUP BY run_id, device ORDER BY 3"
    unknown = [
        f"{device} of task {task_id}"
        for run_id, device, task_id in connection.execute(sa.text(query))
        if device not in devices.get(run_id, ())
    ]
    found = f"unknown devices in results, such as {', '.join(unknown[:3])}"
    return Finding("devices", not unknown, found if unknown else "every device is one of its run")


def _check_rows(connection: sa.Connection) -> Iterator[Finding]:
    yield _check_documents(connection)
    for name, query, description in _INVALID_ROWS:
        found = connection.execute(sa.text(query)).scalar() or 0
        yield Finding(name, not found, f"{found} {description}" if found else f"no {description}")
    states = connection.execute(sa.text("SELECT state FROM runs WHERE status <> 'stopped' AND state IS NOT NULL"))
    waiting: set[int] = set()
    for (state,) in states:
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # reported as a document
            waiting |= waiting_tasks(json.loads(state))
    for name, query, description in _FOREIGN_TASKS:
        ids = [str(row[0]) for row in connection.execute(sa.text(query)) if row[0] not in waiting]
        some = f"{len(ids)} {description}, such as {', '.join(ids[:3])}"
        yield Finding(name, not ids, some if ids else f"no {description}")
    yield _check_devices(connection)
    texts = {str(row[0]): str(row[1]) for row in connection.execute(sa.text("SELECT key, value FROM meta"))}
    counters = orjson.loads(texts.get("counters", "{}"))
    behind = []
    for counter, table, column in _COUNTERS:
        largest = connection.execute(sa.text(f"SELECT max({column}) FROM {table}")).scalar() or 0
        if counters.get(counter, 1) <= largest:
            behind.append(f"{counter} is {counters.get(counter, 1)}, but {largest} is in use")
    yield Finding("counters", not behind, "; ".join(behind) or "beyond every id in use")
    wrong = []
    for table in COUNTED_TABLES:
        counted = connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar() or 0
        if int(texts.get(f"rows:{table}", 0)) != counted:
            wrong.append(f"{table} has {counted} rows, but the stored count is {texts.get(f'rows:{table}', 0)}")
    yield Finding("row counts", not wrong, "; ".join(wrong) or "equal to the stored counts")
