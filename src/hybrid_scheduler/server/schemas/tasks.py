"""Models of tasks and results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .base_models import ExternalId, Kind, RequestModel, ResponseModel

ResultStatus = Literal["ran", "clipped", "moved_to_cpu", "failed", "paged"]


class Result(ResponseModel):
    """Result of one scheduler for one task, in seconds, joules and dollars; a failed task has no times."""

    scheduler_name: str
    #: The accelerator that ran a part, or the CPU.
    device: str
    #: Share of the work on the accelerator, 0 to 1.
    gpu_fraction: float | None
    #: Seconds of execution: the longer of the two parts.
    actual_time: float | None
    #: Seconds from arrival to finish.
    latency: float | None
    #: Latency minus actual_time.
    wait: float | None
    #: Virtual seconds since the run began.
    start_time: float | None
    finish_time: float | None
    #: Null if no part ran on the CPU.
    cpu_start: float | None
    cpu_time: float | None
    #: Null if no part ran on an accelerator.
    gpu_start: float | None
    gpu_time: float | None
    #: Joules.
    energy_consumption: float | None
    #: Dollars.
    execution_cost: float | None
    #: Latency minus the oracle's for this task; null without an oracle.
    regret: float | None
    #: Prediction of a learned scheduler, seconds.
    predicted_time: float | None
    #: Standard deviation of the predicted log seconds on the chosen device: 0.1 means about 10 %.
    confidence: float | None
    status: ResultStatus
    model_version: int | None


class ResultRow(Result):
    """A result with the task it belongs to."""

    task_id: int
    run_id: str


class ResultPage(ResponseModel):
    """Results in the order of their tasks."""

    results: list[ResultRow]
    #: Value of `after_task` for the next page; null if the page is empty.
    next_after: int | None


class TaskResponse(ResponseModel):
    """A stored task."""

    task_id: int
    run_id: str
    #: Position within the run, from 0.
    ordinal: int
    external_id: str | None
    size: float
    compute_intensity: float
    #: MB.
    memory_required: float
    #: Virtual seconds since the run began.
    arrival_time: float
    dependencies: list[int]
    kind: str
    #: Unix seconds.
    recorded_at: float
    #: Whether a GPU and its CPU may each run a part of the task.
    divisible: bool


class PredictedDuration(ResponseModel):
    """Predicted duration of a whole task on equal devices."""

    devices: list[str]
    seconds: float
    #: Standard deviation of the log seconds: 0.1 means about 10 %.
    spread: float


class ValuedOption(ResponseModel):
    """A placement with its value to a learned policy."""

    device: str
    gpu_fraction: float
    #: Predicted cost of this task, in typical task times.
    cost: float
    #: Q-value: the largest is best. It includes the cost for later tasks.
    value: float


class DecisionExplanation(ResponseModel):
    """Values by which a learned or central scheduler placed a task; the latter may predict nothing."""

    #: The policy that decided; `trial` if a device of unknown speed was tried.
    policy: str
    predictions: list[PredictedDuration]
    #: Running mean cost of each policy that may decide, in seconds of latency; the lowest decides.
    records: dict[str, float]
    #: Placements that a network valued; empty without one.
    options: list[ValuedOption]
    #: Seconds that the task waited in the common queue of a central scheduler before it was placed; null if it was
    #: placed at its arrival.
    queued: float | None = None


class TaskDetail(TaskResponse):
    """A task with the results of every scheduler."""

    results: dict[str, Result]
    #: The best share on an idle machine.
    optimal_gpu_fraction: float | None
    #: Execution time with that share, seconds.
    optimal_time: float | None


class ExplainedTask(TaskDetail):
    """A task with its results and the values by which learned schedulers placed it."""

    #: By learned or central scheduler; only for the newest 1,000 tasks of the live run.
    explanations: dict[str, DecisionExplanation]


class TaskPage(ResponseModel):
    """Tasks, newest first."""

    tasks: list[TaskResponse]
    #: Value of `before` for the next page; null at the end.
    next_before: int | None


class TaskCreate(RequestModel):
    """A task to submit to every scheduler at the run's current time."""

    size: Annotated[float, Field(ge=0.001, le=1e6, description="Problem size; work grows with size^1.5.")]
    compute_intensity: Annotated[float, Field(ge=0, le=1, description="How much a GPU helps, 0 to 1.")]
    memory_required: Annotated[float, Field(ge=0, le=1e7, description="MB.")]
    kind: Kind = "generic"
    external_id: ExternalId | None = None
    #: Whether a GPU and its CPU may each run a part of the task.
    divisible: bool = True
    task_id: Annotated[
        int | None,
        Field(
            ge=0,
            le=2**63 - 1,
            description="Your own number of the task, kept as `external_id` unless that is given too.",
        ),
    ] = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the task to submit, with a number of the client's own as `external_id`."""
        found = self.model_dump(exclude={"task_id"})
        if self.divisible:  # left out, so that repeated requests of older clients keep their fingerprint
            del found["divisible"]
        if self.external_id is None and self.task_id is not None:
            found["external_id"] = str(self.task_id)
        return found


class Deleted(ResponseModel):
    """Progress of a deletion."""

    #: Tasks that are deleted.
    deleted_tasks: int
    #: Tasks to delete in all.
    tasks: int
    #: False while the deletion is going on.
    done: bool
