"""How bodies are read, and the parameters that several routes share."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.routing import APIRoute

from ..app_context import AppContext
from ..errors import Refused
from ..schemas import base_models


class StrictRequest(Request):
    """Whatever is wrong with a body's JSON is one kind of error: too deep, too many digits, not UTF-8."""

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
    """A route whose requests are strict."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly


async def newest_run(parts: AppContext) -> str | None:
    """What a question without a run is about: the live one, however many were measured since; else the newest."""
    try:
        live = (await parts.control.status())["run_id"]
    except Refused:  # no engine has been seen yet
        live = None
    if live is not None:
        return str(live)
    rows = await parts.repository.runs(1)
    return rows[0]["run_id"] if rows else None


#: A header of those answers that may be about something done before.
REPLAY: dict[str, Any] = {
    "Idempotent-Replay": {
        "description": "`true` where the same was sent before and nothing new was made.",
        "schema": {"type": "string"},
    }
}
_RUN_ID = base_models.RUN_ID
_SCHEDULER = r"^[a-z][a-z0-9_]{0,63}(\([A-Za-z0-9_=., +\-]{0,200}\))?$"

RunInPath = Annotated[
    str, Path(pattern=_RUN_ID, description="A run's id.", examples=["01JCQ4W3E8Z0V6M8T1S9Y5K2RB"])
]
TaskInPath = Annotated[int, Path(ge=1, le=base_models.INT64_MAX, description="A task's id.", examples=[105])]
SchedulerInPath = Annotated[
    str, Path(pattern=_SCHEDULER, description="A scheduler's name.", examples=["hybrid_ml"])
]
RunQuery = Annotated[str | None, Query(pattern=_RUN_ID, description="Only this run.")]
SchedulerQuery = Annotated[str | None, Query(pattern=_SCHEDULER, description="Only this scheduler.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="At most so many.")]
