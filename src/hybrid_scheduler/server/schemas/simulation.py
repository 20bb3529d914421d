"""Models of the live run's state and commands, and of what-if questions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from .base_models import (
    Load,
    RequestModel,
    ResponseModel,
    ScenarioName,
    SchedulerName,
    Seed,
    Speed,
    TraceName,
    old_load,
    refuse_both_names,
    request_example,
    take_old_name,
)
from .runs import ComparisonRow


class DeviceInfo(ResponseModel):
    """One device of the machine."""

    name: str
    kind: str


class PlatformInfo(ResponseModel):
    """The machine that is simulated."""

    name: str
    devices: list[DeviceInfo]


class Episode(ResponseModel):
    """Progress of a scenario with episodes."""

    number: int
    tasks: int
    length: int


class VerdictReason(ResponseModel):
    """One reason why a scheduler loses, with its numbers and where to see it."""

    code: str = Field(
        description="overload, idle, splitting, transfer, memory, cold, drift, queue, unstable, placement, waiting "
        "or equal."
    )
    scheduler: str
    text: str = Field(description="A clause whose subject is the scheduler.")
    numbers: dict[str, float]
    window: tuple[float, float] | None = Field(description="Virtual seconds of the Gantt chart that show it.")
    task: int | None = Field(description="A task that shows it.")


class VerdictComparand(ResponseModel):
    """One quantity against another scheduler's."""

    text: str
    tone: Literal["better", "worse", "close"]
    ratio: float | None


class VerdictSchedulerRow(ResponseModel):
    """One scheduler against the leader; the leader against the runner-up."""

    name: str
    label: str
    mean_latency: float | None
    half_width: float | None = Field(description="Half of the 95 % interval, paired with the oracle if it runs.")
    over_floor: float | None
    against: str | None = Field(description="The scheduler that it is compared with.")
    latency: VerdictComparand
    p99: VerdictComparand
    energy: VerdictComparand
    cost: VerdictComparand
    close_to: list[str] = Field(description="Schedulers from which no significant difference is known.")
    reasons: list[VerdictReason]


class VerdictCause(ResponseModel):
    """A reason with all schedulers that have it, the slowest first."""

    sentence: str
    reason: VerdictReason
    schedulers: list[str]
    also: str


class VerdictResponse(ResponseModel):
    """Who leads by mean latency, by how much, how certain that is, and why the others lose."""

    metric: str
    leader: str | None
    runner_up: str | None
    tasks: int
    floor: float | None = Field(description="Lower bound on the mean latency in seconds.")
    over_floor: float | None
    lead: float | None = Field(description="The runner-up's mean latency over the leader's.")
    certainty: Literal["certain", "small", "close", "early", "one_run", "alone"]
    title: str
    distance: str
    certainty_text: str
    sentence: str
    rows: list[VerdictSchedulerRow]
    why: list[VerdictCause]


class Status(ResponseModel):
    """State of the live run."""

    state: Literal["running", "paused", "stopped", "held"] = Field(
        description="`held`: the database or the engine is unavailable, and no tasks are made until it is back."
    )
    is_running: bool
    is_paused: bool
    run_id: str | None
    source: Literal["simulated", "measured"]
    scenario: str
    load: float = Field(description="Offered load as a share of the machine's capacity.")
    seed: int
    speed: float | None = Field(description="Virtual seconds per second; null: as fast as possible.")
    platform: PlatformInfo
    schedulers: list[str]
    tasks_processed: int
    virtual_time: float = Field(description="Virtual seconds since the run began.")
    tasks_per_second: float
    started_at: float | None
    last_seq: int
    next_task_id: int
    episode: Episode | None
    unsaved_batches: int
    storage: Literal["ok", "away"]
    notes: list[str] = Field(description="Remarks on the numbers.")
    latency_bound: float | None = Field(
        None, description="Lower bound on the mean latency of the tasks so far; no scheduler can beat it."
    )
    comparison: list[ComparisonRow]
    verdict: VerdictResponse | None = Field(None, description="Who leads and why; null without a run.")


class StartRequest(RequestModel):
    """Settings of a new run; missing ones come from the configuration."""

    model_config = request_example(scenario="mixed", load=0.4, seed=7, speed=1.0, schedulers=["greedy", "oracle"])

    scenario: ScenarioName | None = None
    load: Load | None = None
    utilisation: Load | None = old_load()
    seed: Seed | None = None
    speed: Speed | None = None
    schedulers: Annotated[list[SchedulerName], Field(min_length=1, max_length=20)] | None = None
    trace: TraceName | None = None
    repeat: bool = Field(
        default=False, description="Begin the trace again at its end; otherwise the run ends there."
    )

    @field_validator("trace")
    @classmethod
    def _one_source(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("scenario") is not None:
            raise PydanticCustomError("source", "must be left out where `scenario` is given")
        return value

    @field_validator("repeat")
    @classmethod
    def _of_a_trace(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("trace") is None:
            raise PydanticCustomError("source", "must be left out without `trace`")
        return value

    _refuse_both = refuse_both_names
    _take_old = take_old_name


class SpeedRequest(RequestModel):
    """Speed of virtual time."""

    model_config = request_example(speed=4.0)

    speed: Speed


class ScenarioRequest(RequestModel):
    """Scenario of all further tasks."""

    model_config = request_example(scenario="bursty", load=0.5)

    scenario: ScenarioName
    load: Load | None = None
    utilisation: Load | None = old_load()

    _refuse_both = refuse_both_names
    _take_old = take_old_name


_Load = Annotated[
    float, Field(ge=0.05, le=1.2, description="Arrival rate as a share of the current machine's capacity.")
]


class WhatIfRequest(RequestModel):
    """The changed machine; missing values stay as they are."""

    model_config = request_example(num_gpus=8, gpu_speed=1.5, bandwidth=32000.0, load=0.5, energy_weight=0.2)

    num_gpus: Annotated[int, Field(ge=1, le=16)] | None = None
    gpu_speed: Annotated[float, Field(ge=0.25, le=8, description="Factor on the GPUs' speed.")] = 1.0
    bandwidth: Annotated[float, Field(ge=500, le=200_000, description="MB/s between host and GPU.")] | None = None
    load: _Load | None = None
    utilisation: _Load | None = old_load()
    energy_weight: Annotated[float, Field(ge=0, le=1, description="0: only latency counts; 1: only energy.")] = 0.0
    scenario: ScenarioName | None = None
    schedulers: Annotated[list[SchedulerName], Field(min_length=1, max_length=12)] | None = None
    tasks: Annotated[int, Field(ge=50, le=1000)] = 300
    seeds: Annotated[int, Field(ge=2, le=16)] = 8

    _refuse_both = refuse_both_names
    _take_old = take_old_name


class Paired(ResponseModel):
    """A mean before and after, and the mean of the pairwise differences with its 95 % t interval."""

    baseline: float
    changed: float
    difference: float = Field(description="Changed minus baseline, seed by seed.")
    low: float
    high: float


class WhatIfRow(ResponseModel):
    """One scheduler before and after."""

    name: str
    latency: Paired = Field(description="Mean seconds from arrival to finish.")
    energy: Paired = Field(description="Joules per task.")
    cost: Paired = Field(description="Dollars per task.")
    n: int = Field(description="Pairs: one per seed.")


class WhatIfAnswer(ResponseModel):
    """Both machines under the same tasks."""

    scenario: str
    tasks: int
    seeds: int
    seconds: float = Field(description="Duration of the computation.")
    schedulers: list[WhatIfRow]
