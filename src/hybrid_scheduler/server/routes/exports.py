"""Routes for files: exports as CSV, Parquet and a trace for Perfetto, and uploaded traces."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from ...cluster import Machine
from .. import file_exports, trace_uploads
from ..app_context import AppContext, RequestContext
from ..file_exports import Writer
from ..json_response import StrictJSONResponse, attachment
from ..new_runs import StartOptions, chosen_machine
from ..schemas import base_models
from ..schemas.base_models import BINARY, TEXT, described, described_file
from ..schemas.catalogue import TraceAccepted, TraceInspection, TraceList
from ..trace_reading import ImportOptions
from ..trace_uploads import FORMATS
from .strict_route import ChosenRun, RunQuery, SchedulerQuery, StrictRoute, stored_run, while_connected

router = APIRouter(prefix="/api/export", tags=["exports"], route_class=StrictRoute)
traces_router = APIRouter(prefix="/api", tags=["traces"])

_CSV = "text/csv"
_JSON = "application/json"
_PARQUET = "application/vnd.apache.parquet"
_MEDIA_TYPES = {"csv": _CSV, "json": _JSON, "parquet": _PARQUET}
Rows = Annotated[
    Annotated[int, Field(ge=1, le=10_000)] | Literal["all"], Query(description="Number of newest tasks, or `all`.")
]


_TRACE_SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"type": "string"},
        "traceEvents": {"type": "array", "items": {"type": "object"}},
    },
}


async def _export(
    context: AppContext, content: str, write: Writer, run_id: str | None, scheduler: str | None, limit: int | str
) -> Response:
    """Return a download; `content` ends its name, which begins with run and scheduler."""
    run = None if run_id is None else await stored_run(context, run_id)
    words = ["all-runs"] if run is None else [run["name"] or run["scenario"], run["run_id"][-6:]]
    stem, ending = content.split(".")
    day = datetime.fromtimestamp(context.clock(), UTC).date().isoformat()
    plain = (re.sub(r"[^A-Za-z0-9_]+", "-", word).strip("-") for word in [*words, scheduler or "", stem, day])
    pages = await file_exports.history_pages(context.repository, run_id, limit)
    name = "-".join(filter(None, plain)) + f".{ending}"
    return attachment(write(pages, scheduler, run), _MEDIA_TYPES[ending], name)


@router.get("/tasks.csv", **described_file("Tasks as CSV", {_CSV: TEXT}, 404, 422, 503))
async def export_tasks_csv(context: RequestContext, run_id: RunQuery = None, limit: Rows = "all") -> Response:
    """Return tasks without results, oldest first."""
    return await _export(context, "tasks.csv", file_exports.tasks_csv, run_id, None, limit)


@router.get("/results.csv", **described_file("Results as CSV", {_CSV: TEXT}, 404, 422, 503))
async def export_results_csv(
    context: RequestContext, run_id: RunQuery = None, scheduler: SchedulerQuery = None, limit: Rows = "all"
) -> Response:
    """Return results in the order of their tasks."""
    return await _export(context, "results.csv", file_exports.results_csv, run_id, scheduler, limit)


@router.get("/results.parquet", **described_file("Results as Parquet", {_PARQUET: BINARY}, 404, 422, 503))
async def export_results_parquet(
    context: RequestContext, run_id: RunQuery = None, scheduler: SchedulerQuery = None, limit: Rows = "all"
) -> Response:
    """Return results in the order of their tasks."""
    return await _export(context, "results.parquet", file_exports.results_parquet, run_id, scheduler, limit)


_PERFETTO = "A run for ui.perfetto.dev or chrome://tracing"


@router.get("/trace.json", **described_file(_PERFETTO, {_JSON: _TRACE_SCHEMA}, 404, 422, 503))
async def export_trace(
    context: RequestContext, run_id: ChosenRun, scheduler: SchedulerQuery = None, limit: Rows = "all"
) -> Response:
    """Return when each device was busy, in Chrome's trace format; by default of the live run."""
    return await _export(context, "trace.json", file_exports.perfetto_trace, run_id, scheduler, limit)


# ------------------------------------------------------------------------------------------ uploaded traces

UPLOAD_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {kind: {"schema": BINARY} for kind in FORMATS}}
}
_MACHINE = r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,63}$"
_MappingQuery = Annotated[
    str | None,
    Query(max_length=4000, description='Sources of a task\'s values as JSON: `{"size": {"column": "work"}}`.'),
]
_LoadQuery = Annotated[
    float | None, Query(ge=0.001, le=10, description="Stretch the arrivals to this load on the machine.")
]


async def _chosen_machine(
    context: RequestContext,
    platform: Annotated[str | None, Query(pattern=_MACHINE, description="A built-in platform.")] = None,
    profile: Annotated[str | None, Query(pattern=_MACHINE, description="A measured profile.")] = None,
) -> Machine:
    options = StartOptions(platform=platform, profile=profile)
    return await asyncio.to_thread(chosen_machine, context.machine, options)


def _uploaded_file(request: Request, context: RequestContext) -> trace_uploads.Upload:
    """Return the file that a client sends, of the kind that its content type says."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    connected = partial(while_connected, request)
    return trace_uploads.Upload(request.stream(), FORMATS[media_type], context.options, context.reader, connected)


_ChosenMachine = Annotated[Machine, Depends(_chosen_machine)]
UploadedFile = Annotated[trace_uploads.Upload, Depends(_uploaded_file)]
_UPLOAD: dict[str, Any] = {"status_code": 201, "openapi_extra": UPLOAD_BODY}


@traces_router.post(
    "/traces", **described("Store a trace if every row is valid", TraceAccepted, 409, 413, 415, 422, 503, **_UPLOAD)
)
async def upload_trace(
    upload: UploadedFile,
    machine: _ChosenMachine,
    name: Annotated[str, Query(pattern=base_models.TRACE_NAME, description="Name of the trace.")],
    mapping: _MappingQuery = None,
    skip_bad: Annotated[bool, Query(description="Leave bad rows out instead of refusing the file.")] = False,
    load: _LoadQuery = None,
) -> Response:
    """Store a trace completely or not at all. An error names the line, the field and the value.

    Other formats, tables with a mapping, and files with bad rows or a new load become a CSV trace.
    """
    how = None
    if mapping is not None or skip_bad or load is not None:
        how = ImportOptions(trace_uploads.parse_mapping(mapping), skip_bad, load)
    return StrictJSONResponse(await upload.store(name, how, machine), 201)


_INSPECTED = ("Read a trace without storing it", TraceInspection, 413, 415, 422, 503)


@traces_router.post("/traces/inspect", **described(*_INSPECTED, openapi_extra=UPLOAD_BODY))
async def inspect_trace(
    upload: UploadedFile, machine: _ChosenMachine, mapping: _MappingQuery = None, load: _LoadQuery = None
) -> Response:
    """Return format, columns, bad rows, offered load and histograms of a file."""
    how = ImportOptions(trace_uploads.parse_mapping(mapping), load=load)
    return StrictJSONResponse(await upload.inspect(how, machine))


@traces_router.get("/traces", **described("Traces that can be replayed", TraceList, 503))
async def list_traces(context: RequestContext) -> Response:
    """Return the stored traces by name."""
    return StrictJSONResponse(
        {"traces": await asyncio.to_thread(trace_uploads.stored_traces, context.options.traces)}
    )
