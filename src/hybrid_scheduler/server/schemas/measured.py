"""Models of runs on real devices, stored and under way, as columns; null means unknown."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from ...live.measured_run import MAX_SCHEDULERS, MAX_TASKS
from .base_models import (
    Kind,
    RequestModel,
    ResponseModel,
    RunId,
    SchedulerKey,
    Seed,
    Text,
    request_example,
    response_example,
)
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


Column = Annotated[list[float], Field(min_length=1, max_length=MAX_TASKS)]
MaybeColumn = Annotated[list[float | None], Field(min_length=1, max_length=MAX_TASKS)]
Name = Annotated[Text, Field(min_length=1, max_length=200)]
#: Two thousand years from the epoch, in seconds.
Moment = Annotated[float, Field(ge=0, le=6.3e10, description="Unix seconds.")]


class MeasuredDevice(RequestModel):
    """A real device."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")]
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_\-]{0,31}$", description="`cpu`, `gpu` or another.")]
    node: Annotated[int, Field(ge=0, le=10_000, description="Every node has exactly one device of kind `cpu`.")] = 0


class MeasuredPlatform(RequestModel):
    """The machine, its devices node by node."""

    name: Name
    devices: Annotated[list[MeasuredDevice], Field(min_length=1, max_length=256)]


class MeasuredTasks(RequestModel):
    """Columns of equal length, ordered by arrival."""

    size: Column
    compute_intensity: Column
    memory_required: Column
    arrival_time: Column
    kind: Annotated[list[Kind], Field(min_length=1, max_length=MAX_TASKS)]
    optimal_fraction: MaybeColumn
    optimal_time: MaybeColumn


class MeasuredResults(RequestModel):
    """Results of one scheduler. Times count from its first submission; failed tasks have no times."""

    device: Annotated[list[str], Field(min_length=1, max_length=MAX_TASKS)]
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
    status: Annotated[list[ResultStatus], Field(min_length=1, max_length=MAX_TASKS)]


class MeasuredRunCreate(RequestModel):
    """A measured run: the same tasks under each scheduler, on the same machine."""

    model_config = request_example(
        created_at=1763200000.0,
        ended_at=1763200004.0,
        seed=0,
        scenario="kernels: matmul",
        platform={"name": "bench", "devices": [{"name": "cpu", "kind": "cpu"}, {"name": "gpu_0", "kind": "gpu"}]},
        config={"mode": "sequential"},
        tasks={
            "size": [512.0],
            "compute_intensity": [0.9],
            "memory_required": [3.1],
            "arrival_time": [0.0],
            "kind": ["matmul"],
            "optimal_fraction": [1.0],
            "optimal_time": [0.002],
        },
        results={
            "greedy": {
                "device": ["gpu_0"],
                "gpu_fraction": [1.0],
                "actual_time": [0.002],
                "latency": [0.0021],
                "start_time": [0.0001],
                "finish_time": [0.0021],
                "cpu_start": [None],
                "cpu_time": [0.0],
                "gpu_start": [0.0001],
                "gpu_time": [0.002],
                "energy_consumption": [0.4],
                "execution_cost": [None],
                "predicted_time": [None],
                "status": ["ran"],
            }
        },
    )

    run_id: RunId | None = Field(
        default=None,
        description="A ULID of your choice. A run that is sent again under the same id is stored once.",
    )
    created_at: Moment
    ended_at: Moment
    seed: Seed
    scenario: Name
    platform: MeasuredPlatform
    config: Annotated[dict[str, Any], AfterValidator(_check_config)] = Field(default_factory=dict)
    tasks: MeasuredTasks
    results: Annotated[dict[SchedulerKey, MeasuredResults], Field(min_length=1, max_length=MAX_SCHEDULERS)]


