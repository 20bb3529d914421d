"""Files to take away: CSV, Parquet, and a trace for Perfetto."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from ...storage.history_analysis import hosts_of
from .. import file_exports
from ..app_context import AppContext, PartsHere
from ..errors import not_found
from ..schemas import problems
from .strict_route import _RUN_ID, RunQuery, SchedulerQuery, StrictRoute, newest_run

router = APIRouter(prefix="/api/export", tags=["exports"], route_class=StrictRoute)

Rows = Annotated[
    Annotated[int, Field(ge=1, le=10_000)] | Literal["all"],
    Query(description="The newest so many tasks, or `all`."),
]


_TRACE = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"type": "string"},
        "traceEvents": {"type": "array", "items": {"type": "object"}},
    },
}


def _file(kind: str, schema: dict[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    schema = schema or {"type": "string"}
    return {200: {"description": "The file.", "content": {kind: {"schema": schema}}}, **problems(404, 422, 503)}


def _download(chunks: Any, kind: str, name: str) -> Response:
    return StreamingResponse(
        chunks, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


async def _known(parts: AppContext, run_id: str | None) -> None:
    if run_id is not None and await parts.repository.run(run_id) is None:
        raise not_found("run", run_id)


@router.get(
    "/tasks.csv",
    operation_id="exportTasksCsv",
    summary="Tasks as CSV",
    response_class=Response,
    responses=_file("text/csv"),
)
async def tasks_csv(parts: PartsHere, run_id: RunQuery = None, limit: Rows = "all") -> Response:
    await _known(parts, run_id)
    pages = await file_exports.pages(parts.repository, run_id, limit)
    return _download(file_exports.tasks_csv(pages), "text/csv", "tasks.csv")


@router.get(
    "/results.csv",
    operation_id="exportResultsCsv",
    summary="Results as CSV",
    response_class=Response,
    responses=_file("text/csv"),
)
async def results_csv(
    parts: PartsHere, run_id: RunQuery = None, scheduler: SchedulerQuery = None, limit: Rows = "all"
) -> Response:
    await _known(parts, run_id)
    pages = await file_exports.pages(parts.repository, run_id, limit)
    return _download(file_exports.results_csv(pages, scheduler), "text/csv", "results.csv")


@router.get(
    "/results.parquet",
    operation_id="exportResultsParquet",
    summary="Results as Parquet",
    response_class=Response,
    responses=_file("application/vnd.apache.parquet", {"type": "string", "format": "binary"}),
)
async def results_parquet(
    parts: PartsHere, run_id: RunQuery = None, scheduler: SchedulerQuery = None, limit: Rows = "all"
) -> Response:
    await _known(parts, run_id)
    pages = await file_exports.pages(parts.repository, run_id, limit)
    chunks = file_exports.results_parquet(pages, scheduler)
    return _download(chunks, "application/vnd.apache.parquet", "results.parquet")


@router.get(
    "/trace.json",
    operation_id="exportTrace",
    summary="A run for ui.perfetto.dev or chrome://tracing",
    response_class=Response,
    responses=_file("application/json", _TRACE),
)
async def trace(
    parts: PartsHere,
    run_id: Annotated[str | None, Query(pattern=_RUN_ID, description="A run; without it, the newest.")] = None,
    scheduler: SchedulerQuery = None,
    limit: Rows = "all",
) -> Response:
    await _known(parts, run_id)
    chosen = run_id or await newest_run(parts)
    run = None if chosen is None else await parts.repository.run(chosen)
    pages = await file_exports.pages(parts.repository, chosen, limit)
    hosts = {} if run is None else hosts_of((), run["config"])
    return _download(file_exports.perfetto(pages, scheduler, hosts), "application/json", "trace.json")
