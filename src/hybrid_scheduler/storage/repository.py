"""Read access to the database, with the same rows in the same order from SQLite and PostgreSQL.

Rows are dictionaries as the REST interface returns them. Unknown ids give None or no rows. Every error of a driver
is raised as `DatabaseUnavailable`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import orjson
from sqlalchemy import ColumnElement, Select, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from ..core.canonical_json import is_storable
from ..live.journal import LOAD_COLUMN
from . import history_analysis, tables
from .batch_rows import EventPayload
from .batch_transaction import COUNTED_TABLES
from .database import Database
from .device_load import LoadWindow, Timelines, device_load
from .retention import DELETION_KEY, LABELS_KEY

Row = dict[str, Any]
_P = ParamSpec("_P")
_T = TypeVar("_T")
#: Tasks that are read at once with their results; more would keep other requests waiting.
_PAGE = 500

_TASK = tuple(tables.tasks.c.keys())
_VERSION = tuple(name for name in tables.model_versions.c.keys() if name != "id")  # noqa: SIM118

_RESULT = tuple(name for name in tables.scheduler_results.c.keys() if name not in ("id", "task_id", "run_id"))  # noqa: SIM118

tasks = tables.tasks
results = tables.scheduler_results
runs = tables.runs
events = tables.events
meta = tables.meta

_RUN_COLUMNS = tuple(column for column in runs.c if column.name not in ("state", "devices", "longest"))
_RUN = (*("load" if column.name == LOAD_COLUMN else column.name for column in _RUN_COLUMNS), "labels")
_SELECT_RUNS = select(*_RUN_COLUMNS, meta.c.value).outerjoin(
    meta, meta.c.key == literal(LABELS_KEY).concat(runs.c.run_id)
)


class EventsPage(NamedTuple):
    """A page of events as the bytes that clients get."""

    events: list[EventPayload]
    #: From this number on no event is missing; before it, only notifications are stored.
    oldest_seq: int
    #: The newest stored event, 0 if there is none.
    last_seq: int


class ModelHistory(NamedTuple):
    """A page of the versions of one model."""

    #: Versions in ascending order.
    versions: list[Row]
    #: Number of stored versions, which are fewer than were trained once old ones are thinned.
    total: int
    #: The oldest stored version, None if there is none.
    first: Row | None


class Repository:
    """Queries on the stored history. Each method sees one consistent state of the database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.timelines = Timelines()

    async def ping(self) -> None:
        """Check that the database answers."""
        await self.database.ping()

    async def counts(self) -> Row:
        """Return rows per table, bytes in all, and the times of the oldest and newest task."""
        async with self.database.reading() as connection:
            found: Row = {}
            for table in tables.metadata.sorted_tables:
                if table.name in COUNTED_TABLES:
                    found[table.name] = int(await _meta(connection, f"rows:{table.name}") or 0)
                elif table.name not in ("commands", "meta"):
                    found[table.name] = await connection.scalar(select(func.count()).select_from(table))
            if self.database.address.is_sqlite:
                pages = await connection.scalar(text("PRAGMA page_count"))
                size = (pages or 0) * (await connection.scalar(text("PRAGMA page_size")) or 0)
            else:
                size = await connection.scalar(text("SELECT pg_database_size(current_database())"))
            ends = [
                await connection.scalar(select(tasks.c.recorded_at).order_by(order).limit(1))
                for order in (tasks.c.task_id, tasks.c.task_id.desc())
            ]
        return {"rows": found, "bytes": size, "first_recorded_at": ends[0], "last_recorded_at": ends[1]}

    async def deletion(self) -> Row | None:
        """Return the progress of a deletion of the history; None if none is going on."""
        async with self.database.reading() as connection:
            value = await _meta(connection, DELETION_KEY)
        if value is None:
            return None
        found = orjson.loads(value)
        return {"deleted_tasks": found["deleted_tasks"], "tasks": found["tasks"], "done": False}

    # ---------------------------------------------------------------- runs

    async def runs(self, limit: int, before: str | None = None) -> list[Row]:
        """Return runs, newest first; `before` is the last run_id of the previous page."""
        query = _SELECT_RUNS.order_by(runs.c.run_id.desc()).limit(limit)
        if before is not None:
            if _is_unstorable(before):
                return []
            query = query.where(runs.c.run_id < before)
        return [_with_labels(row) for row in await self._rows(query, _RUN)]

    async def run(self, run_id: str) -> Row | None:
        """Return a run, or None."""
        found = await self._row(_SELECT_RUNS, _RUN, runs.c.run_id, run_id)
        return None if found is None else _with_labels(found)

    async def run_state(self, run_id: str) -> Row | None:
        """Return the run's last checkpoint, or None."""
        found = await self._row(select(runs.c.state), ("state",), runs.c.run_id, run_id)
        if found is None or found["state"] is None:
            return None
        state: Row = json.loads(found["state"])  # which keeps integers of any length
        return state

    # ---------------------------------------------------------------- tasks

    async def history(self, limit: int, run_id: str | None = None) -> list[Row]:
        """Return the newest tasks with every scheduler's result, oldest first."""
        rows = await self._ask(_some_tasks, run_id, True, limit, with_results=True)
        return (rows or [])[::-1]

    async def iterate_history(
        self, run_id: str | None = None, page: int = _PAGE, newest: int | None = None
    ) -> AsyncIterator[list[Row]]:
        """Yield all tasks that are stored now, with results, oldest first and page by page.

        Tasks that are stored meanwhile are left out: a fast engine would add them as fast as they are read.

        Parameters
        ----------
        run_id
            Only this run; None for all.
        page
            Tasks of a page.
        newest
            Number of newest tasks; None for all.

        Yields
        ------
        list of dict
            A page of tasks.
        """
        after: int | None = None
        last: int | None = None
        while not _is_unstorable(run_id):
            async with self.database.reading() as connection:
                if last is None:
                    last = await connection.scalar(select(func.max(tasks.c.task_id))) or 0
                    after = None if newest is None else await _before_newest(connection, run_id, newest)
                found = await _some_tasks(
                    connection, run_id, False, page, after=after, last=last, with_results=True
                )
            if found:
                yield found
                after = found[-1]["task_id"]
            if len(found) < page:
                return

    async def tasks(
        self, limit: int, before: int | None = None, run_id: str | None = None, external_id: str | None = None
    ) -> list[Row]:
        """Return tasks without results, newest first; `before` is the last task_id of the previous page."""
        rows = await self._ask(_some_tasks, run_id, True, limit, external_id, before=before)
        return rows or []

    async def task(self, task_id: int) -> Row | None:
        """Return one task with its results and its isolated optimum, or None."""
        if not -(2**63) <= task_id < 2**63:
            return None
        async with self.database.reading() as connection:
            query = select(*(tasks.c[name] for name in _TASK)).where(tasks.c.task_id == task_id)
            rows = _dicts(await connection.execute(query), _TASK)
            return (await _with_results(connection, rows))[0] if rows else None

    async def results(
        self, run_id: str, scheduler: str | None = None, after_task: int | None = None, limit: int = 1000
    ) -> list[Row]:
        """Return results in the order of tasks. A page ends with a complete task.

        Parameters
        ----------
        run_id
            The run.
        scheduler
            Only this scheduler; None for all.
        after_task
            The last task_id of the previous page.
        limit
            Largest number of rows, unless one task has more.

        Returns
        -------
        list of dict
            The rows.
        """
        return await self._ask(_results, run_id, scheduler, after_task, limit) or []

    # ---------------------------------------------------------------- analysis

    async def comparative(self, limit: int = 1000, run_id: str | None = None) -> Row:
        """Return means, sums, quantiles of latency and pairwise wins over the newest (at most 10,000) tasks."""
        if _is_unstorable(run_id):
            run_id = ""
        limit = min(limit, history_analysis.MAX_COMPARED_TASKS)
        async with self.database.reading() as connection:
            newest = await _some_tasks(connection, run_id, True, limit, columns=("task_id",))
            return await history_analysis.comparative(connection, [row["task_id"] for row in newest][::-1], run_id)

    async def trends(self, run_id: str, buckets: int = 120) -> Row | None:
        """Return means per bucket of the run's tasks; None for an unknown run."""
        known = await self.run(run_id) is not None
        return await self._ask(history_analysis.trends, run_id, buckets) if known else None

    async def learning(self, run_id: str, scheduler: str) -> Row | None:
        """Return accuracy and results of a learned scheduler by model version and kind; None for an unknown run."""
        known = await self.run(run_id) is not None
        return await self._ask(history_analysis.learning, run_id, scheduler) if known else None

    async def gantt(
        self,
        run_id: str,
        scheduler: str,
        start: float | None = None,
        end: float | None = None,
        limit: int = 50_000,
    ) -> Row | None:
        """Return the busy intervals of devices as columns; None for an unknown run."""
        return await self._ask(history_analysis.gantt, run_id, scheduler, start, end, limit)

    async def device_load(self, run_id: str, scheduler: str | None, window: LoadWindow) -> Row | None:
        """Return busy seconds of devices in columns of time, exact at every zoom; None for an unknown run."""
        return await self._ask(device_load, self.timelines, run_id, scheduler, window)

    async def models(
        self, run_id: str, schedulers: Iterable[str], limit: int, before: int | None = None
    ) -> dict[str, ModelHistory]:
        """Return the newest versions of learned models, by scheduler.

        Parameters
        ----------
        run_id
            The run.
        schedulers
            Names of the schedulers.
        limit
            Largest number of versions of each.
        before
            The lowest version of the previous page; None for the newest page.

        Returns
        -------
        dict
            The page of each scheduler.
        """
        table = tables.model_versions
        columns = [table.c[name] for name in _VERSION]
        found = {}
        async with self.database.reading() as connection:
            for name in schedulers:
                if _is_unstorable(run_id) or _is_unstorable(name):
                    found[name] = ModelHistory([], 0, None)
                    continue
                own = (table.c.run_id == run_id, table.c.scheduler_name == name)
                total = await connection.scalar(select(func.count()).select_from(table).where(*own))
                oldest = select(*columns).where(*own).order_by(table.c.version).limit(1)
                page = select(*columns).where(*own).order_by(table.c.version.desc()).limit(limit)
                if before is not None:
                    page = page.where(table.c.version < before)
                found[name] = ModelHistory(
                    _dicts(await connection.execute(page), _VERSION)[::-1],
                    total or 0,
                    next(iter(_dicts(await connection.execute(oldest), _VERSION)), None),
                )
        return found

    # ---------------------------------------------------------------- stream and engine

    async def events_after(self, seq: int, limit: int = 500, types: Iterable[str] | None = None) -> EventsPage:
        """Return the next events after a sequence number, oldest first."""
        query = select(events.c.seq, events.c.payload).where(events.c.seq > _bounded(seq)).order_by(events.c.seq)
        if types is not None:
            query = query.where(events.c.type.in_(sorted(types)))
        async with self.database.reading() as connection:
            found = [EventPayload(row[0], row[1].encode()) for row in await connection.execute(query.limit(limit))]
            last = await connection.scalar(select(func.max(events.c.seq)))
            pruned = await _meta(connection, "pruned_seq")
        return EventsPage(found, int(pruned or 0) + 1, last or 0)

    async def idempotency_record(self, key: str) -> tuple[str, int] | None:
        """Return the digest of the request with this key and the task it created, or None."""
        table = tables.idempotency_keys
        found = await self._row(
            select(table.c.fingerprint, table.c.task_id), ("fingerprint", "task_id"), table.c.key, key
        )
        return None if found is None else (found["fingerprint"], found["task_id"])

    async def engine_heartbeat(self) -> Row | None:
        """Return the engine's last heartbeat with instance, status and its age in seconds, or None.

        The age is by the database's clock, because the clocks of two machines may differ.
        """
        now = self.database.address.clock_sql
        age = text(f"SELECT {now} - CAST(value AS DOUBLE PRECISION) FROM meta WHERE key = 'engine_beat_at'")
        async with self.database.reading() as connection:
            value = await _meta(connection, "engine")
            seconds = await connection.scalar(age)
        if value is None or seconds is None:
            return None
        return {**orjson.loads(value), "age": max(0.0, seconds)}

    # ---------------------------------------------------------------- helpers

    async def _ask(
        self,
        query: Callable[Concatenate[AsyncConnection, _P], Awaitable[_T]],
        *values: _P.args,
        **options: _P.kwargs,
    ) -> _T | None:
        """Return what a query finds; None if a value is text that no row can contain and PostgreSQL refuses."""
        if any(isinstance(value, str) and _is_unstorable(value) for value in values):
            return None
        async with self.database.reading() as connection:
            return await query(connection, *values, **options)

    async def _rows(self, query: Select[Any], names: Sequence[str]) -> list[Row]:
        async with self.database.reading() as connection:
            return _dicts(await connection.execute(query), names)

    async def _row(
        self, query: Select[Any], names: Sequence[str], key: ColumnElement[Any], value: str
    ) -> Row | None:
        if _is_unstorable(value):
            return None
        found = await self._rows(query.where(key == value), names)
        return found[0] if found else None


