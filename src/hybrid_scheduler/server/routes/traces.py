"""Routes for uploading and listing traces."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ..app_context import RequestContext
from ..json_response import StrictJSONResponse
from ..schemas import TraceAccepted, TraceList, problems
from ..trace_uploads import FORMATS, list_traces, store_trace

router = APIRouter(prefix="/api", tags=["traces"])


@router.post(
    "/traces",
    status_code=201,
    operation_id="uploadTrace",
    summary="Store a trace if every row is valid",
    response_model=TraceAccepted,
    responses=problems(409, 413, 415, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in FORMATS},
        }
    },
)
async def upload(
    request: Request,
    context: RequestContext,
    name: Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,63}$", description="Name of the trace.")],
) -> Response:
    """Store a trace completely or not at all. An error names the line, the field and the value."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return StrictJSONResponse(await store_trace(request.stream(), FORMATS[media_type], name, context.options), 201)


@router.get(
    "/traces",
    operation_id="listTraces",
    summary="Traces that can be replayed",
    response_model=TraceList,
    responses=problems(503),
)
async def traces(context: RequestContext) -> Response:
    """Return the stored traces by name."""
    return StrictJSONResponse({"traces": await list_traces(context.options.traces)})
