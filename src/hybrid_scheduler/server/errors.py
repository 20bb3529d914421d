"""Every way a request can fail, as one body: an id, a code, a sentence, and the fields that were wrong.

Nothing of the inside gets out: no traceback, no SQL, no path. The id leads to the log.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from loguru import logger
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ..core import HybridSchedulerError, InvalidInputError
from ..live import EngineBusy, EngineClosed, JournalFull, JournalUnavailable
from ..storage import DatabaseUnavailable
from ..storage.engine_commands import EngineUnavailable
from .dashboard_files import lost
from .json_response import StrictJSONResponse

_CODES = {
    400: "invalid_input",
    401: "unauthorised",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_input",
    429: "rate_limited",
    503: "unavailable",
}
_RETRY_AFTER = 2
_AWAY = (DatabaseUnavailable, EngineUnavailable, EngineBusy, EngineClosed, JournalUnavailable, JournalFull)
_LONGEST = 120


class Refused(HybridSchedulerError):
    """A request that gets this status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        fields: Sequence[tuple[str, str, object]] = (),
        hint: str | None = None,
        retry_after: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.fields = tuple(fields)
        self.headers = dict(headers or {})
        if retry_after is None and status in (429, 503):
            retry_after = _RETRY_AFTER
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)


def not_found(what: str, name: object) -> Refused:
    return Refused(404, f"there is no {what} {shown(name)}")


def refusal(error: Refused, request_id: str) -> Response:
    """The answer to a request that is turned away."""
    return _body(error.status, request_id, str(error), fields=error.fields, hint=error.hint, headers=error.headers)


def shown(value: object) -> str:
    """A value in a message: short, printable, and never one that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = value if isinstance(value, str) else repr(value.item() if hasattr(value, "item") else value)
    text = text.encode("utf-8", "replace").decode().replace("\0", "\\0")
    text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def install(app: FastAPI) -> None:
    """Answer every exception in the one shape."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(HybridSchedulerError, _ours)
    app.add_exception_handler(Exception, _unexpected)


def request_id_of(request: Request) -> str:
    return str(request.scope.get("request_id", "-"))


def _body(
    status: int,
    request_id: str,
    message: str,
    *,
    code: str | None = None,
    fields: Sequence[tuple[str, str, object]] = (),
    hint: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    listed = [{"field": shown(f), "allowed": a, "got": shown(g)} for f, a, g in fields]
    content = {
        "error": {
            "id": request_id,
            "code": code or _CODES.get(status, "internal"),
            "message": message,
            "fields": listed,
            "hint": hint,
        }
    }
    return StrictJSONResponse(content, status, headers=headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fields = [_field(problem) for problem in error.errors()[:20]]
    first = fields[0] if fields else ("body", "valid", "something else")
    message = f"{shown(first[0])}: must be {first[1]}, got {shown(first[2])}"
    return _body(422, request_id_of(request), message, fields=fields)


def _field(problem: dict[str, Any]) -> tuple[str, str, object]:
    place, *path = problem["loc"]
    # A field of the body is known by its own name; everything else says where it stood.
    names = [str(part) for part in path]
    where = ".".join(names if place == "body" and names else [str(place), *names])
    kind = problem["type"]
    if kind == "missing":
        return where, "given", "nothing"
    if kind == "extra_forbidden":
        return where, "a known field", "an unknown one"
    if kind == "json_invalid":
        return "body", "valid JSON", problem.get("ctx", {}).get("error", "something else")
    text = str(problem["msg"])
    for opening in ("Input should be ", "Value should be ", "String should ", "must be "):
        text = text.removeprefix(opening)
    return where, text, problem.get("input")


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    page = lost(request) if error.status_code == 404 else None
    if page is not None:
        return page
    messages = {404: "there is nothing at this address", 405: "this address does not know that method"}
    message = messages.get(error.status_code, str(error.detail))
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = _allowed(request)
    return _body(error.status_code, request_id_of(request), message, headers=headers)


def _allowed(request: Request) -> str:
    """All methods of this address; the router would name only those of the first route that fits."""
    routes = request.app.state.api_routes
    fitting = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted({method for route in fitting for method in route.methods}) or ["GET"])


async def _ours(request: Request, error: Exception) -> Response:
    request_id = request_id_of(request)
    if isinstance(error, Refused):
        return refusal(error, request_id)
    if isinstance(error, _AWAY):
        logger.warning(f"{request_id}: unavailable: {error}")
        return refusal(Refused(503, "the database or the engine is away"), request_id)
    if isinstance(error, InvalidInputError):
        fields = [(error.field, error.allowed, error.got)]
        message = f"{shown(error.field)}: must be {error.allowed}, got {shown(error.got)}"
        return _body(422, request_id, message, fields=fields, hint=error.hint)
    return await _unexpected(request, error)


async def _unexpected(request: Request, error: Exception) -> Response:
    request_id = request_id_of(request)
    logger.opt(exception=error).error(f"request {request_id} failed: {type(error).__name__}")
    return internal_error(request_id)


def internal_error(request_id: str) -> Response:
    return _body(500, request_id, "something went wrong in the server; its log knows this id", code="internal")
