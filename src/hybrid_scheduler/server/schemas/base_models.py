"""Base classes, field types and the error body of the REST models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from ...core.canonical_json import TEXT_RULE, is_storable
from ...core.ulid import ULID

INT64_MAX = 2**63 - 1
#: JavaScript cannot represent every integer above 2^53.
_SEED_MAX = 2**53


def _check_storable(text: str) -> str:
    if not is_storable(text):
        raise PydanticCustomError("text", f"must be {TEXT_RULE}")
    return text


class ResponseModel(BaseModel):
    """Base of everything the server returns."""

    model_config = ConfigDict(frozen=True)


class RequestModel(BaseModel):
    """Base of everything a client sends: no other fields, no other types, finite numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Text = Annotated[str, AfterValidator(_check_storable)]
ExternalId = Annotated[
    str,
    AfterValidator(_check_storable),
    Field(min_length=1, max_length=200, pattern=r"^[ -~]+$", description="Your own id of the task (ASCII)."),
]
Kind = Annotated[
    str,
    Field(pattern=r"^[A-Za-z][A-Za-z0-9_.\-]{0,63}$", description="Kind of task, such as `matmul`."),
]
RUN_ID = f"^{ULID.pattern}$"
RunId = Annotated[str, Field(pattern=RUN_ID, description="A run's id (a ULID).")]
#: A scheduler as runs name it: `greedy`, or `oracle(grid=21)` with parameters from a configuration.
SCHEDULER_KEY = r"^[a-z][a-z0-9_]{0,63}(\([A-Za-z0-9_=., +\-]{0,200}\))?$"
SchedulerKey = Annotated[
    str, Field(pattern=SCHEDULER_KEY, description="A scheduler's name, as `GET /api/schedulers` lists it.")
]
#: Clients send a name without parameters: these could name files, and no path from a client is opened.
SchedulerName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="A registered scheduler.")]
ScenarioName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9\-]{0,63}$", description="See `GET /api/scenarios`.")]
TRACE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,63}$"
TraceName = Annotated[str, Field(pattern=TRACE_NAME, description="A stored trace, see `GET /api/traces`.")]
MachineName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_\-]{0,63}$")]
RunName = Annotated[Text, Field(max_length=120, description="Name of the run; empty for none.")]
Note = Annotated[Text, Field(max_length=2000, description="A note on the run; empty for none.")]
Tags = Annotated[
    list[Annotated[Text, Field(min_length=1, max_length=40)]], Field(max_length=12, description="Tags of the run.")
]
Seed = Annotated[
    int, Field(ge=0, le=_SEED_MAX, description="Random seed; equal seeds give equal tasks and results.")
]
Load = Annotated[
    float, Field(ge=0.001, le=10, description="Offered load as a share of the machine's capacity for these tasks.")
]
Speed = Annotated[float, Field(ge=0.01, le=10_000, description="Virtual seconds per second.")]


def refuse_second(value: str | None, info: ValidationInfo, *others: str) -> str | None:
    """Return the value; raise if one of the other fields, which exclude it, is given too."""
    for other in others:
        if value is not None and other != info.field_name and info.data.get(other) is not None:
            raise PydanticCustomError("source", f"must be left out where `{other}` is given")
    return value


class RunSettings(RequestModel):
    """Settings of a run; missing ones come from the configuration."""

    scenario: ScenarioName | None = None
    load: Load | None = None
    trace: TraceName | None = None
    #: Begin the trace again at its end; otherwise the run ends there.
    repeat: bool = False
    seed: Seed | None = None
    speed: Speed | None = None

    @field_validator("trace")
    @classmethod
    def _one_source(cls, value: str | None, info: ValidationInfo) -> str | None:
        return refuse_second(value, info, "scenario")

    @field_validator("repeat")
    @classmethod
    def _of_a_trace(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("trace") is None:
            raise PydanticCustomError("source", "must be left out without `trace`")
        return value


def old_load() -> Any:
    """Return the field `utilisation`: the name of `load` until 0.1, accepted in requests until 0.3."""
    return Field(default=None, description="Deprecated: use `load`.", json_schema_extra={"deprecated": True})


class WithOldLoad(RequestModel):
    """Base of requests with a load, whose old name is accepted."""

    load: Load | None = None
    utilisation: Load | None = old_load()

    @field_validator("utilisation")
    @classmethod
    def _not_both(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and info.data.get("load") is not None:
            raise PydanticCustomError("old_name", "must be left out where `load` is given, whose old name it is")
        return value

    @model_validator(mode="after")
    def _take_old_name(self) -> Self:
        if self.load is None:
            self.load = self.utilisation
        return self


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
    "timeout",
    "unavailable",
    "internal",
]


class FieldProblem(ResponseModel):
    """One invalid value."""

    #: Name of the value, such as `size` or `query.limit`.
    field: str
    #: Accepted values.
    allowed: str
    #: The value received, shortened.
    got: str


class Problem(ResponseModel):
    """An error, with a message for people and a code for programs."""

    #: The request's id, which the server's log also has.
    id: str
    code: ErrorCode
    message: str
    fields: list[FieldProblem]
    hint: str | None


class ErrorBody(ResponseModel):
    """Body of every response with a status of 400 or more."""

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


def errors(*statuses: int) -> dict[int, dict[str, Any]]:
    """Return OpenAPI's description of error responses."""
    bodies: dict[int, dict[str, Any]] = {
        status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in statuses
    }
    for status in {429, 503} & bodies.keys():
        bodies[status]["headers"] = _RETRY
    return bodies


def described(
    summary: str, model: Any, *statuses: int, responses: dict[int, dict[str, Any]] | None = None, **others: Any
) -> dict[str, Any]:
    """Return the arguments of a route that the OpenAPI document shows.

    Parameters
    ----------
    summary
        A few words about the route.
    model
        Type of the response; None for a file.
    statuses
        Statuses of errors, besides those that every route may return.
    responses
        Further statuses, and the content of files.
    others
        Further arguments of the route.
    """
    all_responses = (responses or {}) | errors(*statuses, 401, 403, 429, 500)
    return {"summary": summary, "response_model": model, "responses": all_responses, **others}


def described_file(summary: str, media_types: dict[str, dict[str, Any]], *statuses: int) -> dict[str, Any]:
    """Return the arguments of a route that answers with a file, by the schemas of its media types."""
    content = {media_type: {"schema": schema} for media_type, schema in media_types.items()}
    file = {200: {"description": "The file.", "content": content}}
    return described(summary, None, *statuses, responses=file, response_class=Response)


TEXT: dict[str, Any] = {"type": "string"}
BINARY: dict[str, Any] = {"type": "string", "format": "binary"}
