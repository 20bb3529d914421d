"""Results row by row, for programs that read everything."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ..app_context import PartsHere
from ..json_response import StrictJSONResponse
from ..schemas import ResultPage, base_models, problems
from .strict_route import Limit, RunQuery, SchedulerQuery, StrictRoute, newest_run

router = APIRouter(prefix="/api", tags=["results"], route_class=StrictRoute)


@router.get(
    "/results",
    operation_id="listResults",
    summary="Results in the order of their tasks",
    response_model=ResultPage,
    responses=problems(422, 503),
)
async def results(
    parts: PartsHere,
    run_id: RunQuery = None,
    scheduler: SchedulerQuery = None,
    after_task: Annotated[
        int, Query(ge=0, le=base_models.INT64_MAX, description="Only tasks with a higher id.")
    ] = 0,
    limit: Limit = 1000,
) -> Response:
    """Without a run: the live one. A page ends with a whole task."""
    run = run_id or await newest_run(parts)
    rows = [] if run is None else await parts.repository.results(run, scheduler, after_task, limit)
    return StrictJSONResponse({"results": rows, "next_after": rows[-1]["task_id"] if rows else None})