class RunStored(ResponseModel):
    """A run that was stored."""

    model_config = response_example(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB", tasks=1, schedulers=["greedy"])

    run_id: RunId
    tasks: int
    schedulers: list[str]


# ------------------------------------------------------------------------------------------ programs under way

#: Most tasks in one report.
_MAX_REPORTED = 5_000
_Seconds = Annotated[float, Field(ge=0, le=1e9, description="Seconds since the program's executor began.")]
_Times = Annotated[list[_Seconds], Field(max_length=_MAX_REPORTED)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Bytes = Annotated[float, Field(ge=0, le=1e18)]
_DeviceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$")]


class ProgramTasks(RequestModel):
    """Calls that have ended, as columns of equal length, oldest first."""

    number: Annotated[list[_Count], Field(max_length=_MAX_REPORTED)]
    function: Annotated[list[Kind], Field(max_length=_MAX_REPORTED)]
    device: Annotated[list[_DeviceName], Field(max_length=_MAX_REPORTED)]
    submitted: _Times
    launched: Annotated[
        list[_Seconds],
        Field(max_length=_MAX_REPORTED, description="When its copies were made and it was handed to the device."),
    ]
    started: _Times
    finished: _Times
    seconds: _Times
    predicted: Annotated[list[_Seconds | None], Field(max_length=_MAX_REPORTED)]
    transfer: _Times


class ProgramDevice(RequestModel):
    """A device of a running program at this moment."""

    name: _DeviceName
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_\-]{0,31}$", description="`cpu`, `gpu` or another.")]
    waiting: _Count = Field(description="Calls in its queue.")
    resident: _Bytes | None = Field(description="Bytes of arrays in its memory; null for the CPU.")
    limit: _Bytes | None = Field(description="Bytes that may stay there; null if unlimited.")


class _ProgramFields(RequestModel):
    run_id: RunId
    program: Name
    scheduler: SchedulerKey
    machine: Name
    created_at: Moment
    now: _Seconds
    devices: Annotated[list[ProgramDevice], Field(min_length=1, max_length=256)]
    unfinished: _Count = Field(description="Calls that were submitted and have not ended.")
    failed: _Count
    copied: _Bytes = Field(description="Bytes that were copied to devices and back.")
    evicted: _Count = Field(description="Copies that were dropped to make space on a device.")
    written_back: _Count = Field(description="Those of them that had to be copied to main memory first.")
    unreported: _Count = Field(description="Ended calls that the program could not report in time.")
    ended: bool


_PROGRAM_EXAMPLE: dict[str, Any] = {
    "run_id": "01JCQ4W3E8Z0V6M8T1S9Y5K2RB",
    "program": "solve.py",
    "scheduler": "hybrid_ml",
    "machine": "desktop",
    "created_at": 1763200000.0,
    "now": 0.9,
    "devices": [
        {"name": "cpu", "kind": "cpu", "waiting": 0, "resident": None, "limit": None},
        {"name": "gpu_0", "kind": "gpu", "waiting": 3, "resident": 2.5e8, "limit": 8e9},
    ],
    "unfinished": 4,
    "failed": 0,
    "copied": 2.5e8,
    "evicted": 0,
    "written_back": 0,
    "unreported": 0,
    "ended": False,
}
_TASKS_EXAMPLE: dict[str, Any] = {
    "number": [0],
    "function": ["step"],
    "device": ["gpu_0"],
    "submitted": [0.1],
    "launched": [0.115],
    "started": [0.12],
    "finished": [0.13],
    "seconds": [0.01],
    "predicted": [0.011],
    "transfer": [0.002],
}


class ProgramReport(_ProgramFields):
    """State of a running program, with the calls that have ended since its last report."""

    model_config = request_example(**_PROGRAM_EXAMPLE, tasks=_TASKS_EXAMPLE)

    tasks: ProgramTasks


class ProgramAccepted(ResponseModel):
    """A report that was accepted."""

    model_config = response_example(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB", tasks=1)

    run_id: RunId
    tasks: int = Field(description="Ended calls of this program so far.")


class ProgramState(_ProgramFields):
    """A program as it was last reported, with calls that have ended."""

    finished: int = Field(description="Ended calls so far.")
    next_after: int = Field(description="Pass this as `after` to get what follows these calls.")
    tasks: ProgramTasks


class ProgramSummary(ResponseModel):
    """A program that reported to this server."""

    run_id: RunId
    program: str
    created_at: float
    finished: int
    ended: bool


class ProgramList(ResponseModel):
    """Programs that reported to this server since it started, newest first, and one of them in full."""

    model_config = response_example(
        programs=[
            {
                "run_id": "01JCQ4W3E8Z0V6M8T1S9Y5K2RB",
                "program": "solve.py",
                "created_at": 1763200000.0,
                "finished": 1,
                "ended": False,
            }
        ],
        current={**_PROGRAM_EXAMPLE, "finished": 1, "next_after": 1, "tasks": _TASKS_EXAMPLE},
    )

    programs: list[ProgramSummary]
    current: ProgramState | None
