"""Models of runs, and of comparisons within and between them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base_models import ResponseModel, response_example

SchedulerState = Literal["ready", "warming", "learned", "fallback", "off"]
_RUN = {
    "run_id": "01JCQ4W3E8Z0V6M8T1S9Y5K2RB",
    "created_at": 1763200000.0,
    "ended_at": None,
    "status": "running",
    "source": "simulated",
    "scenario": "default",
    "load": 0.1,
    "seed": 42,
    "platform": "workstation",
    "schedulers": ["greedy", "oracle"],
    "config": {"speed": 1.0},
    "config_hash": "9f86d081",
    "tasks": 105,
    "name": "Mixed on a laptop",
    "tags": ["baseline"],
    "note": "",
}


class ComparisonRow(ResponseModel):
    """Statistics of one scheduler since the run began: seconds, joules, dollars; null before the first task."""

    name: str
    tasks: int
    failed: int
    mean_time: float | None = Field(description="Mean execution time.")
    mean_latency: float | None = Field(description="Mean time from arrival to finish, waiting included.")
    latency_ci95: float | None = Field(description="Half width of the 95 % interval (batch means).")
    latency_over_bound: float | None = Field(
        None, description="Mean latency over the lower bound that no scheduler can beat."
    )
    mean_wait: float | None
    mean_energy: float | None
    mean_cost: float | None
    total_energy: float
    total_cost: float
    mean_gpu_fraction: float | None
    mean_regret: float | None = Field(description="Mean latency minus the oracle's, task by task.")
    regret_ci95: float | None = Field(description="Half width of its 95 % interval, paired with the oracle.")
    p50_latency: float | None
    p95_latency: float | None
    p99_latency: float | None
    window: int = Field(description="Number of newest tasks behind the quantiles.")
    makespan: float | None
    load_balance: float | None = Field(description="Jain's index over the devices; 1 is even.")
    state: SchedulerState = Field(description="`off`: it failed and was removed from the run.")
    model_version: int | None
    waiting: int = Field(
        0, description="Tasks in the common queue of a central scheduler, which have no result yet."
    )


class Run(ResponseModel):
    """A run with its seed, scenario and machine."""

    model_config = response_example(**_RUN)

    run_id: str
    created_at: float
    ended_at: float | None
    status: Literal["running", "paused", "stopped"]
    source: Literal["simulated", "measured"]
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


class VerdictReason(ResponseModel):
    """One reason why a scheduler loses, with its numbers and where to see it."""

    code: str = Field(
        description="overload, rush, idle, splitting, transfer, memory, cold, drift, queue, unstable, placement, "
        "waiting or equal."
    )
    scheduler: str
    text: str = Field(description="A clause whose subject is the scheduler.")
    numbers: dict[str, float]
    window: tuple[float, float] | None = Field(description="Virtual seconds of the Gantt chart that show it.")
    task: int | None = Field(description="A task that shows it.")


class VerdictComparand(ResponseModel):
    """One quantity against another scheduler's."""

    text: str
    tone: Literal["better", "worse", "close"]
    ratio: float | None


class VerdictSchedulerRow(ResponseModel):
    """One scheduler against the leader; the leader against the runner-up."""

    name: str
    label: str
    mean_latency: float | None
    half_width: float | None = Field(description="Half of the 95 % interval, paired with the oracle if it runs.")
    over_floor: float | None
    against: str | None = Field(description="The scheduler that it is compared with.")
    latency: VerdictComparand
    p99: VerdictComparand
    energy: VerdictComparand
    cost: VerdictComparand
    close_to: list[str] = Field(description="Schedulers from which no significant difference is known.")
    reasons: list[VerdictReason]


class VerdictCause(ResponseModel):
    """A reason with all schedulers that have it, the slowest first."""

    sentence: str
    reason: VerdictReason
    schedulers: list[str]
    also: str


class VerdictResponse(ResponseModel):
    """Leader by mean latency, its lead, its significance, and why the others are slower."""

    metric: str
    leader: str | None
    runner_up: str | None
    tasks: int
    floor: float | None = Field(description="Lower bound on the mean latency in seconds.")
    over_floor: float | None
    lead: float | None = Field(description="The runner-up's mean latency over the leader's.")
    certainty: Literal["certain", "small", "close", "early", "one_run", "alone"]
    title: str
    distance: str
    certainty_text: str
    sentence: str
    rows: list[VerdictSchedulerRow]
    why: list[VerdictCause]


class RunDetail(Run):
    """A run with its comparison as it was last stored."""

    model_config = response_example(**_RUN, comparison=[], verdict=None, replay=None)

    comparison: list[ComparisonRow]
    verdict: VerdictResponse | None = Field(
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

    model_config = response_example(name="sweep", cells=96, modified_at=1763200000.0)

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

    model_config = response_example(
        run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB",
        scheduler="greedy",
        devices=["cpu", "gpu_0", "gpu_1", "gpu_2", "gpu_3"],
        task_id=[105, 105],
        ordinal=[104, 104],
        device=["cpu", "gpu_2"],
        part=["cpu", "gpu"],
        start=[12.503, 12.503],
        end=[12.523, 12.534],
        intensity=[0.62, 0.62],
        truncated=False,
    )

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