async def _some_tasks(
    connection: AsyncConnection, run_id: str | None, newest: bool, limit: int, external_id: str | None = None, *,
    before: int | None = None, after: int | None = None, last: int | None = None,
    columns: Sequence[str] = _TASK, with_results: bool = False,
) -> list[Row]:  # fmt: skip
    query = select(*(tasks.c[name] for name in columns))
    paged = before is not None or after is not None
    first = -(2**62) if after is None else _bounded(after) + 1
    final = 2**62 if last is None else last
    if before is not None:
        final = min(final, _bounded(before) - 1)
    if run_id is not None:
        # A page begins at an id, so it is read in the order of ids. The expression keeps SQLite from taking the
        # index on runs instead, and sorting all tasks of the run.
        query = query.where((tasks.c.run_id.concat("") if paged else tasks.c.run_id) == run_id)
    if external_id is not None:
        query = query.where(tasks.c.external_id == external_id)
    if run_id is not None and paged:
        span = await history_analysis.task_range(connection, run_id)
        if span is None:
            return []
        first = max(first, span[0])
        final = min(final, span[1])  # does not scan the tasks of other runs
    if paged or last is not None:
        # One condition for each end: of two, SQLite may search by the one that leaves more rows.
        query = query.where(tasks.c.task_id.between(first, final))
    # Within a run ordinals have the order of ids, and there is an index on them.
    in_run = run_id is not None and external_id is None and not paged
    order = tasks.c.ordinal if in_run else tasks.c.task_id
    query = query.order_by(order.desc() if newest else order).limit(limit)
    rows = _dicts(await connection.execute(query), columns)
    return await _with_results(connection, rows) if with_results else rows


