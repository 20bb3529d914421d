"""Traces: files of tasks that clients bring."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ..app_context import PartsHere
from ..json_response import StrictJSONResponse
from ..schemas import TraceAccepted, TraceList, problems
from ..trace_uploads import FORMATS, kept, listed

router = APIRouter(prefix="/api", tags=["traces"])


@router.post(
    "/traces",
    status_code=201,
    operation_id="uploadTrace",
    summary="Keep a trace, if every row of it is good",
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
    parts: PartsHere,
    name: Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,63}$", description="Its name here.")],
) -> Response:
    """All or nothing: the first bad row is named with its line, its field, what is allowed and what came."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return StrictJSONResponse(await kept(request.stream(), FORMATS[kind], name, parts.options), 201)


@router.get(
    "/traces",
    operation_id="listTraces",
    summary="Traces that can be replayed",
    response_model=TraceList,
    responses=problems(503),
)
async def traces(parts: PartsHere) -> Response:
    return StrictJSONResponse({"traces": await listed(parts.options.traces)})
