"""Tasks: those that came, and your own."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from ..app_context import AppContext, PartsHere
from ..engine_control import NewTask
from ..errors import Refused, not_found
from ..json_response import StrictJSONResponse, dumps
from ..schemas import TaskCreate, TaskDetail, TaskPage, base_models, problems
from .strict_route import REPLAY, Limit, RunQuery, StrictRoute, TaskInPath

router = APIRouter(prefix="/api", tags=["tasks"], route_class=StrictRoute)

IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=r"^[A-Za-z0-9_.:\-]{1,128}$",
        description="Any text of your own. Sending a task again with the same key does not make a second one.",
        examples=["3f0d6a6c-41c0-4a7b-9a8e-0f6a2f2c7f11"],
    ),
]


@router.post(
    "/tasks",
    status_code=201,
    operation_id="createTask",
    summary="Send a task through every scheduler",
    response_model=TaskDetail,
    responses={
        201: {
            "description": "The task and all its results are stored.",
            "headers": REPLAY,
        },
        **problems(409, 413, 415, 422, 503),
    },
)
async def create_task(parts: PartsHere, task: TaskCreate, idempotency_key: IdempotencyKey = None) -> Response:
    """Answers once the task and its results are durable: what was acknowledged survives any crash."""
    fields = task.model_dump()
    if idempotency_key is None:
        return await _stored(parts, await parts.control.submit(NewTask(**fields)))
    fingerprint = hashlib.sha256(dumps(fields)).hexdigest()
    # Two at once with one key: the second waits for the first and then finds its task.
    async with parts.hub.turns(idempotency_key):
        known = await parts.repository.idempotent(idempotency_key)
        if known is None:
            new = NewTask(**fields, key=idempotency_key, fingerprint=fingerprint)
            return await _stored(parts, await parts.control.submit(new))
    if known[0] != fingerprint:
        allowed = "a key that was not used for another task"
        raise Refused(
            422,
            f"Idempotency-Key: must be {allowed}, got {idempotency_key}",
            fields=[("header.Idempotency-Key", allowed, idempotency_key)],
        )
    return await _stored(parts, known[1], replay=True)


async def _stored(parts: AppContext, task_id: int, *, replay: bool = False) -> Response:
    detail = await parts.repository.task(task_id)
    if detail is None:  # deleted since
        raise Refused(409, f"task {task_id} was stored and has been deleted since")
    return StrictJSONResponse(detail, 201, headers={"Idempotent-Replay": "true"} if replay else None)


@router.get(
    "/tasks",
    operation_id="listTasks",
    summary="Tasks, newest first",
    response_model=TaskPage,
    responses=problems(422, 503),
)
async def tasks(
    parts: PartsHere,
    limit: Limit = 100,
    before: Annotated[
        int | None, Query(ge=1, le=base_models.INT64_MAX, description="Only tasks with a lower id.")
    ] = None,
    run_id: RunQuery = None,
    external_id: Annotated[
        str | None, Query(min_length=1, max_length=200, pattern=r"^[ -~]+$", description="Only tasks named so.")
    ] = None,
) -> Response:
    rows = await parts.repository.tasks(limit, before, run_id=run_id, external_id=external_id)
    return StrictJSONResponse({"tasks": rows, "next_before": rows[-1]["task_id"] if len(rows) == limit else None})


@router.get(
    "/tasks/{task_id}",
    operation_id="getTask",
    summary="One task and what every scheduler made of it",
    response_model=TaskDetail,
    responses=problems(404, 422, 503),
)
async def task(parts: PartsHere, task_id: TaskInPath) -> Response:
    detail = await parts.repository.task(task_id)
    if detail is None:
        raise not_found("task", task_id)
    return StrictJSONResponse(detail)
