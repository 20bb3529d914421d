"""Models of the live run's state and commands, and of what-if requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from .base_models import (
    Load,
    MachineName,
    Note,
    RequestModel,
    ResponseModel,
    RunId,
    RunName,
    ScenarioName,
    SchedulerName,
    Seed,
    Speed,
    Tags,
    Text,
    TraceName,
    old_load,
    refuse_both_names,
    refuse_repeat_without_trace,
    refuse_second,
    refuse_two_sources,
    request_example,
    take_old_name,
)
from .runs import ComparisonRow, VerdictResponse


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


class SlowdownInfo(ResponseModel):
    """A time in which tasks take longer on a device, by their arrival."""

    device: str = Field(description="Name of a device, or a kind for all devices of it.")
    factor: float
    start: float
    until: float
    every: float | None = Field(None, description="Seconds after which it comes again; null for once.")


class Status(ResponseModel):
    """State of the live run."""

    state: Literal["running", "paused", "stopped", "held"] = Field(
        description="`held`: the run is on hold because the journal cannot take more batches, usually while the "
        "database is unavailable, or because the engine's process is unavailable."
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
    storage: Literal["ok", "away"] = Field(description="`away`: the database is unavailable.")
    notes: list[str] = Field(description="Remarks on the numbers.")
    latency_bound: float | None = Field(
        None, description="Lower bound on the mean latency of the tasks so far; no scheduler can beat it."
    )
    makespan_bound: float | None = Field(None, description="Lower bound on the makespan of the tasks so far.")
    first_arrival: float | None = Field(None, description="Arrival from which makespans count, in virtual seconds.")
    slowdown: SlowdownInfo | None = Field(None, description="A time in which a device is slower.")
    comparison: list[ComparisonRow]
    verdict: VerdictResponse | None = Field(
        None, description="Leader, and why the others are slower; null without a run."
    )


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

    _one_source = refuse_two_sources
    _of_a_trace = refuse_repeat_without_trace
    _refuse_both = refuse_both_names
    _take_old = take_old_name


_Parameter = Annotated[
    Annotated[bool, Field(strict=True)]
    | Annotated[int, Field(strict=True, ge=-(10**6), le=10**6)]
    | Annotated[float, Field(strict=True, ge=-1e6, le=1e6)]
    | Annotated[str, Field(strict=True, pattern=r"^[a-z][a-z0-9_\-]{0,39}$")]
    | None,
    Field(description="A number, a truth value, a lower-case word, or null."),
]


class SchedulerChoice(RequestModel):
    """A scheduler that takes part, with the parameters that differ from its own."""

    name: SchedulerName
    parameters: Annotated[
        dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")], _Parameter],
        Field(max_length=20, default_factory=dict),
    ]


class SlowdownRequest(RequestModel):
    """A time in which tasks take longer on a device. Tasks count by their arrival."""

    model_config = request_example(device="gpu_1", factor=3.0, start=20.0, until=40.0)

    device: Annotated[
        Text,
        Field(min_length=1, max_length=64, description="A device, such as `gpu_1`, or a kind, such as `gpu`."),
    ]
    factor: Annotated[float, Field(gt=1, le=1000, description="Factor on the durations.")]
    start: Annotated[float, Field(ge=0, le=1e9, description="First virtual second.")]
    until: Annotated[float, Field(gt=0, le=1e9, description="Virtual second of the recovery.")]
    every: Annotated[float, Field(gt=0, le=1e9, description="Seconds after which it comes again.")] | None = None


class RunRequest(RequestModel):
    """Settings of a new run; missing ones come from the run to repeat, or from the configuration."""

    model_config = request_example(
        scenario="mixed",
        load=0.4,
        seed=7,
        speed=4.0,
        schedulers=[{"name": "greedy"}, {"name": "oracle", "parameters": {"grid": 11}}],
        platform="laptop",
        name="Mixed on a laptop",
        tags=["baseline"],
    )

    repeats: RunId | None = Field(default=None, description="A stored run whose settings hold where none is given.")
    scenario: ScenarioName | None = None
    load: Load | None = None
    trace: TraceName | None = None
    repeat: bool = Field(
        default=False, description="Begin the trace again at its end; otherwise the run ends there."
    )
    seed: Seed | None = None
    speed: Speed | None = None
    schedulers: Annotated[list[SchedulerChoice], Field(min_length=1, max_length=20)] | None = None
    platform: MachineName | None = Field(default=None, description="A built-in platform, see `GET /api/machines`.")
    platform_yaml: Annotated[Text, Field(min_length=1, max_length=20_000)] | None = Field(
        default=None, description="A machine of your own, as in a platform file."
    )
    profile: MachineName | None = Field(default=None, description="A measured profile, see `GET /api/machines`.")
    slowdown: SlowdownRequest | None = Field(
        default=None,
        description="A time in which a device is slower; null for none. If left out, that of the run to repeat or "
        "of the configuration, unless scenario, trace or machine are given.",
    )
    name: RunName | None = None
    tags: Tags | None = None
    note: Note | None = None

    _one_source = refuse_two_sources
    _of_a_trace = refuse_repeat_without_trace

    @field_validator("platform_yaml", "profile")
    @classmethod
    def _one_machine(cls, value: str | None, info: ValidationInfo) -> str | None:
        return refuse_second(value, info, "platform", "platform_yaml")


class RunLabelsRequest(RequestModel):
    """New name, tags or note of a run; missing ones stay."""

    model_config = request_example(name="Mixed on a laptop", tags=["baseline"], note="Greedy saturates.")

    name: RunName | None = None
    tags: Tags | None = None
    note: Note | None = None


class WorkloadShape(ResponseModel):
    """Histograms of tasks."""

    seconds: float = Field(description="Virtual seconds that the arrivals cover.")
    arrivals: list[int] = Field(description="Tasks per bin of time.")
    size_low: float
    size_high: float
    sizes: list[int] = Field(description="Tasks per bin of size, on a logarithmic axis.")
    intensities: list[int] = Field(description="Tasks per tenth of intensity.")


class SaturationLimit(ResponseModel):
    """Load above which the queues of a scheduler grow without end."""

    scheduler: str
    load: float


class PreviewPlatform(ResponseModel):
    """The machine of a run that was not begun."""

    name: str
    cpus: int
    devices: int


class RunPreview(ResponseModel):
    """Tasks, load and limits of a run that was not begun."""

    scenario: str
    load: float | None = Field(description="Offered load; null if all tasks arrive at once.")
    capacity: float | None = Field(description="Tasks per second that the machine can run.")
    rate: float | None = Field(description="Tasks per second that arrive on average.")
    schedulers: list[str]
    seed: int
    platform: PreviewPlatform
    measured: bool = Field(description="Durations come from a measured profile.")
    slowdown: SlowdownInfo | None = None
    limits: list[SaturationLimit] = Field(description="Saturation limits of the schedulers that ignore the queues.")
    warnings: list[str]
    tasks: int | None = Field(description="Tasks of the trace; null for a scenario.")
    shape: WorkloadShape


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
    float, Field(ge=0.05, le=1.2, description="Arrival rate as a share of the baseline machine's capacity.")
]


class WhatIfRequest(RequestModel):
    """The changed machine; missing values are those of the baseline machine."""

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
    latency_bound: Paired | None = Field(
        None,
        description="Lower bound on the mean latency, the same for all schedulers; null where tasks can fail.",
    )


class WhatIfResponse(ResponseModel):
    """The baseline machine and the changed machine under the same tasks."""

    scenario: str
    tasks: int
    seeds: int
    seconds: float = Field(description="Duration of the computation.")
    schedulers: list[WhatIfRow]
