"""Models of schedulers, scenarios, learned models, traces, statistics and health."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ...live.journal import VersionRecord
from .base_models import FieldProblem, ResponseModel
from .simulation import WorkloadShape


class LookResponse(ResponseModel):
    """Colours, glyph and line style of a scheduler in every chart."""

    dark: str
    light: str
    glyph: str
    dash: str


class SchedulerResponse(ResponseModel):
    """A registered scheduler."""

    name: str
    label: str
    look: LookResponse
    #: Part of the published comparison.
    published: bool
    protocol: str
    #: Knowledge of durations: nothing, estimates or exact values.
    knows: str
    summary: str
    parameters: dict[str, Any]
    order: int
    #: Takes part in the live run.
    in_run: bool


class ScenarioInfo(ResponseModel):
    """A scenario: distribution of tasks and their arrivals."""

    name: str
    description: str
    #: Offered load unless a request names another.
    load: float
    arrivals: str
    physics: str
    episode_length: int | None
    #: Smallest and largest; null: no upper limit.
    size: list[float | None]
    intensity: list[float]
    memory: list[float]


class Agent(ResponseModel):
    """Training state of a reinforcement-learning agent."""

    epsilon: float | None
    updates: int | None
    loss: float | None


class Accuracy(ResponseModel):
    """Error of recent predictions: 0.1 means that durations are wrong by a tenth, typically."""

    error: float
    #: The same for each kind of task, worst first.
    kinds: dict[str, float]
    #: Finished parts that the model has learned from.
    outcomes: int


class Model(ResponseModel):
    """A learned scheduler of the live run."""

    scheduler_name: str
    state: str
    #: Number of the duration model, by which rules and agent decide.
    current_version: int | None
    # Newest versions, oldest first.
    versions: list[VersionRecord]
    # Number of stored versions; old ones are thinned.
    total_versions: int
    # The oldest stored version.
    first_version: VersionRecord | None
    feature_importance: dict[str, float] | None
    agent: Agent | None
    accuracy: Accuracy | None
    #: The policy that decided last: agent, learned_rule, earliest_finish or trial.
    policy: str | None = None
    decided_by: dict[str, float] = Field(
        default_factory=dict, description="Share of the tasks that each of these policies decided."
    )


class _Predictions(ResponseModel):
    """Predicted durations against actual ones, and the results of the decisions."""

    #: Number of tasks.
    n: int
    #: Number of tasks whose duration was predicted.
    predictions: int
    #: Typical error: 0.1 means that durations are wrong by a tenth.
    error: float | None
    #: The same with its sign: above 0 durations were predicted too long.
    bias: float | None
    #: Typical stated uncertainty, one standard deviation as a share.
    uncertainty: float | None
    #: Share of durations within the stated 95 % interval.
    coverage: float | None
    mean_predicted: float | None
    mean_actual: float | None
    mean_latency: float | None
    mean_regret: float | None


class VersionAccuracy(_Predictions):
    """Results of the tasks that one model version decided."""

    #: None before there was a model.
    version: int | None
    first_ordinal: int
    #: Virtual seconds at which the first of these tasks arrived.
    first_arrival: float


class KindAccuracy(_Predictions):
    """Results of the tasks of one kind."""

    kind: str


class LearningCurve(ResponseModel):
    """A learned scheduler in a run: accuracy and results by model version and by kind of task."""

    run_id: str
    scheduler: str
    #: True if the run is long and only a sample of its tasks was read.
    sampled: bool
    #: In the order of their first decisions.
    versions: list[VersionAccuracy]
    kinds: list[KindAccuracy]
    #: The newest stored model versions, oldest first.
    history: list[VersionRecord]


class RetrainAccepted(ResponseModel):
    """The training was requested; a notification says when it is done."""

    scheduler_name: str
    accepted: bool


class ServiceHealth(ResponseModel):
    """State of a service that the server depends on."""

    #: `away`: the service is unavailable.
    state: Literal["ok", "away", "off"]
    kind: str


class EngineHealth(ResponseModel):
    """The engine as this server sees it."""

    #: State of the live run; `away`: the engine is unavailable.
    state: Literal["running", "paused", "stopped", "held", "away"]
    #: Seconds since the last heartbeat of an engine in another process.
    beat_age: float | None


class Health(ResponseModel):
    """State of the server and of the services behind it."""

    status: Literal["ok", "degraded", "down"]
    database: ServiceHealth
    cache: ServiceHealth
    engine: EngineHealth
    version: str


class Alive(ResponseModel):
    """The process answers."""

    status: Literal["ok"]


class OnlineResponse(ResponseModel):
    """Response at `/` for programs."""

    status: Literal["online"]
    message: str


class Statistics(ResponseModel):
    """Number of stored rows and size of the database."""

    database: str
    rows: dict[str, int]
    size_bytes: int | None
    first_recorded_at: float | None
    last_recorded_at: float | None


class _TraceFile(ResponseModel):
    name: str
    format: Literal["csv", "parquet"]
    size_bytes: int


class Trace(_TraceFile):
    """A file of tasks that can be replayed."""

    modified_at: float


class TraceList(ResponseModel):
    """The traces in the server's folder, by name."""

    traces: list[Trace]


class MachineOption(ResponseModel):
    """A machine that a run can have."""

    name: str
    #: The field of the request; a configured machine is the one without any.
    kind: Literal["configured", "platform", "profile"]
    label: str
    cpus: int
    accelerators: int
    #: Durations were measured on real devices.
    measured: bool


class ScenarioPreview(ResponseModel):
    """Histograms of a scenario's tasks at its own load on the configured machine."""

    name: str
    #: Tasks per second.
    rate: float
    shape: WorkloadShape


class TraceColumn(ResponseModel):
    """A column of an uploaded table with its first cells."""

    name: str
    first: list[str]


class TraceProblem(FieldProblem):
    """A row that cannot be used, and what would be right."""

    #: Line of the file, from 1; row of a Parquet table.
    line: int


class TraceInspection(ResponseModel):
    """Content of a file before it is stored."""

    #: Recognised format; null for a table that needs a mapping.
    format: str | None
    title: str
    columns: list[TraceColumn]
    #: Source of each value of a task.
    mapping: dict[str, str]
    notes: list[str]
    rows_read: int
    rows_kept: int
    #: The first bad rows.
    rejected: list[TraceProblem]
    #: Why the file cannot be read at all, or not yet.
    error: FieldProblem | None
    hint: str | None
    offered_load: float | None
    platform: str
    shape: WorkloadShape | None


class TraceAccepted(_TraceFile):
    """A trace that was validated and stored."""

    tasks: int
    ignored_columns: list[str]
