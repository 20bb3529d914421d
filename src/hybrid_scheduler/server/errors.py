"""Error responses: one body for every failed request, with an id, a code, a message and the wrong fields.

Bodies contain no traceback, no SQL and no path. The id identifies the request in the log.
"""

from __future__ import annotations

import errno
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
from ..workload.trace_columns import DecodedTooLarge
from .dashboard_files import not_found_page
from .json_response import StrictJSONResponse
from .strict_json import excerpt

_CODES = {
    400: "invalid_input",
    401: "unauthorised",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_input",
    429: "rate_limited",
    431: "too_large",
    503: "unavailable",
}
_MESSAGES = {404: "there is nothing at this address", 405: "this address does not support that method"}
#: Seconds after which a client should try again.
_RETRY_AFTER_S = 2
#: Errors after which a client may try again.
UNAVAILABLE = (DatabaseUnavailable, EngineUnavailable, EngineBusy, EngineClosed, JournalUnavailable, JournalFull)
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_MAX_VALUE_LENGTH = 120
_MAX_FIELDS = 20


class ApiError(HybridSchedulerError):
    """An error that ends a request with an HTTP status.

    Parameters
    ----------
    status
        The HTTP status.
    message
        A sentence for people.
    fields
        Wrong values as (field, allowed, got).
    hint
        How to go on.
    retry_after
        Seconds after which the client should try again; 429 and 503 always have it.
    headers
        Further headers of the response.
    """

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
            retry_after = _RETRY_AFTER_S
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)


def not_found(kind: str, name: object) -> ApiError:
    """Return the 404 for a named thing that does not exist."""
    return ApiError(404, f"there is no {kind} {_printable(name)}")


def api_error(error: Exception) -> ApiError | None:
    """Return what a client is told of an exception; None for a fault of the server."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestValidationError):
        return invalid(*[_field(problem) for problem in error.errors()[:_MAX_FIELDS]])
    if isinstance(error, DecodedTooLarge):
        hint = error.hint or "hybrid-scheduler import FILE reads larger ones"
        return ApiError(413, f"the trace must be {error.allowed}", hint=hint)
    if isinstance(error, InvalidInputError):
        return invalid((error.field, error.allowed, error.got), hint=error.hint)
    if isinstance(error, UNAVAILABLE):
        return ApiError(503, "the database or the engine is unavailable")
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        return ApiError(503, "nothing can be written now", hint="the disk may be full")
    return None


def invalid(*fields: tuple[str, str, object], hint: str | None = None) -> ApiError:
    """Return the 422 for values that are not allowed, each as (field, allowed, got)."""
    field, allowed, got = fields[0] if fields else ("body", "valid", "something else")
    message = f"{_printable(field)}: must be {allowed}, got {_printable(got)}"
    return ApiError(422, message, fields=fields, hint=hint)


def error_response(error: ApiError, request_id: str) -> Response:
    """Return the response for an error."""
    content = {
        "id": request_id,
        "code": _CODES.get(error.status, "internal"),
        "message": str(error),
        "fields": [
            {"field": _printable(field), "allowed": allowed, "got": _printable(got)}
            for field, allowed, got in error.fields
        ],
        "hint": error.hint,
    }
    return StrictJSONResponse({"error": content}, error.status, headers=error.headers)


def internal_error(error: Exception, request_id: str) -> Response:
    """Log a fault of the server with its traceback, and return the response, which has only the id."""
    logger.opt(exception=error).error(f"request {request_id} failed: {type(error).__name__}")
    message = "internal server error; the server's log has details under this id"
    return error_response(ApiError(500, message), request_id)


def _printable(value: object) -> str:
    """Return a value for a message: short, printable, and valid in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = excerpt(value)
    text = text.encode("utf-8", "replace").decode().replace("\0", "\\0")
    text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return text if len(text) <= _MAX_VALUE_LENGTH else text[: _MAX_VALUE_LENGTH - 3] + "..."


def install(app: FastAPI) -> None:
    """Add the handler of expected exceptions; the security middleware handles others."""
    for kind in (RequestValidationError, HTTPException, HybridSchedulerError, OSError):
        app.add_exception_handler(kind, _handle)


async def _handle(request: Request, error: Exception) -> Response:
    request_id = str(request.scope.get("request_id", "-"))
    page = not_found_page(request) if getattr(error, "status_code", None) == 404 else None
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = _allowed_methods(request)
        message = _MESSAGES.get(error.status_code, str(error.detail))
        known: ApiError | None = ApiError(error.status_code, message, headers=headers)
    else:
        known = api_error(error)
    if known is None:
        return internal_error(error, request_id)
    if known.status == 503 and known is not error:
        logger.warning(f"{request_id}: {known}: {error}")
    return page or error_response(known, request_id)


def _field(problem: dict[str, Any]) -> tuple[str, str, object]:
    place, *path = problem["loc"]
    # A field of the body is named alone; other fields are named with their place, such as query.limit.
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


def _allowed_methods(request: Request) -> str:
    """Return all methods of this address; the router names only those of the first matching route."""
    routes = request.app.state.api_routes
    matching = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted({method for route in matching for method in route.methods}) or ["GET"])
