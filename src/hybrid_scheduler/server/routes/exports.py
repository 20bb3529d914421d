"""Routes for files: exports as CSV, Parquet and a trace for Perfetto, and uploaded traces."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from ...cluster import Machine
from ...storage.history_analysis import hosts_of
from .. import file_exports
from ..app_context import AppContext, RequestContext
from ..engine_control import StartOptions, chosen_machine
from ..errors import not_found
from ..json_response import StrictJSONResponse
from ..schemas import TraceAccepted, TraceInspection, TraceList, base_models, problems
from ..trace_uploads import FORMATS, ImportOptions, inspect_trace, list_traces, parse_mapping, store_trace
from .strict_route import RUN_ID, RunQuery, SchedulerQuery, StrictRoute, current_run, stored_run

router = APIRouter(prefix="/api/export", tags=["exports"], route_class=StrictRoute)
traces_router = APIRouter(prefix="/api", tags=["traces"])

Rows = Annotated[
    Annotated[int, Field(ge=1, le=10_000)] | Literal["all"],
    Query(description="Number of newest tasks, or `all`."),
]


_TRACE_SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"type": "string"},
        "traceEvents": {"type": "array", "items": {"type": "object"}},
    },
}


def _file_responses(media_type: str, schema: dict[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": schema or {"type": "string"}}}
    return {200: {"description": "The file.", "content": content}, **problems(404, 422, 503)}


def _download(chunks: Any, media_type: str, name: str) -> Response:
    return StreamingResponse(
        chunks, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


async def _file_name(
    context: AppContext, content: str, run_id: str | None, scheduler: str | None = None
) -> tuple[str, dict[str, Any] | None]:
    """Return the name of a download, which tells run, scheduler, content and date, and the run.

    Raises
    ------
    ApiError
        With status 404, if there is no such run.
    """
    run = None if run_id is None else await stored_run(context, run_id)
    if run_id is not None and run is None:
        raise not_found("run", run_id)
    words = ["all-runs"] if run is None else [run["name"] or run["scenario"], run["run_id"][-6:]]
    stem, ending = content.split(".")
    day = datetime.fromtimestamp(context.clock(), UTC).date().isoformat()
    plain = (re.sub(r"[^A-Za-z0-9_]+", "-", word).strip("-") for word in [*words, scheduler or "", stem, day])
    return "-".join(filter(None, plain)) + f".{ending}", run


@router.get(
    "/tasks.csv",
    operation_id="exportTasksCsv",
    summary="Tasks as CSV",
    response_class=Response,
    responses=_file_responses("text/csv"),
)
async def tasks_csv(context: RequestContext, run_id: RunQuery = None, limit: Rows = "all") -> Response:
    """Return tasks without results, oldest first."""
    name, _ = await _file_name(context, "tasks.csv", run_id)
    pages = await file_exports.history_pages(context.repository, run_id, limit)
    return _download(file_exports.tasks_csv(pages), "text/csv", name)


@router.get(
    "/results.csv",
    operation_id="exportResultsCsv",
    summary="Results as CSV",
    response_class=Response,
    responses=_file_responses("text/csv"),
)
async def results_csv(
    context: RequestContext, run_id: RunQuery = None, scheduler: SchedulerQuery = None, limit: Rows = "all"
) -> Response:
    """Return results in the order of their tasks."""
    name, _ = await _file_name(context, "results.csv", run_id, scheduler)
    pages = await file_exports.history_pages(context.repository, run_id, limit)
    return _download(file_exports.results_csv(pages, scheduler), "text/csv", name)


@router.get(
    "/results.parquet",
    operation_id="exportResultsParquet",
    summary="Results as Parquet",
    response_class=Response,
    responses=_file_responses("application/vnd.apache.parquet", {"type": "string", "format": "binary"}),
)
async def results_parquet(
    context: RequestContext, run_id: RunQuery = None, scheduler: SchedulerQuery = None, limit: Rows = "all"
) -> Response:
    """Return results in the order of their tasks."""
    name, _ = await _file_name(context, "results.parquet", run_id, scheduler)
    pages = await file_exports.history_pages(context.repository, run_id, limit)
    chunks = file_exports.results_parquet(pages, scheduler)
    return _download(chunks, "application/vnd.apache.parquet", name)


@router.get(
    "/trace.json",
    operation_id="exportTrace",
    summary="A run for ui.perfetto.dev or chrome://tracing",
    response_class=Response,
    responses=_file_responses("application/json", _TRACE_SCHEMA),
)
async def trace(
    context: RequestContext,
    run_id: Annotated[str | None, Query(pattern=RUN_ID, description="A run; by default the live one.")] = None,
    scheduler: SchedulerQuery = None,
    limit: Rows = "all",
) -> Response:
    """Return when each device was busy, in Chrome's trace format."""
    chosen = run_id or await current_run(context)
    name, run = await _file_name(context, "trace.json", chosen, scheduler)
    pages = await file_exports.history_pages(context.repository, chosen, limit)
    hosts = {} if run is None else hosts_of((), run["config"])
    return _download(file_exports.perfetto_trace(pages, scheduler, hosts), "application/json", name)


