"""Everything that was stored, whole or summarised."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from ..app_context import AppContext, PartsHere
from ..json_response import StrictJSONResponse, dumps
from ..response_cache import cached
from ..schemas import Comparative, Deleted, Statistics, TaskDetail, Trends, problems
from .strict_route import Limit, RunQuery, StrictRoute, newest_run

router = APIRouter(prefix="/api", tags=["history"], route_class=StrictRoute)


@router.get(
    "/full_history",
    operation_id="getFullHistory",
    summary="Tasks with all results, oldest first",
    response_model=list[TaskDetail],
    responses=problems(422, 503),
)
async def full_history(
    parts: PartsHere,
    limit: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | Literal["all"],
        Query(description="The newest so many, or `all`, which streams."),
    ] = 1000,
    run_id: RunQuery = None,
) -> Response:
    if limit == "all":
        return await _everything(parts, run_id)
    return StrictJSONResponse(await parts.repository.history(limit, run_id=run_id))


async def _everything(parts: AppContext, run_id: str | None) -> Response:
    pages = parts.repository.iterate_history(run_id=run_id)
    # The first page comes before the status line: a database that is away is a 503, not a broken 200.
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
    responses=problems(503),
)
async def delete_history(parts: PartsHere) -> Response:
    """Runs, notifications and model versions stay, and no id is ever used again."""
    deleted = await parts.control.forget()
    parts.tally.deletions += 1
    return StrictJSONResponse({"deleted_tasks": deleted})


@router.get(
    "/history/comparative",
    operation_id="getComparative",
    summary="Schedulers side by side over the newest tasks",
    response_model=Comparative,
    responses=problems(422, 503),
)
async def comparative(parts: PartsHere, limit: Limit = 1000, run_id: RunQuery = None) -> Response:
    async def fresh() -> dict[str, Any]:
        return await parts.repository.comparative(limit, run_id=run_id)

    return StrictJSONResponse(await cached(parts, f"comparative:{run_id}:{limit}", fresh))


@router.get(
    "/history/trends",
    operation_id="getTrends",
    summary="The course of a run",
    response_model=Trends,
    responses=problems(422, 503),
)
async def trends(
    parts: PartsHere,
    run_id: RunQuery = None,
    buckets: Annotated[int, Query(ge=1, le=1000, description="At most so many pieces.")] = 120,
) -> Response:
    """Without a run: the live one."""

    chosen = run_id or await newest_run(parts)

    async def fresh() -> dict[str, Any]:
        found = None if chosen is None else await parts.repository.trends(chosen, buckets)
        return found or {"run_id": chosen, "sampled": False, "buckets": []}

    return StrictJSONResponse(await cached(parts, f"trends:{chosen}:{buckets}", fresh))


@router.get(
    "/statistics",
    operation_id="getStatistics",
    summary="How much is stored",
    response_model=Statistics,
    responses=problems(503),
)
async def statistics(parts: PartsHere) -> Response:
    async def fresh() -> dict[str, Any]:
        found = await parts.repository.counts()
        found["size_bytes"] = found.pop("bytes")
        return {"database": parts.database_kind, **found}

    return StrictJSONResponse(await cached(parts, "statistics", fresh))