async def _results(
    connection: AsyncConnection, run_id: str, scheduler: str | None, after_task: int | None, limit: int
) -> list[Row]:
    span = await history_analysis.task_range(connection, run_id)
    if span is None:
        return []
    first = span[0] if after_task is None else max(span[0], _bounded(after_task) + 1)
    conditions = [results.c.task_id >= first, results.c.task_id <= span[1], results.c.run_id == run_id]
    if scheduler is not None:
        conditions.append(results.c.scheduler_name == scheduler)
    rows = await _result_rows(connection, conditions, limit)
    if scheduler is None and len(rows) == limit:
        last = rows[-1]["task_id"]
        # If one task has more results than the page holds, all are returned.
        rows = [row for row in rows if row["task_id"] != last] or await _result_rows(
            connection, [results.c.task_id == last], 10_000
        )
    return rows


async def _result_rows(
    connection: AsyncConnection, conditions: Sequence[ColumnElement[bool]], limit: int | None = None
) -> list[Row]:
    """Return results in the order of tasks, with the time they waited; None for those of tasks that failed."""
    names = ("task_id", "run_id", *_RESULT)
    query = select(*(results.c[name] for name in names)).where(*conditions)
    query = query.order_by(results.c.task_id, results.c.id).limit(limit)
    rows = _dicts(await connection.execute(query), names)
    for row in rows:
        latency = row["latency"]
        time = row["actual_time"]
        row["wait"] = None if latency is None or time is None else latency - time
    return rows


