"""The front door: the dashboard for browsers, one line of JSON for programs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ..app_context import PartsHere
from ..dashboard_files import front_page, prefers_html
from ..json_response import StrictJSONResponse
from ..schemas import OnlineResponse, problems

router = APIRouter(tags=["root"])


@router.get(
    "/",
    operation_id="getRoot",
    summary="Dashboard, or that the API is there",
    response_model=OnlineResponse,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **problems()},
)
async def root(request: Request, parts: PartsHere) -> Response:
    if prefers_html(request.headers.get("accept", "")):
        return front_page(parts)
    return StrictJSONResponse({"status": "online", "message": "Hybrid ML Scheduler Dashboard API is running"})
