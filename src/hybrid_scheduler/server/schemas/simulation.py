"""Models of the live run's state and commands."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base_models import (
    Load,
    RequestModel,
    ResponseModel,
    ScenarioName,
    SchedulerName,
    Seed,
    Speed,
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


class Status(ResponseModel):
    """State of the live run."""

    state: Literal["running", "paused", "stopped", "held"] = Field(
        description="`held`: the database is unavailable, and no tasks are made until it is back."
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
    comparison: list[ComparisonRow]


class StartRequest(RequestModel):
    """Settings of a new run; missing ones come from the configuration."""

    model_config = request_example(scenario="mixed", load=0.4, seed=7, speed=1.0, schedulers=["greedy", "oracle"])

    scenario: ScenarioName | None = None
    load: Load | None = None
    utilisation: Load | None = old_load()
    seed: Seed | None = None
    speed: Speed | None = None
    schedulers: Annotated[list[SchedulerName], Field(min_length=1, max_length=20)] | None = None

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
