"""Routes for stored history: tasks with results, summaries, and events of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from ...experiments.sweep import read_cells, sweep_folders
from ...storage.device_load import LoadWindow
from ..app_context import AppContext, RequestContext
from ..errors import not_found
from ..json_response import StrictJSONResponse, cached_json, dumps
from ..schemas import (
    Comparative,
    Deleted,
    DeviceLoadResponse,
    EventPage,
    Statistics,
    Sweep,
    SweepList,
    TaskDetail,
    Trends,
    base_models,
    problems,
)
from .strict_route import (
    Limit,
    RunQuery,
    SchedulerQuery,
    StrictRoute,
    completed_deletion,
    current_run,
    stored_run,
)

router = APIRouter(prefix="/api", tags=["history"], route_class=StrictRoute)
sweeps_router = APIRouter(prefix="/api", tags=["sweeps"], route_class=StrictRoute)
events_router = APIRouter(prefix="/api", tags=["events"], route_class=StrictRoute)

#: Tasks with results that one response holds in memory; more are streamed page by page.
MAX_AT_ONCE = 1000


@router.get(
    "/full_history",
    operation_id="getFullHistory",
    summary="Tasks with all results, oldest first",
    response_model=list[TaskDetail],
    responses=problems(422, 503),
)
async def full_history(
    context: RequestContext,
    limit: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | Literal["all"],
        Query(description="Number of newest tasks, or `all`; more than 1,000 are streamed."),
    ] = 1000,
    run_id: RunQuery = None,
) -> Response:
    """Return tasks with the results of every scheduler."""
    if limit == "all":
        return await _stream_history(context, run_id, None)
    if limit > MAX_AT_ONCE:
        return await _stream_history(context, run_id, limit)
    return StrictJSONResponse(await context.repository.history(limit, run_id=run_id))


async def _stream_history(context: AppContext, run_id: str | None, newest: int | None) -> Response:
    pages = context.repository.iterate_history(run_id=run_id, newest=newest)
    # The first page is read before the status line, so that an unavailable database gives a 503.
    first: list[dict[str, Any]] = await anext(pages, [])

    async def chunks() -> AsyncIterator[bytes]:
        yield b"[" + dumps(first)[1:-1]
        async for page in pages:
            if page:
                yield b"," + dumps(page)[1:-1]
        yield b"]"

    return StreamingResponse(chunks(), media_type="application/json")


@router.delete(
    "/history",
    operation_id="deleteHistory",
    summary="Delete all tasks and results",
    response_model=Deleted,
    responses={202: {"model": Deleted, "description": "Accepted; the deletion goes on."}, **problems(503)},
)
async def delete_history(context: RequestContext) -> Response:
    """Delete tasks and results. Runs, notifications and model versions stay, and ids are never reused.

    A long deletion is answered with 202 and its progress. It is completed even if the server restarts.
    """
    deleted = await context.control.delete_tasks()
    context.state.deletions += 1
    context.repository.timelines.clear()
    if deleted is not None:
        return StrictJSONResponse(completed_deletion(deleted))
    progress = await context.repository.deletion()
    if progress is None:  # it has just ended
        return StrictJSONResponse(completed_deletion(0))
    return StrictJSONResponse(progress, 202, headers={"Location": "/api/history/deletion"})


@router.get(
    "/history/deletion",
    operation_id="getDeletion",
    summary="Progress of a deletion of the history",
    response_model=Deleted,
    responses=problems(503),
)
async def deletion(context: RequestContext) -> Response:
    """Return how many tasks are to be deleted and are deleted; `done` if no deletion is going on."""
    return StrictJSONResponse(await context.repository.deletion() or completed_deletion(0))


@router.get(
    "/history/comparative",
    operation_id="getComparative",
    summary="Schedulers side by side over the newest tasks",
    response_model=Comparative,
    responses=problems(422, 503),
)
async def comparative(context: RequestContext, limit: Limit = 1000, run_id: RunQuery = None) -> Response:
    """Return one row per scheduler over the newest stored tasks: means, sums and quantiles, and pairwise wins.

    Without `run_id` the tasks of all runs count. Failed tasks have no latency. There are no intervals, because
    neighbouring tasks are not independent; the status has intervals by batch means.
    """

    async def compute() -> dict[str, Any]:
        return await context.repository.comparative(limit, run_id=run_id)

    return StrictJSONResponse(await cached_json(context, f"comparative:{run_id}:{limit}", compute))


@router.get(
    "/history/trends",
    operation_id="getTrends",
    summary="Means over the course of a run",
    response_model=Trends,
    responses=problems(422, 503),
)
async def trends(
    context: RequestContext,
    run_id: RunQuery = None,
    buckets: Annotated[int, Query(ge=1, le=1000, description="Largest number of buckets.")] = 120,
) -> Response:
    """Return means per bucket of tasks; by default of the live run."""
    chosen = run_id or await current_run(context)

    async def compute() -> dict[str, Any]:
        found = None if chosen is None else await context.repository.trends(chosen, buckets)
        return found or {"run_id": chosen, "sampled": False, "buckets": []}

    return StrictJSONResponse(await cached_json(context, f"trends:{chosen}:{buckets}", compute))


#: Values of a cell; others, such as nested ones, are left out.
_CELL = (float, int, str, type(None))
_DIGESTS = ("key", "outcomes")
_Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


@router.get(
    "/history/load",
    operation_id="getDeviceLoad",
    summary="Busy seconds of devices per column of time",
    response_model=DeviceLoadResponse,
    responses=problems(404, 422, 503),
)
async def load(
    context: RequestContext,
    run_id: RunQuery = None,
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
    chosen = run_id or await current_run(context)
    window = LoadWindow(start, end, last, ahead, columns)

    async def compute() -> dict[str, Any]:
        known = None if chosen is None else await stored_run(context, chosen)
        found = None if known is None else await context.repository.device_load(known["run_id"], scheduler, window)
        if found is None:
            raise not_found("run", chosen or "live")
        return found

    key = f"load:{chosen}:{scheduler}:{start}:{end}:{last}:{ahead}:{columns}"
    return StrictJSONResponse(await cached_json(context, key, compute))


#: Most cells of a sweep in one response.
MAX_CELLS = 10_000


@sweeps_router.get(
    "/sweeps",
    operation_id="listSweeps",
    summary="Stored sweeps, newest first",
    response_model=SweepList,
    responses=problems(503),
)
async def sweeps(context: RequestContext) -> Response:
    """Return the sweeps that `hybrid-scheduler sweep` wrote below `data/results`, also those still running."""
    rows = await asyncio.to_thread(sweep_folders, context.options.sweeps)
    keys = ("name", "cells", "modified_at")
    return StrictJSONResponse({"sweeps": [dict(zip(keys, row, strict=True)) for row in rows]})


@sweeps_router.get(
    "/sweeps/{name}",
    operation_id="getSweep",
    summary="The cells of a sweep",
    response_model=Sweep,
    responses=problems(404, 422, 503),
)
async def sweep(
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


@router.get(
    "/statistics",
    operation_id="getStatistics",
    summary="Number of stored rows and size of the database",
    response_model=Statistics,
    responses=problems(503),
)
async def statistics(context: RequestContext) -> Response:
    """Return rows per table, bytes in all, and the times of the oldest and newest task."""

    async def compute() -> dict[str, Any]:
        found = await context.repository.counts()
        found["size_bytes"] = found.pop("bytes")
        return {"database": context.database_kind, **found}

    return StrictJSONResponse(await cached_json(context, "statistics", compute))


@events_router.get(
    "/events",
    operation_id="listEvents",
    summary="Events after a sequence number",
    response_model=EventPage,
    responses=problems(422, 503),
)
async def events(
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
    head = b'{"events":[' + b",".join(page.events) + b"]"
    truncated = b"true" if len(page.events) == limit else b"false"
    return StrictJSONResponse(
        head + b',"last_seq":%d,"oldest_seq":%d,"truncated":%s}' % (page.last_seq, page.oldest_seq, truncated)
    )
