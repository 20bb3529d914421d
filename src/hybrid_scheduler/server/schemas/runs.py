"""Models of runs, and of comparisons within and between them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ...live.status import RunSource, RunStatus, SchedulerStatistics
from ...metrics.verdict import Verdict
from .base_models import ResponseModel


class Run(ResponseModel):
    """A run with its seed, scenario and machine."""

    run_id: str
    created_at: float
    ended_at: float | None
    status: RunStatus
    source: RunSource
    scenario: str
    load: float | None = Field(description="Offered load; null for a measured run.")
    seed: int
    platform: str
    schedulers: list[str]
    config: dict[str, Any]
    config_hash: str
    tasks: int
    name: str = Field(description="Name that people gave to the run; empty for none.")
    tags: list[str]
    note: str


class RunReplay(ResponseModel):
    """Commands that compute a run again."""

    commands: list[str]
    exact: bool = Field(description="Whether they give every task of the run, in its order.")
    notes: list[str] = Field(description="Changes during the run, plug-ins, and what can differ.")


class RunDetail(Run):
    """A run with its comparison as it was last stored."""

    comparison: list[SchedulerStatistics]
    verdict: Verdict | None = Field(
        description="Leader, and why the others are slower, in the whole run unless it is live; null without "
        "results."
    )
    replay: RunReplay | None = Field(description="Null for a measured run, whose times cannot be repeated.")


class RunPage(ResponseModel):
    """Runs, newest first."""

    runs: list[Run]
    next_before: str | None = Field(description="Give this as `before` for the next page; null at the end.")


class ComparativeRow(ResponseModel):
    """One scheduler over the newest tasks."""

    name: str
    tasks: int
    failed: int
    mean_time: float | None
    mean_latency: float | None
    mean_wait: float | None
    mean_energy: float | None
    mean_cost: float | None
    total_energy: float
    total_cost: float
    mean_gpu_fraction: float | None
    mean_regret: float | None
    p50_latency: float | None
    p95_latency: float | None
    p99_latency: float | None


class Comparative(ResponseModel):
    """Schedulers side by side over the newest tasks in the database."""

    run_id: str | None
    tasks: int = Field(description="Number of tasks behind the figures.")
    schedulers: list[ComparativeRow]
    first_task_id: int | None
    last_task_id: int | None
    wins: dict[str, dict[str, int]] = Field(
        description="Number of tasks on which the row's latency was lower than the column's."
    )


class TrendPoint(ResponseModel):
    """Means of one scheduler over one bucket."""

    n: int
    mean_latency: float | None
    mean_time: float | None
    mean_energy: float | None
    mean_cost: float | None
    mean_regret: float | None


class TrendBucket(ResponseModel):
    """A range of a run's tasks, counted within the run."""

    first_ordinal: int
    last_ordinal: int
    first_task_id: int = Field(description="Ids have gaps if measured runs were stored meanwhile.")
    first_arrival: float = Field(description="Virtual seconds at which the first of these tasks arrived.")
    schedulers: dict[str, TrendPoint]


class Trends(ResponseModel):
    """A run in at most `buckets` ranges of equally many tasks."""

    run_id: str | None
    sampled: bool = Field(description="True if the run is long and means are over a sample of each bucket.")
    buckets: list[TrendBucket]


class SweepSummary(ResponseModel):
    """A stored sweep: results of many combinations."""

    name: str
    cells: int
    modified_at: float = Field(description="Unix seconds of the newest cell.")


class SweepList(ResponseModel):
    """Stored sweeps, newest first."""

    sweeps: list[SweepSummary]


class Sweep(ResponseModel):
    """The cells of a sweep: one scheduler on one seed of one combination."""

    name: str
    cells: list[dict[str, float | bool | str | None]] = Field(
        description="Parameters (scenario, load, platform, noise, seed, scheduler) and metrics of each cell."
    )
    truncated: bool = Field(description="True if the sweep has more cells than the largest number in a response.")


class Gantt(ResponseModel):
    """Busy intervals of devices, as columns of equal length."""

    run_id: str
    scheduler: str
    devices: list[str] = Field(description="All devices of the machine, in order.")
    task_id: list[int]
    ordinal: list[int] = Field(description="Position of the task within its run, from 0.")
    device: list[str]
    part: list[Literal["cpu", "gpu"]]
    start: list[float]
    end: list[float]
    intensity: list[float]
    truncated: bool = Field(description="True if `limit` left something out.")


class SchedulerLoad(ResponseModel):
    """Busy seconds of one scheduler's devices."""

    busy: list[list[float]] = Field(
        description="Busy seconds by device and column; those after `newest` are queued."
    )
    total: list[float] = Field(description="Busy seconds by device between `start` and `known_to`.")


class DeviceLoadResponse(ResponseModel):
    """Busy seconds of devices in columns of time. Nothing is sampled."""

    run_id: str
    devices: list[str] = Field(description="All devices of the machine, in order.")
    start: float = Field(description="Virtual seconds; at most one column before the start that was asked for.")
    end: float
    known_to: float = Field(description="Up to here `total` counts; later tasks cannot change it.")
    newest: float = Field(description="Arrival of the newest stored task.")
    column_s: float = Field(description="Width of a column in seconds.")
    tasks: int = Field(description="Stored tasks of the run.")
    schedulers: dict[str, SchedulerLoad]
    blocks: Gantt | None = Field(
        description="Every part of a task within the window; null for all schedulers and for too many parts."
    )


class GanttDiff(ResponseModel):
    """Two schedules of the same tasks; the last three lists have one value per task that both have."""

    a: Gantt
    b: Gantt
    ordinal: list[int] = Field(description="Position of the task within its run, from 0.")
    moved: list[bool] = Field(description="Whether the devices differ.")
    finish_difference: list[float] = Field(description="Seconds that the task ends later in b.")


class Difference(ResponseModel):
    """One metric in two runs."""

    a: float | None
    b: float | None
    difference: float | None = Field(description="b minus a.")
    ci95: float | None = Field(
        description="Half width of the difference's 95 % interval; the runs are independent."
    )


class DiffRow(ResponseModel):
    """One scheduler in two runs."""

    name: str
    mean_latency: Difference
    mean_time: Difference
    mean_energy: Difference
    mean_cost: Difference
    p95_latency: Difference


class RunDiff(ResponseModel):
    """Two runs side by side."""

    a: RunDetail
    b: RunDetail
    schedulers: list[DiffRow] = Field(description="Schedulers of both runs, in the order of run a.")
    changed: dict[str, list[Any]] = Field(description="Settings that differ: [in a, in b].")
