"""One shape for everything that went wrong."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base_models import ResponseModel, example

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
    """One value that cannot be used."""

    field: str = Field(description="Where it stands, such as `size` or `query.limit`.")
    allowed: str = Field(description="What would be accepted.")
    got: str = Field(description="What came, shortened.")


class Problem(ResponseModel):
    """What went wrong, in words for a person and a code for a program."""

    id: str = Field(description="The request's id; the server's log has it too.")
    code: ErrorCode
    message: str
    fields: list[FieldProblem]
    hint: str | None


class ErrorBody(ResponseModel):
    """The body of every answer from 400 on."""

    model_config = example(
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
    404: "There is nothing by that name.",
    405: "This address does not know that method.",
    409: "Not possible in the present state.",
    413: "The body is too large.",
    415: "The body has another content type than this address takes.",
    422: "A value cannot be used; `fields` says which and why.",
    429: "Too many requests; `Retry-After` says when the next is welcome.",
    500: "A fault of the server; the id leads to the log.",
    503: "The database or the engine is away; `Retry-After` says when to try again.",
}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's description of these answers, for a route's `responses`."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in (*statuses, 401, 403, 429, 500):
        described[status] = {"model": ErrorBody, "description": _MEANINGS[status]}
        if status in (429, 503):
            described[status]["headers"] = _RETRY
    return described
