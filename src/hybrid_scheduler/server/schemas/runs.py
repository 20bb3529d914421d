"""Models of runs, and of comparisons within and between them."""

from __future__ import annotations

from typing import Any, Literal

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
    #: Offered load; null for a measured run.
    load: float | None
    seed: int
    platform: str
    schedulers: list[str]
    config: dict[str, Any]
    config_hash: str
    tasks: int
    #: Name that people gave to the run; empty for none.
    name: str
    tags: list[str]
    note: str


class RunReplay(ResponseModel):
    """Commands that compute a run again."""

    commands: list[str]
    #: Whether they give every task of the run, in its order.
    exact: bool
    #: Changes during the run, plug-ins, and what can differ.
    notes: list[str]


class RunDetail(Run):
    """A run with its comparison as it was last stored."""

    comparison: list[SchedulerStatistics]
    #: Leader, and why the others are slower, in the whole run unless it is live; null without results.
    verdict: Verdict | None
    #: Null for a measured run, whose times cannot be repeated.
    replay: RunReplay | None


class RunPage(ResponseModel):
    """Runs, newest first."""

    runs: list[Run]
    #: Give this as `before` for the next page; null at the end.
    next_before: str | None


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
    #: Number of tasks behind the figures.
    tasks: int
    schedulers: list[ComparativeRow]
    first_task_id: int | None
    last_task_id: int | None
    #: Number of tasks on which the row's latency was lower than the column's.
    wins: dict[str, dict[str, int]]


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
    #: Ids have gaps if measured runs were stored meanwhile.
    first_task_id: int
    #: Virtual seconds at which the first of these tasks arrived.
    first_arrival: float
    schedulers: dict[str, TrendPoint]


class Trends(ResponseModel):
    """A run in at most `buckets` ranges of equally many tasks."""

    run_id: str | None
    #: True if the run is long and means are over a sample of each bucket.
    sampled: bool
    buckets: list[TrendBucket]


class SweepSummary(ResponseModel):
    """A stored sweep: results of many combinations."""

    name: str
    cells: int
    #: Unix seconds of the newest cell.
    modified_at: float


class SweepList(ResponseModel):
    """Stored sweeps, newest first."""

    sweeps: list[SweepSummary]


class Sweep(ResponseModel):
    """The cells of a sweep: one scheduler on one seed of one combination."""

    name: str
    #: Parameters (scenario, load, platform, noise, seed, scheduler) and metrics of each cell.
    cells: list[dict[str, float | bool | str | None]]
    #: True if the sweep has more cells than the largest number in a response.
    truncated: bool


class Gantt(ResponseModel):
    """Busy intervals of devices, as columns of equal length."""

    run_id: str
    scheduler: str
    #: All devices of the machine, in order.
    devices: list[str]
    task_id: list[int]
    #: Position of the task within its run, from 0.
    ordinal: list[int]
    device: list[str]
    part: list[Literal["cpu", "gpu"]]
    start: list[float]
    end: list[float]
    intensity: list[float]
    #: True if `limit` left something out.
    truncated: bool


class SchedulerLoad(ResponseModel):
    """Busy seconds of one scheduler's devices."""

    #: Busy seconds by device and column; those after `newest` are queued.
    busy: list[list[float]]
    #: Busy seconds by device between `start` and `known_to`.
    total: list[float]


class DeviceLoadResponse(ResponseModel):
    """Busy seconds of devices in columns of time. Nothing is sampled."""

    run_id: str
    #: All devices of the machine, in order.
    devices: list[str]
    #: Virtual seconds; at most one column before the start that was asked for.
    start: float
    end: float
    #: Up to here `total` counts; later tasks cannot change it.
    known_to: float
    #: Arrival of the newest stored task.
    newest: float
    #: Width of a column in seconds.
    column_s: float
    #: Stored tasks of the run.
    tasks: int
    schedulers: dict[str, SchedulerLoad]
    #: Every part of a task within the window; null for all schedulers and for too many parts.
    blocks: Gantt | None


class GanttDiff(ResponseModel):
    """Two schedules of the same tasks; the last three lists have one value per task that both have."""

    a: Gantt
    b: Gantt
    #: Position of the task within its run, from 0.
    ordinal: list[int]
    #: Whether the devices differ.
    moved: list[bool]
    #: Seconds that the task ends later in b.
    finish_difference: list[float]


class Difference(ResponseModel):
    """One metric in two runs."""

    a: float | None
    b: float | None
    #: b minus a.
    difference: float | None
    #: Half width of the difference's 95 % interval; the runs are independent.
    ci95: float | None


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
    #: Schedulers of both runs, in the order of run a.
    schedulers: list[DiffRow]
    #: Settings that differ: [in a, in b].
    changed: dict[str, list[Any]]
