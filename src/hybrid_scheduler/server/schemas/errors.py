"""Model of error bodies, and their description in OpenAPI."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base_models import ResponseModel, response_example

ErrorCode = Literal[
    "invalid_input",
    "not_found",
    "method_not_allowed",
    "unauthorised",
    "forbidden",
    "conflict",
    "too_large",
    "unsupported_media_type",
    "rate_limited",
    "unavailable",
    "internal",
]


class FieldProblem(ResponseModel):
    """One invalid value."""

    field: str = Field(description="Name of the value, such as `size` or `query.limit`.")
    allowed: str = Field(description="Accepted values.")
    got: str = Field(description="The value received, shortened.")


class Problem(ResponseModel):
    """An error, with a message for people and a code for programs."""

    id: str = Field(description="The request's id, which the server's log also has.")
    code: ErrorCode
    message: str
    fields: list[FieldProblem]
    hint: str | None


class ErrorBody(ResponseModel):
    """Body of every response with a status of 400 or more."""

    model_config = response_example(
        error={
            "id": "5f0c6b1d2a9e4c77",
            "code": "invalid_input",
            "message": "size: must be greater than 0, got -3",
            "fields": [{"field": "size", "allowed": "greater than 0", "got": "-3"}],
            "hint": None,
        }
    )

    error: Problem


_MEANINGS = {
    401: "The token is missing or wrong.",
    403: "This Host or Origin is not allowed.",
    404: "There is nothing with this name.",
    405: "This address does not support that method.",
    409: "Not possible in the current state.",
    413: "The body is too large.",
    415: "This address does not accept the body's content type.",
    422: "A value is invalid; `fields` says which and why.",
    429: "Too many requests; `Retry-After` says when to try again.",
    500: "A fault of the server; its log has details under the id.",
    503: "The database or the engine is unavailable; `Retry-After` says when to try again.",
}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI's description of error responses, for a route's `responses`.

    Parameters
    ----------
    statuses
        Statuses besides those that every route may return.
    """
    described: dict[int | str, dict[str, Any]] = {}
    for status in (*statuses, 401, 403, 429, 500):
        described[status] = {"model": ErrorBody, "description": _MEANINGS[status]}
        if status in (429, 503):
            described[status]["headers"] = _RETRY
    return described
