"""Models of job logs on simulated clusters. Times are seconds since the first submission of the log."""

from __future__ import annotations

from .base_models import ResponseModel


class ClusterAllocation(ResponseModel):
    """Share of each row of nodes that jobs hold, one value per column of the time axis."""

    nodes_per_row: int
    rows: list[list[float]]


class ClusterFragmentation(ResponseModel):
    """Free GPUs, those that typical jobs cannot use, and as many if the free ones were packed perfectly."""

    free: list[float]
    lost: list[float]
    bound: list[float]


class ClusterQueue(ResponseModel):
    """What waiting jobs ask for, by user: one list per user, one value per column."""

    users: list[str]
    asked: list[list[float]]


class ClusterNode(ResponseModel):
    """Runs on one node, as columns; `held` are the numbers of the GPUs."""

    index: int
    name: str
    gpus: int
    begin: list[float]
    end: list[float]
    job: list[int]
    user: list[str]
    held: list[list[int]]


class ClusterPolicy(ResponseModel):
    """Figures of one order of the queue."""

    policy: str
    mean_wait: float
    max_wait: float
    mean_bounded_slowdown: float
    utilization: float
    gpu_utilization: float
    fragmentation: float


class ClusterReport(ResponseModel):
    """A job log on a simulated cluster."""

    jobs: int
    left_out: int
    larger_than_the_cluster: list[int]
    larger_count: int
    nodes: int
    processors: int
    gpus: int
    processor_seconds_in_file: float
    processor_seconds: float
    seconds: list[float]
    allocation: ClusterAllocation
    fragmentation: ClusterFragmentation | None
    queue: ClusterQueue
    node: ClusterNode
    policies: list[ClusterPolicy]
    configuration: dict[str, str | None]


class JobForecast(ResponseModel):
    """When a job would start, and how forecasts of the past did."""

    now: float
    running: int
    waiting: int
    simulated_waits: bool
    levels: list[float]
    quantiles: list[float]
    median_wait: float
    interval: list[float]
    moments: int
    coverage: float
    median_error: float
    median_error_of_requests: float
