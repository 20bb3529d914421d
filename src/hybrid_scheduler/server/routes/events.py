"""The stream's past: what a client missed while it was away."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from ..app_context import PartsHere
from ..json_response import StrictJSONResponse
from ..schemas import EventPage, base_models, problems
from .strict_route import StrictRoute

router = APIRouter(prefix="/api", tags=["events"], route_class=StrictRoute)


@router.get(
    "/events",
    operation_id="listEvents",
    summary="Events after a sequence number",
    response_model=EventPage,
    responses=problems(422, 503),
)
async def events(
    parts: PartsHere,
    after: Annotated[int, Query(ge=0, le=base_models.INT64_MAX, description="The last one you have.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most so many.")] = 500,
    type: Annotated[
        Literal["simulation_update", "notification", "log"] | None, Query(description="Only this type.")
    ] = None,
) -> Response:
    """The same messages that `/ws` sent, byte for byte. Updates and log lines are kept for a while only."""
    page = await parts.repository.events_after(after, limit, types=None if type is None else (type,))
    # The payloads are JSON already: they are joined, not parsed and written again.
    head = b'{"events":[' + b",".join(page.events) + b"]"
    truncated = b"true" if len(page.events) == limit else b"false"
    return StrictJSONResponse(
        head + b',"last_seq":%d,"oldest_seq":%d,"truncated":%s}' % (page.last_seq, page.oldest_seq, truncated)
    )