# ------------------------------------------------------------------------------------------ uploaded traces

_UPLOAD_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in FORMATS},
    }
}
_MACHINE = r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,63}$"
_MappingQuery = Annotated[
    str | None,
    Query(max_length=4000, description='Sources of a task\'s values as JSON: `{"size": {"column": "work"}}`.'),
]
_LoadQuery = Annotated[
    float | None, Query(ge=0.001, le=10, description="Stretch the arrivals to this load on the machine.")
]
_PlatformQuery = Annotated[str | None, Query(pattern=_MACHINE, description="A built-in platform.")]
_ProfileQuery = Annotated[str | None, Query(pattern=_MACHINE, description="A measured profile.")]


@traces_router.post(
    "/traces",
    status_code=201,
    operation_id="uploadTrace",
    summary="Store a trace if every row is valid",
    response_model=TraceAccepted,
    responses=problems(409, 413, 415, 422, 503),
    openapi_extra=_UPLOAD_BODY,
)
async def upload(
    request: Request,
    context: RequestContext,
    name: Annotated[str, Query(pattern=base_models.TRACE_NAME, description="Name of the trace.")],
    mapping: _MappingQuery = None,
    skip_bad: Annotated[bool, Query(description="Leave bad rows out instead of refusing the file.")] = False,
    load: _LoadQuery = None,
    platform: _PlatformQuery = None,
    profile: _ProfileQuery = None,
) -> Response:
    """Store a trace completely or not at all. An error names the line, the field and the value.

    Other formats, tables with a mapping, and files with bad rows or a new load become a CSV trace.
    """
    how = None
    if mapping is not None or skip_bad or load is not None:
        how = ImportOptions(parse_mapping(mapping), skip_bad, load)
    machine = await _machine(context, platform, profile)
    stored = await store_trace(request.stream(), _suffix(request), name, context.options, how, machine)
    return StrictJSONResponse(stored, 201)


@traces_router.post(
    "/traces/inspect",
    operation_id="inspectTrace",
    summary="Read a trace without storing it",
    response_model=TraceInspection,
    responses=problems(413, 415, 422, 503),
    openapi_extra=_UPLOAD_BODY,
)
async def inspect(
    request: Request,
    context: RequestContext,
    mapping: _MappingQuery = None,
    load: _LoadQuery = None,
    platform: _PlatformQuery = None,
    profile: _ProfileQuery = None,
) -> Response:
    """Return format, columns, bad rows, offered load and histograms of a file."""
    how = ImportOptions(parse_mapping(mapping), load=load)
    machine = await _machine(context, platform, profile)
    found = await inspect_trace(request.stream(), _suffix(request), how, machine, context.options)
    return StrictJSONResponse(found)


def _suffix(request: Request) -> str:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return FORMATS[media_type]


async def _machine(context: AppContext, platform: str | None, profile: str | None) -> Machine:
    options = StartOptions(platform=platform, profile=profile)
    return await asyncio.to_thread(chosen_machine, context.machine, options)


@traces_router.get(
    "/traces",
    operation_id="listTraces",
    summary="Traces that can be replayed",
    response_model=TraceList,
    responses=problems(503),
)
async def traces(context: RequestContext) -> Response:
    """Return the stored traces by name."""
    return StrictJSONResponse({"traces": await list_traces(context.options.traces)})
