"""Models of the live run's state and commands, and of what-if requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from ...experiments.what_if import WhatIfResult
from ...physics import Slowdown
from . import base_models as base


class StartRequest(base.RunSettings, base.WithOldLoad):
    """Settings of a new run; missing ones come from the configuration."""

    schedulers: Annotated[list[base.SchedulerName], Field(min_length=1, max_length=20)] | None = None


_Parameter = Annotated[
    Annotated[bool, Field(strict=True)]
    | Annotated[int, Field(strict=True, ge=-(10**6), le=10**6)]
    | Annotated[float, Field(strict=True, ge=-1e6, le=1e6)]
    | Annotated[str, Field(strict=True, pattern=r"^[a-z][a-z0-9_\-]{0,39}$")]
    | None,
    Field(description="A number, a truth value, a lower-case word, or null."),
]


class SchedulerChoice(base.RequestModel):
    """A scheduler that takes part, with the parameters that differ from its own."""

    name: base.SchedulerName
    parameters: Annotated[
        dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")], _Parameter],
        Field(max_length=20, default_factory=dict),
    ]


class SlowdownRequest(base.RequestModel):
    """A time in which tasks take longer on a device. Tasks count by their arrival."""

    device: Annotated[
        base.Text,
        Field(min_length=1, max_length=64, description="A device, such as `gpu_1`, or a kind, such as `gpu`."),
    ]
    factor: Annotated[float, Field(gt=1, le=1000, description="Factor on the durations.")]
    start: Annotated[float, Field(ge=0, le=1e9, description="First virtual second.")]
    until: Annotated[float, Field(gt=0, le=1e9, description="Virtual second of the recovery.")]
    every: Annotated[float, Field(gt=0, le=1e9, description="Seconds after which it comes again.")] | None = None


class RunRequest(base.RunSettings):
    """Settings of a new run; missing ones come from the run to repeat, or from the configuration."""

    #: A stored run whose settings hold where none is given.
    repeats: base.RunId | None = None
    schedulers: Annotated[list[SchedulerChoice], Field(min_length=1, max_length=20)] | None = None
    #: A built-in platform, see `GET /api/machines`.
    platform: base.MachineName | None = None
    #: A machine of your own, as in a platform file.
    platform_yaml: Annotated[base.Text, Field(min_length=1, max_length=20_000)] | None = None
    #: A measured profile, see `GET /api/machines`.
    profile: base.MachineName | None = None
    #: A time in which a device is slower; null for none. If left out, that of the run to repeat or of the
    #: configuration, unless scenario, trace or machine are given.
    slowdown: SlowdownRequest | None = None
    name: base.RunName | None = None
    tags: base.Tags | None = None
    note: base.Note | None = None

    @field_validator("platform_yaml", "profile")
    @classmethod
    def _one_machine(cls, value: str | None, info: ValidationInfo) -> str | None:
        return base.refuse_second(value, info, "platform", "platform_yaml")


class RunLabelsRequest(base.RequestModel):
    """New name, tags or note of a run; missing ones stay."""

    name: base.RunName | None = None
    tags: base.Tags | None = None
    note: base.Note | None = None


class WorkloadShape(base.ResponseModel):
    """Histograms of tasks."""

    #: Virtual seconds that the arrivals cover.
    seconds: float
    #: Tasks per bin of time.
    arrivals: list[int]
    size_low: float
    size_high: float
    #: Tasks per bin of size, on a logarithmic axis.
    sizes: list[int]
    #: Tasks per tenth of intensity.
    intensities: list[int]


class SaturationLimit(base.ResponseModel):
    """Load above which the queues of a scheduler grow without end."""

    scheduler: str
    load: float


class PreviewPlatform(base.ResponseModel):
    """The machine of a run that was not begun."""

    name: str
    cpus: int
    devices: int


class RunPreview(base.ResponseModel):
    """Tasks, load and limits of a run that was not begun."""

    scenario: str
    #: Offered load; null if all tasks arrive at once.
    load: float | None
    #: Tasks per second that the machine can run.
    capacity: float | None
    #: Tasks per second that arrive on average.
    rate: float | None
    schedulers: list[str]
    seed: int
    platform: PreviewPlatform
    #: Durations come from a measured profile.
    measured: bool
    slowdown: Slowdown | None = None
    #: Saturation limits of the schedulers that ignore the queues.
    limits: list[SaturationLimit]
    warnings: list[str]
    #: Tasks of the trace; null for a scenario.
    tasks: int | None
    shape: WorkloadShape


class SpeedRequest(base.RequestModel):
    """Speed of virtual time."""

    speed: base.Speed


class ScenarioRequest(base.WithOldLoad):
    """Scenario of all further tasks."""

    scenario: base.ScenarioName


_Load = Annotated[
    float, Field(ge=0.05, le=1.2, description="Arrival rate as a share of the baseline machine's capacity.")
]


class WhatIfRequest(base.WithOldLoad):
    """The changed machine; missing values are those of the baseline machine."""

    num_gpus: Annotated[int, Field(ge=1, le=16)] | None = None
    gpu_speed: Annotated[float, Field(ge=0.25, le=8, description="Factor on the GPUs' speed.")] = 1.0
    bandwidth: Annotated[float, Field(ge=500, le=200_000, description="MB/s between host and GPU.")] | None = None
    load: _Load | None = None
    utilisation: _Load | None = base.old_load()
    energy_weight: Annotated[float, Field(ge=0, le=1, description="0: only latency counts; 1: only energy.")] = 0.0
    scenario: base.ScenarioName | None = None
    schedulers: Annotated[list[base.SchedulerName], Field(min_length=1, max_length=20)] | None = None
    tasks: Annotated[int, Field(ge=50, le=1000)] = 300
    seeds: Annotated[int, Field(ge=2, le=16)] = 8


class WhatIfResponse(base.ResponseModel):
    """The baseline machine and the changed machine under the same tasks."""

    scenario: str
    tasks: int
    seeds: int
    #: Duration of the computation.
    seconds: float
    schedulers: list[WhatIfResult]
