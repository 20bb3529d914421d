"""Strict reading of JSON bodies, and parameters that several routes share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.routing import APIRoute

from ..app_context import AppContext, RequestContext
from ..errors import ApiError, invalid, not_found
from ..json_response import StrictJSONResponse
from ..schemas import base_models
from ..schemas.base_models import TEXT, errors
from ..strict_json import check_bounds, parse

_T = TypeVar("_T")
#: Bytes of a body that is checked without a thread.
_SMALL_BODY = 64 * 1024
#: Values of a body, by its commas. Ten times as many fit into a megabyte, and every other request waits for them.
_MAX_VALUES = 100_000


class _StrictRequest(Request):
    """Request whose JSON is read strictly.

    The body is read once, for the check and for the route.
    """

    _content: tuple[Any, ...] = ()

    async def json(self) -> Any:
        if not self._content:
            self._content = (parse(await self.body()),)
        return self._content[0]

    async def check_json(self) -> None:
        """Refuse a JSON body that is out of bounds; malformed JSON is left to the route."""
        body = await self.body()
        if body.count(b",") > _MAX_VALUES:
            raise invalid(("body", f"at most {_MAX_VALUES:,} values", "more"))
        try:
            content = await self.json()
        except json.JSONDecodeError:
            return
        if len(body) < _SMALL_BODY:
            check_bounds(content)
        else:
            await asyncio.to_thread(check_bounds, content)


#: Annotation of the header that makes a request repeatable.
KeyHeader = Annotated[
    str | None,
    Header(
        pattern=r"^[A-Za-z0-9_.:\-]{1,128}$",
        description="A key of your choice. Sending the same content again with the same key stores it once.",
        examples=["3f0d6a6c-41c0-4a7b-9a8e-0f6a2f2c7f11"],
    ),
]


async def stored_once(
    context: AppContext,
    key: str | None,
    fingerprint: str,
    store: Callable[[], Awaitable[Response]],
    repeat: Callable[[int], Awaitable[Response]],
) -> Response:
    """Store what a request sends, unless a request with the same key stored it before.

    Parameters
    ----------
    context
        The server's parts.
    key, fingerprint
        The client's key, and the digest of the content.
    store
        Stores the content.
    repeat
        Returns the response for the first task that was stored under the key.
    """
    if key is None:
        return await store()
    # Of two requests at once with one key, the second waits for the first and then finds what it stored.
    async with context.state.key_lock(key):
        known = await context.repository.idempotency_record(key)
        if known is None:
            return await store()
    if known[0] != fingerprint:
        raise invalid(("header.Idempotency-Key", "a key that was not used for anything else", key))
    return await repeat(known[1])


def created(body: Any, *, replay: bool) -> Response:
    """Return the response of a request that stored something, now or when it was sent before."""
    return StrictJSONResponse(body, 201, headers={"Idempotent-Replay": "true"} if replay else None)


class StrictRoute(APIRoute):
    """Route that reads JSON bodies strictly."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if {"POST", "PATCH"} & set(options["methods"]):
            options["responses"] |= errors(413, 415)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that wraps requests."""
        handle = super().get_route_handler()
        if self.openapi_extra is not None:  # it reads its body itself
            return handle

        async def handle_strictly(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
                await strict.check_json()
            return await handle(strict)

        return handle_strictly


async def while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a slow computation, which is cancelled when the client leaves.

    Raises
    ------
    ApiError
        If the client has left.
    """

    async def client_leaves() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task = asyncio.ensure_future(work)
    left = asyncio.ensure_future(client_leaves())
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ApiError(408, "the client has left")
    finally:
        for future in (task, left):
            future.cancel()
        await asyncio.wait({task, left})


def required(value: _T | None, kind: str, name: object) -> _T:
    """Return a value; raise the 404 for a named thing where there is none."""
    if value is None:
        raise not_found(kind, name)
    return value


async def _current_run(context: AppContext) -> str | None:
    """Return the run that a request without a run means: the live one, or else the newest."""
    try:
        live = (await context.control.status())["run_id"]
    except ApiError:  # no engine has been seen yet
        live = None
    if live is not None:
        return str(live)
    rows = await context.repository.runs(1)
    return rows[0]["run_id"] if rows else None


#: How often a request looks for the row of a run that has just begun. A limit of time alone would pass without a
#: look while the processor is busy.
_LOOKS = 40
#: Seconds between two looks.
_LOOK_S = 0.05


async def stored_run(context: AppContext, run_id: str) -> dict[str, Any]:
    """Return a run; a live run that has just begun is waited for, because the page asks for it at once.

    Raises
    ------
    ApiError
        With status 404, if there is no such run.
    """
    run = await context.repository.run(run_id)
    if run is None and run_id == await _current_run(context):
        for _ in range(_LOOKS):
            await asyncio.sleep(_LOOK_S)
            run = await context.repository.run(run_id)
            if run is not None:
                break
    return required(run, "run", run_id)


def completed_deletion(tasks: int) -> dict[str, Any]:
    """Return the body of a deletion that has ended."""
    return {"deleted_tasks": tasks, "tasks": tasks, "done": True}


def page_of(name: str, rows: list[dict[str, Any]], limit: int, key: str) -> Response:
    """Return a page of rows, newest first, with the key after which the next page begins."""
    return StrictJSONResponse({name: rows, "next_before": rows[-1][key] if len(rows) == limit else None})


def stores(description: str) -> dict[str, Any]:
    """Return the arguments of a route that answers with 201, also to a request that was sent before."""
    replay = {"description": "`true` if the same was sent before and nothing new was stored.", "schema": TEXT}
    headers = {"Idempotent-Replay": replay}
    return {"status_code": 201, "responses": {201: {"description": description, "headers": headers}}}


RUN_ID = base_models.RUN_ID
SCHEDULER = base_models.SCHEDULER_KEY

RunInPath = Annotated[str, Path(pattern=RUN_ID, description="A run's id.", examples=["01JCQ4W3E8Z0V6M8T1S9Y5K2RB"])]
TaskInPath = Annotated[int, Path(ge=1, le=base_models.INT64_MAX, description="A task's id.", examples=[105])]
SchedulerInPath = Annotated[str, Path(pattern=SCHEDULER, description="A scheduler's name.", examples=["hybrid_ml"])]
RunQuery = Annotated[str | None, Query(pattern=RUN_ID, description="Only this run.")]
SchedulerQuery = Annotated[str | None, Query(pattern=SCHEDULER, description="Only this scheduler.")]


async def _chosen_run(context: RequestContext, run_id: RunQuery = None) -> str | None:
    return run_id or await _current_run(context)


#: A run; by default the current one.
ChosenRun = Annotated[str | None, Depends(_chosen_run)]
Limit = Annotated[int, Query(ge=1, le=10_000, description="Largest number of rows.")]
