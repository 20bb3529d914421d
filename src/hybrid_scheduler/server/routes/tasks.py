"""Routes for tasks and results, and for submitting a task."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...core import HybridSchedulerError
from ...live import IdempotencyKey, SubmittedTask
from ...live.commands import Explanations, Submit
from ..app_context import AppContext, RequestContext
from ..errors import ApiError
from ..json_response import StrictJSONResponse, dumps
from ..schemas import base_models
from ..schemas.base_models import described
from ..schemas.tasks import ExplainedTask, ResultPage, TaskCreate, TaskDetail, TaskPage
from .strict_route import (
    ChosenRun,
    KeyHeader,
    Limit,
    RunQuery,
    SchedulerQuery,
    StrictRoute,
    TaskInPath,
    created,
    page_of,
    required,
    stored_once,
    stores,
)

router = APIRouter(prefix="/api", tags=["tasks"], route_class=StrictRoute)
results_router = APIRouter(prefix="/api", tags=["results"], route_class=StrictRoute)

#: A task is served without explanations if the engine does not answer within so many seconds.
EXPLANATION_TIMEOUT_S = 2.0
_CREATED = stores("The task and all its results are stored.")


@router.post(
    "/tasks",
    **described("Submit a task to every scheduler", TaskDetail, 409, 422, 503, **_CREATED),
)
async def create_task(context: RequestContext, task: TaskCreate, idempotency_key: KeyHeader = None) -> Response:
    """Submit a task. The response comes once the task and its results are durable, so that they survive a crash."""
    fields = task.fields()
    fingerprint = hashlib.sha256(dumps(fields)).hexdigest()

    async def store() -> Response:
        key = None if idempotency_key is None else IdempotencyKey(idempotency_key, fingerprint)
        return await respond(await context.control.run(Submit(SubmittedTask(**fields), key)), replay=False)

    async def respond(task_id: int, *, replay: bool = True) -> Response:
        detail = await context.repository.task(task_id)
        if detail is None:  # deleted since
            raise ApiError(409, f"task {task_id} was stored and has been deleted since")
        return created(detail, replay=replay)

    return await stored_once(context, idempotency_key, fingerprint, store, respond)


async def _explanations(context: AppContext, task_id: int) -> dict[str, Any]:
    """Return the explanations of a task; without them while no engine runs or it takes too long to answer."""
    try:
        async with asyncio.timeout(EXPLANATION_TIMEOUT_S):
            return await context.control.run(Explanations(task_id))
    except (ApiError, HybridSchedulerError, TimeoutError):
        return {}


@router.get("/tasks", **described("Tasks, newest first", TaskPage, 422, 503))
async def list_tasks(
    context: RequestContext,
    limit: Limit = 100,
    before: Annotated[
        int | None, Query(ge=1, le=base_models.INT64_MAX, description="Only tasks with a lower id.")
    ] = None,
    run_id: RunQuery = None,
    external_id: Annotated[
        str | None,
        Query(min_length=1, max_length=200, pattern=r"^[ -~]+$", description="Only tasks with this external id."),
    ] = None,
) -> Response:
    """Return one page of tasks without results."""
    rows = await context.repository.tasks(limit, before, run_id=run_id, external_id=external_id)
    return page_of("tasks", rows, limit, "task_id")


@router.get(
    "/tasks/{task_id}", **described("One task with the results of every scheduler", ExplainedTask, 404, 422, 503)
)
async def get_task(context: RequestContext, task_id: TaskInPath) -> Response:
    """Return a task with its results and its optimum on an idle machine.

    The newest 1,000 tasks of the live run also have the values by which learned schedulers placed them.
    """
    detail = required(await context.repository.task(task_id), "task", task_id)
    return StrictJSONResponse(detail | {"explanations": await _explanations(context, task_id)})


@results_router.get("/results", **described("Results in the order of their tasks", ResultPage, 422, 503))
async def list_results(
    context: RequestContext,
    run_id: ChosenRun,
    scheduler: SchedulerQuery = None,
    after_task: Annotated[
        int, Query(ge=0, le=base_models.INT64_MAX, description="Only tasks with a higher id.")
    ] = 0,
    limit: Limit = 1000,
) -> Response:
    """Return one page of results, by default of the live run. A page ends with a complete task."""
    rows = [] if run_id is None else await context.repository.results(run_id, scheduler, after_task, limit)
    return StrictJSONResponse({"results": rows, "next_after": rows[-1]["task_id"] if rows else None})
