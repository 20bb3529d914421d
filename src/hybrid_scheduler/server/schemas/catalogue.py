"""What there is to choose from, what the models have become, and how the server is."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base_models import ResponseModel, example


class LookResponse(ResponseModel):
    """How a scheduler is drawn everywhere."""

    dark: str
    light: str
    glyph: str
    dash: str


class SchedulerResponse(ResponseModel):
    """An entry of the registry."""

    model_config = example(
        name="greedy",
        label="Greedy",
        look={"dark": "#FB7F27", "light": "#AE5F28", "glyph": "▲", "dash": "dash-dot"},
        published=True,
        protocol="online",
        knows="nothing",
        summary="Splits by intensity.",
        parameters={},
        order=3,
        in_run=True,
    )

    name: str
    label: str
    look: LookResponse
    published: bool = Field(description="Part of the published comparison.")
    protocol: str
    knows: str = Field(description="What it is told of durations.")
    summary: str
    parameters: dict[str, Any]
    order: int
    in_run: bool = Field(description="Takes part in the live run.")


class ScenarioInfo(ResponseModel):
    """A mix of tasks."""

    model_config = example(
        name="default",
        description="The ranges of the configuration",
        utilisation=0.1,
        arrivals="poisson",
        physics="analytic",
        episode_length=None,
        size=[500.0, 1500.0],
        intensity=[0.1, 0.9],
        memory=[50.0, 150.0],
    )

    name: str
    description: str
    utilisation: float
    arrivals: str
    physics: str
    episode_length: int | None
    size: list[float | None] = Field(description="Smallest and largest; null: no upper end.")
    intensity: list[float]
    memory: list[float]


class ModelVersionResponse(ResponseModel):
    """One version of a learned scheduler's model."""

    model_config = example(
        run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB",
        scheduler_name="hybrid_ml",
        version=3,
        samples=150,
        r2=0.97,
        trigger="interval",
        at_task=150,
        created_at=1763200000.0,
        seconds=0.4,
    )

    run_id: str
    scheduler_name: str
    version: int
    samples: int
    r2: float | None
    trigger: str
    at_task: int
    created_at: float
    seconds: float | None


class Agent(ResponseModel):
    """A learning agent's inner numbers."""

    epsilon: float | None
    updates: int | None
    loss: float | None


class Model(ResponseModel):
    """A learned scheduler of the live run."""

    scheduler_name: str
    state: str
    current_version: int | None
    versions: list[ModelVersionResponse]
    feature_importance: dict[str, float] | None
    agent: Agent | None


class RetrainAccepted(ResponseModel):
    """The training was ordered; a notification says when it is done."""

    model_config = example(scheduler_name="hybrid_ml", accepted=True)

    scheduler_name: str
    accepted: bool


class Part(ResponseModel):
    """One part the server leans on."""

    state: Literal["ok", "away", "off"]
    kind: str


class EngineHealth(ResponseModel):
    """The engine as this server sees it."""

    state: Literal["running", "paused", "stopped", "held", "away"]
    beat_age: float | None = Field(description="Seconds since the last sign of life, where it is another process.")


class Health(ResponseModel):
    """Is everything there?"""

    model_config = example(
        status="ok",
        database={"state": "ok", "kind": "sqlite"},
        cache={"state": "off", "kind": "memory"},
        engine={"state": "running", "beat_age": None},
        version="0.1.0",
    )

    status: Literal["ok", "degraded", "down"]
    database: Part
    cache: Part
    engine: EngineHealth
    version: str


class Alive(ResponseModel):
    """The process answers."""

    model_config = example(status="ok")

    status: Literal["ok"]


class OnlineResponse(ResponseModel):
    """What programs get at `/`."""

    model_config = example(status="online", message="Hybrid ML Scheduler Dashboard API is running")

    status: Literal["online"]
    message: str


class Statistics(ResponseModel):
    """How much is stored."""

    model_config = example(
        database="sqlite",
        rows={"tasks": 4812, "scheduler_results": 28872},
        size_bytes=9_400_320,
        first_recorded_at=1763200000.0,
        last_recorded_at=1763203600.0,
    )

    database: str
    rows: dict[str, int]
    size_bytes: int | None
    first_recorded_at: float | None
    last_recorded_at: float | None


class Trace(ResponseModel):
    """A file of tasks that can be replayed."""

    model_config = example(name="week", format="csv", size_bytes=48_211, modified_at=1763200000.0)

    name: str
    format: Literal["csv", "parquet"]
    size_bytes: int
    modified_at: float


class TraceList(ResponseModel):
    """The traces in the server's folder, by name."""

    traces: list[Trace]


class TraceAccepted(ResponseModel):
    """A trace was read whole, found good, and kept."""

    model_config = example(name="week", format="csv", tasks=1000, size_bytes=48_211, ignored_columns=[])

    name: str
    format: Literal["csv", "parquet"]
    tasks: int
    size_bytes: int
    ignored_columns: list[str]
