"""Models of tasks and results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .base_models import ExternalId, Kind, RequestModel, ResponseModel

ResultStatus = Literal["ran", "clipped", "moved_to_cpu", "failed", "paged"]


class Result(ResponseModel):
    """Result of one scheduler for one task, in seconds, joules and dollars; a failed task has no times."""

    scheduler_name: str
    device: str = Field(description="The accelerator that ran a part, or the CPU.")
    gpu_fraction: float | None = Field(description="Share of the work on the accelerator, 0 to 1.")
    actual_time: float | None = Field(description="Seconds of execution: the longer of the two parts.")
    latency: float | None = Field(description="Seconds from arrival to finish.")
    wait: float | None = Field(description="Latency minus actual_time.")
    start_time: float | None = Field(description="Virtual seconds since the run began.")
    finish_time: float | None
    cpu_start: float | None = Field(description="Null if no part ran on the CPU.")
    cpu_time: float | None
    gpu_start: float | None = Field(description="Null if no part ran on an accelerator.")
    gpu_time: float | None
    energy_consumption: float | None = Field(description="Joules.")
    execution_cost: float | None = Field(description="Dollars.")
    regret: float | None = Field(description="Latency minus the oracle's for this task; null without an oracle.")
    predicted_time: float | None = Field(description="Prediction of a learned scheduler, seconds.")
    confidence: float | None = Field(
        description="Standard deviation of the predicted log seconds on the chosen device: 0.1 means about 10 %."
    )
    status: ResultStatus
    model_version: int | None


class ResultRow(Result):
    """A result with the task it belongs to."""

    task_id: int
    run_id: str


class ResultPage(ResponseModel):
    """Results in the order of their tasks."""

    results: list[ResultRow]
    next_after: int | None = Field(
        description="Value of `after_task` for the next page; null if the page is empty."
    )


class TaskResponse(ResponseModel):
    """A stored task."""

    task_id: int
    run_id: str
    ordinal: int = Field(description="Position within the run, from 0.")
    external_id: str | None
    size: float
    compute_intensity: float
    memory_required: float = Field(description="MB.")
    arrival_time: float = Field(description="Virtual seconds since the run began.")
    dependencies: list[int]
    kind: str
    recorded_at: float = Field(description="Unix seconds.")
    divisible: bool = Field(description="Whether a GPU and its CPU may each run a part of the task.")


class PredictedDuration(ResponseModel):
    """Predicted duration of a whole task on equal devices."""

    devices: list[str]
    seconds: float
    spread: float = Field(description="Standard deviation of the log seconds: 0.1 means about 10 %.")


class ValuedOption(ResponseModel):
    """A placement with its value to a learned policy."""

    device: str
    gpu_fraction: float
    cost: float = Field(description="Predicted cost of this task, in typical task times.")
    value: float = Field(description="Q-value: the largest is best. It includes the cost for later tasks.")


class DecisionExplanation(ResponseModel):
    """Values by which a learned or central scheduler placed a task; the latter may predict nothing."""

    policy: str = Field(description="The policy that decided; `trial` if a device of unknown speed was tried.")
    predictions: list[PredictedDuration]
    records: dict[str, float] = Field(
        description="Running mean cost of each policy that may decide, in seconds of latency; the lowest decides."
    )
    options: list[ValuedOption] = Field(description="Placements that a network valued; empty without one.")
    queued: float | None = Field(
        None,
        description="Seconds that the task waited in the common queue of a central scheduler before it was placed; "
        "null if it was placed at its arrival.",
    )


class TaskDetail(TaskResponse):
    """A task with the results of every scheduler."""

    results: dict[str, Result]
    optimal_gpu_fraction: float | None = Field(description="The best share on an idle machine.")
    optimal_time: float | None = Field(description="Execution time with that share, seconds.")


class ExplainedTask(TaskDetail):
    """A task with its results and the values by which learned schedulers placed it."""

    explanations: dict[str, DecisionExplanation] = Field(
        description="By learned or central scheduler; only for the newest 1,000 tasks of the live run."
    )


class TaskPage(ResponseModel):
    """Tasks, newest first."""

    tasks: list[TaskResponse]
    next_before: int | None = Field(description="Value of `before` for the next page; null at the end.")


class TaskCreate(RequestModel):
    """A task to submit to every scheduler at the run's current time."""

    size: Annotated[float, Field(ge=0.001, le=1e6, description="Problem size; work grows with size^1.5.")]
    compute_intensity: Annotated[float, Field(ge=0, le=1, description="How much a GPU helps, 0 to 1.")]
    memory_required: Annotated[float, Field(ge=0, le=1e7, description="MB.")]
    kind: Kind = "generic"
    external_id: ExternalId | None = None
    divisible: bool = Field(default=True, description="Whether a GPU and its CPU may each run a part of the task.")
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

    deleted_tasks: int = Field(description="Tasks that are deleted.")
    tasks: int = Field(description="Tasks to delete in all.")
    done: bool = Field(description="False while the deletion is going on.")
