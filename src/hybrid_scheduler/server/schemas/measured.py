"""Models of runs on real devices, stored and under way, as columns; null means unknown."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, FailFast, Field
from pydantic_core import PydanticCustomError

from ...live.measured_run import MAX_SCHEDULERS, MAX_TASKS
from . import base_models as base
from .tasks import ResultStatus

_MAX_CONFIG_LENGTH = 65_536


def _check_config(config: dict[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(config, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())  # refuses unpaired surrogates
    except (ValueError, RecursionError):
        size = -1
    if not 0 <= size <= _MAX_CONFIG_LENGTH or "\\u0000" in text:
        raise PydanticCustomError(
            "config", f"must be JSON of at most {_MAX_CONFIG_LENGTH} bytes without NUL characters"
        )
    return config


def _few_entries(results: Any) -> Any:
    """Refuse too many entries before they are read: each adds a dozen errors of a kilobyte."""
    if isinstance(results, dict) and len(results) > MAX_SCHEDULERS:
        raise PydanticCustomError("too_many", f"must be results of at most {MAX_SCHEDULERS} schedulers")
    return results


# Columns are read up to their first error: a body of 1 MB can hold 250,000 wrong values.
Column = Annotated[list[float], Field(min_length=1, max_length=MAX_TASKS), FailFast()]
MaybeColumn = Annotated[list[float | None], Field(min_length=1, max_length=MAX_TASKS), FailFast()]
Name = Annotated[base.Text, Field(min_length=1, max_length=200)]
#: Two thousand years from the epoch, in seconds.
Moment = Annotated[float, Field(ge=0, le=6.3e10, description="Unix seconds.")]


class MeasuredDevice(base.RequestModel):
    """A real device."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")]
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_\-]{0,31}$", description="`cpu`, `gpu` or another.")]
    node: Annotated[int, Field(ge=0, le=10_000, description="Every node has exactly one device of kind `cpu`.")] = 0


class MeasuredPlatform(base.RequestModel):
    """The machine, its devices node by node."""

    name: Name
    devices: Annotated[list[MeasuredDevice], Field(min_length=1, max_length=256), FailFast()]


class MeasuredTasks(base.RequestModel):
    """Columns of equal length, ordered by arrival."""

    size: Column
    compute_intensity: Column
    memory_required: Column
    arrival_time: Column
    kind: Annotated[list[base.Kind], Field(min_length=1, max_length=MAX_TASKS), FailFast()]
    optimal_fraction: MaybeColumn
    optimal_time: MaybeColumn


class MeasuredResults(base.RequestModel):
    """Results of one scheduler. Times count from its first submission; failed tasks have no times."""

    device: Annotated[list[str], Field(min_length=1, max_length=MAX_TASKS), FailFast()]
    gpu_fraction: Column
    actual_time: MaybeColumn
    latency: MaybeColumn
    start_time: MaybeColumn
    finish_time: MaybeColumn
    cpu_start: MaybeColumn
    cpu_time: Column
    gpu_start: MaybeColumn
    gpu_time: Column
    energy_consumption: MaybeColumn
    execution_cost: MaybeColumn
    predicted_time: MaybeColumn
    status: Annotated[list[ResultStatus], Field(min_length=1, max_length=MAX_TASKS), FailFast()]


class MeasuredRunCreate(base.RequestModel):
    """A measured run: the same tasks under each scheduler, on the same machine."""

    #: A ULID of your choice. A run that is sent again under the same id is stored once.
    run_id: base.RunId | None = None
    created_at: Moment
    ended_at: Moment
    seed: base.Seed
    scenario: Name
    platform: MeasuredPlatform
    config: Annotated[dict[str, Any], AfterValidator(_check_config)] = Field(default_factory=dict)
    tasks: MeasuredTasks
    results: Annotated[
        dict[base.SchedulerKey, MeasuredResults],
        Field(min_length=1, max_length=MAX_SCHEDULERS),
        BeforeValidator(_few_entries),
    ]


class RunStored(base.ResponseModel):
    """A run that was stored."""

    run_id: base.RunId
    tasks: int
    schedulers: list[str]


# ------------------------------------------------------------------------------------------ programs under way

#: Most tasks in one report.
_MAX_REPORTED = 5_000
_Seconds = Annotated[float, Field(ge=0, le=1e9, description="Seconds since the program's executor began.")]
_Times = Annotated[list[_Seconds], Field(max_length=_MAX_REPORTED), FailFast()]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Bytes = Annotated[float, Field(ge=0, le=1e18)]
_DeviceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")]


class ProgramTasks(base.RequestModel):
    """Calls that have ended, as columns of equal length, oldest first."""

    number: Annotated[list[_Count], Field(max_length=_MAX_REPORTED), FailFast()]
    function: Annotated[list[base.Kind], Field(max_length=_MAX_REPORTED), FailFast()]
    device: Annotated[list[_DeviceName], Field(max_length=_MAX_REPORTED), FailFast()]
    submitted: _Times
    launched: Annotated[
        list[_Seconds],
        Field(max_length=_MAX_REPORTED, description="When its copies were made and it was handed to the device."),
        FailFast(),
    ]
    started: _Times
    finished: _Times
    seconds: _Times
    predicted: Annotated[list[_Seconds | None], Field(max_length=_MAX_REPORTED), FailFast()]
    transfer: _Times


class ProgramDevice(base.RequestModel):
    """A device of a running program at this moment."""

    name: _DeviceName
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_\-]{0,31}$", description="`cpu`, `gpu` or another.")]
    #: Calls in its queue.
    waiting: _Count
    #: Bytes of arrays in its memory; null for the CPU.
    resident: _Bytes | None
    #: Bytes that may stay there; null if unlimited.
    limit: _Bytes | None


class _ProgramFields(base.RequestModel):
    run_id: base.RunId
    program: Name
    scheduler: base.SchedulerKey
    machine: Name
    created_at: Moment
    now: _Seconds
    devices: Annotated[list[ProgramDevice], Field(min_length=1, max_length=256), FailFast()]
    #: Calls that were submitted and have not ended.
    unfinished: _Count
    failed: _Count
    #: Bytes that were copied to devices and back.
    copied: _Bytes
    #: Copies that were dropped to make space on a device.
    evicted: _Count
    #: Those of them that had to be copied to main memory first.
    written_back: _Count
    #: Ended calls that the program could not report in time.
    unreported: _Count
    ended: bool


class ProgramReport(_ProgramFields):
    """State of a running program, with the calls that have ended since its last report."""

    tasks: ProgramTasks


class ProgramAccepted(base.ResponseModel):
    """A report that was accepted."""

    run_id: base.RunId
    #: Ended calls of this program so far.
    tasks: int


class ProgramState(_ProgramFields):
    """A program as it was last reported, with calls that have ended."""

    #: Ended calls so far.
    finished: int
    #: Pass this as `after` to get what follows these calls.
    next_after: int
    tasks: ProgramTasks


class ProgramSummary(base.ResponseModel):
    """A program that reported to this server."""

    run_id: base.RunId
    program: str
    created_at: float
    finished: int
    ended: bool


class ProgramList(base.ResponseModel):
    """Programs that reported to this server since it started, newest first, and one of them in full."""

    programs: list[ProgramSummary]
    current: ProgramState | None
