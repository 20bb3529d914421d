"""Strict reading of JSON bodies, and parameters that several routes share."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.routing import APIRoute

from ..app_context import AppContext
from ..errors import ApiError
from ..schemas import base_models


class _StrictRequest(Request):
    """Request whose malformed JSON is always a JSONDecodeError: too deep, too many digits, not UTF-8."""

    async def json(self) -> Any:
        body = await self.body()
        try:
            return json.loads(body.decode("utf-8"))
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            reason = "too deeply nested" if isinstance(error, RecursionError) else "unreadable text or number"
            raise json.JSONDecodeError(reason, "", 0) from None


class StrictRoute(APIRoute):
    """Route that reads JSON bodies strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that wraps requests."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

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
