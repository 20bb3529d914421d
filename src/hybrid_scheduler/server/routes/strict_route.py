"""Strict reading of JSON bodies, and parameters that several routes share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request, Response
from fastapi.routing import APIRoute

from ..app_context import AppContext
from ..errors import ApiError
from ..schemas import base_models

#: Containers within each other. orjson writes up to 254, and the stored run adds a few.
_MAX_DEPTH = 64
#: Bytes of a body that is checked without a thread.
_SMALL_BODY = 64 * 1024
#: Lists and objects of a body. Millions of them fit into a few megabytes, and other requests wait while they are
#: read.
_MAX_CONTAINERS = 100_000


class _StrictRequest(Request):
    """Request whose malformed JSON is always a JSONDecodeError: too deep, too many digits, not UTF-8.

    The body is read once, for the check and for the route.
    """

    _content: tuple[Any, ...] = ()

    async def json(self) -> Any:
        if not self._content:
            self._content = (await self._parsed(),)
        return self._content[0]

    async def _parsed(self) -> Any:
        body = await self.body()
        try:
            return json.loads(body.decode("utf-8"))
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            reason = "too deeply nested" if isinstance(error, RecursionError) else "unreadable text or number"
            raise json.JSONDecodeError(reason, "", 0) from None

    async def check_json(self) -> None:
        """Refuse a JSON body that is too deep, or has integers that no later response could contain.

        Raises
        ------
        ApiError
            With status 422 and the name of the field. Malformed JSON is left to the route.
        """
        body = await self.body()
        if body.count(b"[") + body.count(b"{") > _MAX_CONTAINERS:
            raise _refusal("body", f"at most {_MAX_CONTAINERS:,} lists and objects", "more")
        try:
            content = await self.json()
        except json.JSONDecodeError:
            return
        if len(body) < _SMALL_BODY:
            _check_bounds(content)
        else:
            await asyncio.to_thread(_check_bounds, content)


def _check_bounds(content: Any) -> None:
    waiting: list[tuple[Any, str, int]] = [([content], "", 0)]
    while waiting:
        container, path, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise _refusal(path, f"at most {_MAX_DEPTH} levels deep", "a deeper value")
        for name, value in container.items() if isinstance(container, dict) else enumerate(container):
            if isinstance(value, dict | list):
                waiting.append((value, f"{path}.{name}" if depth else "", depth + 1))
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise _refusal(f"{path}.{name}", "an integer of 64 bits", "a larger one")


def _refusal(path: str, allowed: str, got: str) -> ApiError:
    # A deep path repeats itself: its beginning names the field.
    field = ".".join(path.removeprefix(".").split(".")[:4])[:100] or "body"
    return ApiError(422, f"{field}: must be {allowed}, got {got}", fields=[(field, allowed, got)])


#: Annotation of the header that makes a request repeatable.
KeyHeader = Annotated[
    str | None,
    Header(
        pattern=r"^[A-Za-z0-9_.:\-]{1,128}$",
        description="A key of your choice. Sending the same content again with the same key stores it once.",
        examples=["3f0d6a6c-41c0-4a7b-9a8e-0f6a2f2c7f11"],
    ),
]


def used_key(key: str) -> ApiError:
    """Return the error for a key that came with other content before."""
    allowed = "a key that was not used for anything else"
    return ApiError(
        422,
        f"Idempotency-Key: must be {allowed}, got {key}",
        fields=[("header.Idempotency-Key", allowed, key)],
    )


class StrictRoute(APIRoute):
    """Route that reads JSON bodies strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that wraps requests."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
                await strict.check_json()
            return await handle(strict)

        return handle_strictly


async def current_run(context: AppContext) -> str | None:
    """Return the run that a request without a run means: the live one, or else the newest."""
    try:
        live = (await context.control.status())["run_id"]
    except ApiError:  # no engine has been seen yet
        live = None
    if live is not None:
        return str(live)
    rows = await context.repository.runs(1)
    return rows[0]["run_id"] if rows else None


#: How often a request looks for the row of a run that has just begun, and seconds between two looks. A limit of
#: time alone would pass without a look while the processor is busy.
_LOOKS, _LOOK_S = 40, 0.05


async def stored_run(context: AppContext, run_id: str) -> dict[str, Any] | None:
    """Return a run, or None; a live run that has just begun is waited for, because the page asks for it at once."""
    found = await context.repository.run(run_id)
    if found is None and run_id == await current_run(context):
        for _ in range(_LOOKS):
            await asyncio.sleep(_LOOK_S)
            found = await context.repository.run(run_id)
            if found is not None:
                break
    return found


def completed_deletion(tasks: int) -> dict[str, Any]:
    """Return the body of a deletion that has ended."""
    return {"deleted_tasks": tasks, "tasks": tasks, "done": True}


#: Header of responses to requests that may have been sent before.
REPLAY: dict[str, Any] = {
    "Idempotent-Replay": {
        "description": "`true` if the same was sent before and nothing new was stored.",
        "schema": {"type": "string"},
    }
}
RUN_ID = base_models.RUN_ID
SCHEDULER = base_models.SCHEDULER_KEY

RunInPath = Annotated[str, Path(pattern=RUN_ID, description="A run's id.", examples=["01JCQ4W3E8Z0V6M8T1S9Y5K2RB"])]
TaskInPath = Annotated[int, Path(ge=1, le=base_models.INT64_MAX, description="A task's id.", examples=[105])]
SchedulerInPath = Annotated[str, Path(pattern=SCHEDULER, description="A scheduler's name.", examples=["hybrid_ml"])]
RunQuery = Annotated[str | None, Query(pattern=RUN_ID, description="Only this run.")]
SchedulerQuery = Annotated[str | None, Query(pattern=SCHEDULER, description="Only this scheduler.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="Largest number of rows.")]
