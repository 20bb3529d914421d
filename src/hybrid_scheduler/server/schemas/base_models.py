"""The building blocks of all shapes: numbers that JSON can carry, texts that a database can keep."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ...core.ulid import ULID

INT64_MAX = 2**63 - 1
#: Beyond 2^53 a number would change on its way through JavaScript.
SEED_MAX = 2**53


def _keepable(text: str) -> str:
    """NUL cannot be stored in PostgreSQL; half a surrogate pair cannot be stored anywhere."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise PydanticCustomError("text", "must be text without NUL characters and unpaired surrogates")
    return text


class ResponseModel(BaseModel):
    """What the server says."""

    model_config = ConfigDict(frozen=True)


class RequestModel(BaseModel):
    """What a client says: exactly the fields named here, in exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Text = Annotated[str, AfterValidator(_keepable)]
ExternalId = Annotated[
    str,
    AfterValidator(_keepable),
    Field(min_length=1, max_length=200, pattern=r"^[ -~]+$", description="Your own name for the task (ASCII)."),
]
Kind = Annotated[
    str,
    Field(pattern=r"^[A-Za-z][A-Za-z0-9_.\-]{0,63}$", description="What sort of task this is, such as `matmul`."),
]
RUN_ID = f"^{ULID.pattern}$"
RunId = Annotated[str, Field(pattern=RUN_ID, description="A run's id (a ULID).")]
#: A scheduler as runs name it: `greedy`, or `oracle(grid=21)` where a configuration says so.
SchedulerKey = Annotated[
    str,
    Field(
        pattern=r"^[a-z][a-z0-9_]{0,63}(\([A-Za-z0-9_=., +\-]{0,200}\))?$",
        description="A scheduler's name, as `GET /api/schedulers` lists it.",
    ),
]
#: What clients may ask for: a bare name. Parameters could name files, and no path from a client is opened.
SchedulerName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="A registered scheduler.")]
ScenarioName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9\-]{0,63}$", description="See `GET /api/scenarios`.")]
TaskId = Annotated[int, Field(ge=1, le=INT64_MAX, description="Unique in the database, never used twice.")]
Seq = Annotated[int, Field(ge=0, le=INT64_MAX, description="Position in the stream of events.")]
Seed = Annotated[int, Field(ge=0, le=SEED_MAX, description="Same seed, same tasks, same results.")]
Utilisation = Annotated[
    float, Field(ge=0.001, le=10, description="Offered load as a share of the machine's capacity for these tasks.")
]
Speed = Annotated[float, Field(ge=0.01, le=10_000, description="Virtual seconds per second.")]
Share = Annotated[float, Field(ge=0, le=1)]
Number = float
MaybeNumber = float | None


def example(**fields: Any) -> ConfigDict:
    """The configuration of an answer with one example."""
    return ConfigDict(frozen=True, json_schema_extra={"examples": [fields]})


def request_example(**fields: Any) -> ConfigDict:
    """The configuration of a question with one example."""
    return ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, json_schema_extra={"examples": [fields]})
