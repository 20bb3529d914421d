"""Models of a run that was measured on real devices, as columns; null means unknown."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from ...live.measured_run import MOST_SCHEDULERS, MOST_TASKS
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

_LONGEST_CONFIG = 65_536


def _check_config(config: dict[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(config, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())  # refuses unpaired surrogates
    except (ValueError, RecursionError):
        size = -1
    if not 0 <= size <= _LONGEST_CONFIG or "\\u0000" in text:
        raise PydanticCustomError(
            "config", f"must be JSON of at most {_LONGEST_CONFIG} bytes without NUL characters"
        )
    return config


Column = Annotated[list[float], Field(min_length=1, max_length=MOST_TASKS)]
MaybeColumn = Annotated[list[float | None], Field(min_length=1, max_length=MOST_TASKS)]
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
    kind: Annotated[list[Kind], Field(min_length=1, max_length=MOST_TASKS)]
    optimal_fraction: MaybeColumn
    optimal_time: MaybeColumn


class MeasuredResults(RequestModel):
    """Results of one scheduler. Times count from its first submission; failed tasks have no times."""

    device: Annotated[list[str], Field(min_length=1, max_length=MOST_TASKS)]
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
    status: Annotated[list[ResultStatus], Field(min_length=1, max_length=MOST_TASKS)]


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
    results: Annotated[dict[SchedulerKey, MeasuredResults], Field(min_length=1, max_length=MOST_SCHEDULERS)]


class RunStored(ResponseModel):
    """A run that was stored."""

    model_config = response_example(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB", tasks=1, schedulers=["greedy"])

    run_id: RunId
    tasks: int
    schedulers: list[str]