async def _before_newest(connection: AsyncConnection, run_id: str | None, newest: int) -> int | None:
    """Return the id before the oldest of the newest tasks; None if there are not more of them."""
    ids = select(tasks.c.task_id).offset(newest - 1).limit(1)
    if run_id is None:
        ids = ids.order_by(tasks.c.task_id.desc())
    else:
        ids = ids.where(tasks.c.run_id == run_id).order_by(tasks.c.ordinal.desc())
    first = await connection.scalar(ids)
    return None if first is None else first - 1


async def _with_results(connection: AsyncConnection, rows: list[Row]) -> list[Row]:
    """Add the results and the isolated optimum to tasks."""
    if not rows:
        return rows
    by_id = {row["task_id"]: row for row in rows}
    for row in rows:
        row |= {"results": {}, "optimal_gpu_fraction": None, "optimal_time": None}
    span = (min(by_id), max(by_id))
    for result in await _result_rows(connection, [results.c.task_id.between(*span)]):
        del result["run_id"]
        if (task := by_id.get(result.pop("task_id"))) is not None:
            task["results"][result["scheduler_name"]] = result
    best = tables.training_data
    optimum = select(best.c.task_id, best.c.optimal_gpu_fraction, best.c.optimal_time)
    for task_id, fraction, seconds in await connection.execute(optimum.where(best.c.task_id.between(*span))):
        if (task := by_id.get(task_id)) is not None:
            task["optimal_gpu_fraction"] = fraction
            task["optimal_time"] = seconds
    return rows


async def _meta(connection: AsyncConnection, key: str) -> str | None:
    value: str | None = await connection.scalar(select(meta.c.value).where(meta.c.key == key))
    return value


def _with_labels(row: Row) -> Row:
    """Return a run with name, tags and note instead of the text that holds them."""
    text = row.pop("labels")
    return row | (orjson.loads(text) if text else {"name": "", "tags": [], "note": ""})


def _dicts(found: Iterable[Any], names: Sequence[str]) -> list[Row]:
    return [dict(zip(names, row, strict=True)) for row in found]


def _bounded(number: int) -> int:
    """Return a number that drivers accept, which have 64 bits; no row is beyond these limits."""
    return min(max(number, -(2**62)), 2**62)


def _is_unstorable(value: str | None) -> bool:
    """Return True for text that no row can contain and that PostgreSQL refuses in a query."""
    return value is not None and not is_storable(value)
