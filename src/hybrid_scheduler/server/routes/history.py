"""Routes for stored history: tasks with results, summaries, and events of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from ...experiments.sweep import read_cells, sweep_folders
from ...live.commands import DeleteTasks
from ...storage.device_load import LoadWindow
from ..app_context import RequestContext
from ..errors import not_found
from ..file_exports import Pages, Row, history_pages, result_rows
from ..json_response import StrictJSONResponse, cached_json, dumps
from ..schemas import base_models
from ..schemas.base_models import described
from ..schemas.catalogue import Statistics
from ..schemas.runs import Comparative, DeviceLoadResponse, Sweep, SweepList, Trends
from ..schemas.stream import EventPage
from ..schemas.tasks import Deleted, ResultRow, TaskDetail
from .strict_route import (
    ChosenRun,
    Limit,
    RunQuery,
    SchedulerQuery,
    StrictRoute,
    completed_deletion,
    required,
    stored_run,
)

router = APIRouter(prefix="/api", tags=["history"], route_class=StrictRoute)
sweeps_router = APIRouter(prefix="/api", tags=["sweeps"], route_class=StrictRoute)
events_router = APIRouter(prefix="/api", tags=["events"], route_class=StrictRoute)

#: Tasks with results that one response holds in memory; more are streamed page by page.
MAX_AT_ONCE = 1000


@router.get("/full_history", **described("Tasks with all results, oldest first", list[TaskDetail], 422, 503))
async def get_full_history(
    context: RequestContext,
    limit: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | Literal["all"],
        Query(description="Number of newest tasks, or `all`; more than 1,000 are streamed."),
    ] = 1000,
    run_id: RunQuery = None,
) -> Response:
    """Return tasks with the results of every scheduler."""
    if limit != "all" and limit <= MAX_AT_ONCE:
        return StrictJSONResponse(await context.repository.history(limit, run_id=run_id))
    return _listed(await history_pages(context.repository, run_id, limit), lambda page: page)


def _listed(pages: Pages, rows_of: Callable[[list[Row]], list[Row]]) -> Response:
    """Return a JSON list of the rows of all pages, streamed page by page."""

    async def chunks() -> AsyncIterator[bytes]:
        opening = b"["
        async for page in pages:
            rows = dumps(rows_of(page))[1:-1]
            if rows:
                yield opening + rows
                opening = b","
        yield b"[]" if opening == b"[" else b"]"

    return StreamingResponse(chunks(), media_type="application/json")


_ACCEPTED = {202: {"model": Deleted, "description": "Accepted; the deletion goes on."}}


@router.delete("/history", **described("Delete all tasks and results", Deleted, 503, responses=_ACCEPTED))
async def delete_history(context: RequestContext) -> Response:
    """Delete tasks and results. Runs, notifications and model versions stay, and ids are never reused.

    A long deletion is answered with 202 and its progress. It is completed even if the server restarts.
    """
    deleted = await context.control.run(DeleteTasks())
    context.state.deletions += 1
    context.repository.timelines.clear()
    if deleted is not None:
        return StrictJSONResponse(completed_deletion(deleted))
    progress = await context.repository.deletion()
    if progress is None:  # it has just ended
        return StrictJSONResponse(completed_deletion(0))
    return StrictJSONResponse(progress, 202, headers={"Location": "/api/history/deletion"})


@router.get("/history/deletion", **described("Progress of a deletion of the history", Deleted, 503))
async def get_deletion(context: RequestContext) -> Response:
    """Return how many tasks are to be deleted and are deleted; `done` if no deletion is going on."""
    return StrictJSONResponse(await context.repository.deletion() or completed_deletion(0))


_COMPARED = ("Schedulers side by side over the newest tasks", Comparative | list[ResultRow], 422, 503)


@router.get("/history/comparative", **described(*_COMPARED))
async def get_comparative(
    context: RequestContext,
    limit: Limit = 1000,
    run_id: RunQuery = None,
    format: Annotated[
        Literal["published"] | None, Query(description="`published`: a list with every result of these tasks.")
    ] = None,
) -> Response:
    """Return one row per scheduler over the newest stored tasks: means, sums and quantiles, and pairwise wins.

    Without `run_id` the tasks of all runs count. Failed tasks have no latency. There are no intervals, because
    neighbouring tasks are not independent; the status has intervals by batch means. The list has one row per task
    and scheduler, oldest task first.
    """
    if format is not None:
        pages = await history_pages(context.repository, run_id, limit)
        return _listed(pages, lambda page: list(result_rows(page)))
    compute = partial(context.repository.comparative, limit, run_id=run_id)
    return await cached_json(context, f"comparative:{run_id}:{limit}", compute)


@router.get("/history/trends", **described("Means over the course of a run", Trends, 422, 503))
async def get_trends(
    context: RequestContext,
    run_id: ChosenRun,
    buckets: Annotated[int, Query(ge=1, le=1000, description="Largest number of buckets.")] = 120,
) -> Response:
    """Return means per bucket of tasks; by default of the live run."""

    async def compute() -> dict[str, Any]:
        means = None if run_id is None else await context.repository.trends(run_id, buckets)
        return means or {"run_id": run_id, "sampled": False, "buckets": []}

    return await cached_json(context, f"trends:{run_id}:{buckets}", compute)


#: Values of a cell; others, such as nested ones, are left out.
_CELL = (float, int, str, type(None))
_DIGESTS = ("key", "outcomes")
_Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


@router.get(
    "/history/load", **described("Busy seconds of devices per column of time", DeviceLoadResponse, 404, 422, 503)
)
async def get_device_load(
    context: RequestContext,
    run_id: ChosenRun,
    scheduler: SchedulerQuery = None,
    start: Annotated[_Seconds | None, Query(description="Virtual seconds; the first arrival by default.")] = None,
    end: Annotated[_Seconds | None, Query(description="Virtual seconds; the newest arrival by default.")] = None,
    last: Annotated[
        _Seconds | None, Query(description="Seconds before the newest arrival, instead of `start` and `end`.")
    ] = None,
    ahead: Annotated[_Seconds, Query(description="Seconds after the newest arrival, with `last`.")] = 0.0,
    columns: Annotated[int, Query(ge=1, le=2000, description="Largest number of columns, roughly.")] = 120,
) -> Response:
    """Return the load of every device at any zoom: exact busy seconds per column, and all blocks if they are few.

    Without `run_id` it is the live run. Without `scheduler` all schedulers are returned, without blocks.
    """
    window = LoadWindow(start, end, last, ahead, columns)
    chosen = required(run_id, "run", "live")

    async def compute() -> dict[str, Any]:
        await stored_run(context, chosen)
        return required(await context.repository.device_load(chosen, scheduler, window), "run", chosen)

    return await cached_json(context, f"load:{chosen}:{scheduler}:{window}", compute)


#: Most cells of a sweep in one response.
MAX_CELLS = 10_000


@sweeps_router.get("/sweeps", **described("Stored sweeps, newest first", SweepList, 503))
async def list_sweeps(context: RequestContext) -> Response:
    """Return the sweeps that `hybrid-scheduler sweep` wrote below `data/results`, also those still running."""
    rows = await asyncio.to_thread(sweep_folders, context.options.sweeps)
    sweeps = [{"name": name, "cells": cells, "modified_at": modified_at} for name, cells, modified_at in rows]
    return StrictJSONResponse({"sweeps": sweeps})


@sweeps_router.get("/sweeps/{name}", **described("The cells of a sweep", Sweep, 404, 422, 503))
async def get_sweep(
    context: RequestContext,
    name: Annotated[str, Path(pattern=base_models.TRACE_NAME, description="Name of the sweep's folder.")],
) -> Response:
    """Return parameters and metrics of each finished cell."""
    folder = context.options.sweeps / name
    try:
        rows = await asyncio.to_thread(read_cells, folder, MAX_CELLS + 1)
    except OSError:
        raise not_found("sweep", name) from None
    cells = [
        {key: value for key, value in row.items() if key not in _DIGESTS and isinstance(value, _CELL)}
        for row in rows[:MAX_CELLS]
    ]
    return StrictJSONResponse({"name": name, "cells": cells, "truncated": len(rows) > MAX_CELLS})


@router.get("/statistics", **described("Number of stored rows and size of the database", Statistics, 503))
async def get_statistics(context: RequestContext) -> Response:
    """Return rows per table, bytes in all, and the times of the oldest and newest task."""

    async def compute() -> dict[str, Any]:
        counts = await context.repository.counts()
        return {"database": context.database_kind, "size_bytes": counts.pop("bytes"), **counts}

    return await cached_json(context, "statistics", compute)


@events_router.get("/events", **described("Events after a sequence number", EventPage, 422, 503))
async def list_events(
    context: RequestContext,
    after: Annotated[
        int, Query(ge=0, le=base_models.INT64_MAX, description="Sequence number of the last event you have.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Largest number of rows.")] = 500,
    type: Annotated[
        Literal["simulation_update", "notification", "log"] | None, Query(description="Only this type.")
    ] = None,
) -> Response:
    """Return the messages that `/ws` sent, byte for byte. Old updates and log lines are deleted."""
    page = await context.repository.events_after(after, limit, types=None if type is None else (type,))
    # The payloads are JSON already: they are joined, not parsed and written again.
    head = b'{"events":[' + b",".join(event.content for event in page.events) + b"]"
    truncated = b"true" if len(page.events) == limit else b"false"
    return StrictJSONResponse(
        head + b',"last_seq":%d,"oldest_seq":%d,"truncated":%s}' % (page.last_seq, page.oldest_seq, truncated)
    )
