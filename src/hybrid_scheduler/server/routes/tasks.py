"""Routes for tasks and results, and for submitting a task."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...core import HybridSchedulerError
from ..app_context import AppContext, RequestContext
from ..engine_control import NewTask
from ..errors import ApiError, not_found
from ..json_response import StrictJSONResponse, dumps
from ..schemas import ExplainedTask, ResultPage, TaskCreate, TaskDetail, TaskPage, base_models, problems
from .strict_route import (
    REPLAY,
    KeyHeader,
    Limit,
    RunQuery,
    SchedulerQuery,
    StrictRoute,
    TaskInPath,
    current_run,
    used_key,
)

router = APIRouter(prefix="/api", tags=["tasks"], route_class=StrictRoute)
results_router = APIRouter(prefix="/api", tags=["results"], route_class=StrictRoute)

#: A task is served without explanations if the engine does not answer within so many seconds.
EXPLANATION_TIMEOUT_S = 2.0


@router.post(
    "/tasks",
    status_code=201,
    operation_id="createTask",
    summary="Submit a task to every scheduler",
    response_model=TaskDetail,
    responses={
        201: {
            "description": "The task and all its results are stored.",
            "headers": REPLAY,
        },
        **problems(409, 413, 415, 422, 503),
    },
)
async def create_task(context: RequestContext, task: TaskCreate, idempotency_key: KeyHeader = None) -> Response:
    """Submit a task. The response comes once the task and its results are durable, so that they survive a crash."""
    fields = task.fields()
    if idempotency_key is None:
        return await _stored_response(context, await context.control.submit(NewTask(**fields)))
    fingerprint = hashlib.sha256(dumps(fields)).hexdigest()
    # Of two requests at once with one key, the second waits for the first and then finds its task.
    async with context.state.key_locks.hold(idempotency_key):
        known = await context.repository.idempotency_record(idempotency_key)
        if known is None:
            new = NewTask(**fields, key=idempotency_key, fingerprint=fingerprint)
            return await _stored_response(context, await context.control.submit(new))
    if known[0] != fingerprint:
        raise used_key(idempotency_key)
    return await _stored_response(context, known[1], replay=True)


async def _stored_response(context: AppContext, task_id: int, *, replay: bool = False) -> Response:
    detail = await context.repository.task(task_id)
    if detail is None:  # deleted since
        raise ApiError(409, f"task {task_id} was stored and has been deleted since")
    return StrictJSONResponse(detail, 201, headers={"Idempotent-Replay": "true"} if replay else None)


async def _explanations(context: AppContext, task_id: int) -> dict[str, Any]:
    """Return the explanations of a task; without them while no engine runs or it takes too long to answer."""
    try:
        async with asyncio.timeout(EXPLANATION_TIMEOUT_S):
            return await context.control.explanations(task_id)
    except (ApiError, HybridSchedulerError, TimeoutError):
        return {}


@router.get(
    "/tasks",
    operation_id="listTasks",
    summary="Tasks, newest first",
    response_model=TaskPage,
    responses=problems(422, 503),
)
async def tasks(
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
    return StrictJSONResponse({"tasks": rows, "next_before": rows[-1]["task_id"] if len(rows) == limit else None})


@router.get(
    "/tasks/{task_id}",
    operation_id="getTask",
    summary="One task with the results of every scheduler",
    response_model=ExplainedTask,
    responses=problems(404, 422, 503),
)
async def task(context: RequestContext, task_id: TaskInPath) -> Response:
    """Return a task with its results and its optimum on an idle machine.

    The newest 1,000 tasks of the live run also have the values by which learned schedulers placed them.
    """
    detail = await context.repository.task(task_id)
    if detail is None:
        raise not_found("task", task_id)
    return StrictJSONResponse(detail | {"explanations": await _explanations(context, task_id)})


@results_router.get(
    "/results",
    operation_id="listResults",
    summary="Results in the order of their tasks",
    response_model=ResultPage,
    responses=problems(422, 503),
)
async def results(
    context: RequestContext,
    run_id: RunQuery = None,
    scheduler: SchedulerQuery = None,
    after_task: Annotated[
        int, Query(ge=0, le=base_models.INT64_MAX, description="Only tasks with a higher id.")
    ] = 0,
    limit: Limit = 1000,
) -> Response:
    """Return one page of results, by default of the live run. A page ends with a complete task."""
    run = run_id or await current_run(context)
    rows = [] if run is None else await context.repository.results(run, scheduler, after_task, limit)
    return StrictJSONResponse({"results": rows, "next_after": rows[-1]["task_id"] if rows else None})
