"""Models of the messages of `/ws`, which `GET /api/events` repeats."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ...live.status import LiveStatus, SchedulerStatistics
from ...metrics.verdict import Verdict
from .base_models import ResponseModel


class _Event(ResponseModel):
    #: Increases by one per message; a gap means that messages are missing.
    seq: int
    run_id: str
    #: Virtual seconds since the run began.
    t: float
    #: Unix seconds.
    created_at: float


class LatestTask(ResponseModel):
    """The newest task."""

    task_id: int
    size: float
    compute_intensity: float
    memory_required: float
    arrival_time: float


class LatestResult(ResponseModel):
    """Result of one scheduler for the newest task."""

    time: float | None
    latency: float | None
    energy: float | None
    cost: float | None
    device: str
    fraction: float | None
    regret: float | None


class DeviceUtilization(ResponseModel):
    """Share of the time in which a device was busy."""

    utilization: float


class Utilization(ResponseModel):
    """Utilization of one scheduler's cluster: the average, and every device by name."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, DeviceUtilization]

    average_utilization: float


class DecisionRow(ResponseModel):
    """One decision and its outcome."""

    task_id: int
    scheduler: str
    device: str
    fraction: float | None
    start: float | None
    finish: float | None
    #: Seconds of execution: the longer of the two parts.
    time: float | None
    latency: float | None
    #: Latency minus time.
    wait: float | None
    energy: float | None
    cost: float | None
    regret: float | None
    cpu_start: float | None
    cpu_time: float | None
    accelerator_start: float | None
    accelerator_time: float | None
    #: Standard deviation of the predicted log seconds on the chosen device.
    confidence: float | None = None
    size: float
    compute_intensity: float
    memory_required: float


class SimulationUpdate(_Event):
    """State of the run, about twice a second."""

    type: Literal["simulation_update"]
    task: LatestTask | None
    latest_results: dict[str, LatestResult]
    comparison: list[SchedulerStatistics]
    #: Lower bound on the mean latency of the tasks so far.
    latency_bound: float | None = None
    #: Lower bound on the makespan of the tasks so far.
    makespan_bound: float | None = None
    #: Arrival from which makespans count, in virtual seconds.
    first_arrival: float | None = None
    #: Leader, and why the others are slower.
    verdict: Verdict | None = None
    utilization: Utilization
    utilization_of: str
    #: Scheduler, device, busy share since the last update.
    utilizations: dict[str, dict[str, float]]
    #: Scheduler, device, seconds of queued work.
    backlogs: dict[str, dict[str, float]]
    decisions: list[DecisionRow] = Field(max_length=200, description="Newest last.")
    #: Number of decisions left out.
    omitted: int
    tasks_processed: int
    tasks_per_second: float
    virtual_time: float
    state: Literal["running", "paused", "stopped", "held"]


class Notification(_Event):
    """A message for people."""

    type: Literal["notification"]
    level: Literal["info", "warning", "error"]
    #: retrained, drift, fallback, recovered, episode, run_started, paused, storage, …
    kind: str
    message: str
    scheduler: str | None = None
    version: int | None = None
    at_task: int | None = None


class LogLine(_Event):
    """A decision as text; at high rates a sample."""

    type: Literal["log"]
    level: str
    scheduler: str | None
    message: str
    task_id: int | None


class Hello(ResponseModel):
    """First message of a connection. It is not stored; `seq` is that of the last message before it."""

    type: Literal["hello"]
    seq: int
    run_id: str | None
    server_version: str
    status: LiveStatus | None


StreamEvent = Annotated[SimulationUpdate | Notification | LogLine, Field(discriminator="type")]


class EventPage(ResponseModel):
    """Stored events after a sequence number, in order."""

    events: list[StreamEvent]
    #: The newest stored event.
    last_seq: int
    #: The oldest stored update or log line.
    oldest_seq: int
    #: True if the page is full; continue after its last event.
    truncated: bool
