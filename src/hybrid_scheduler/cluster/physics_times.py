"""Time model of the physics: expected durations, or with noise the realised ones; and costs of a task graph."""

from __future__ import annotations

import numpy as np

from ..core import Floats, Ints, Links, Platform, Task, TimeModel, TimeTable, Workload
from ..physics import Physics
from .noise import Noise


class PhysicsTimes:
    """`TimeModel` of the physics. With noise it gives the realised durations, one column per device.

    Parameters
    ----------
    physics, platform
        Durations and devices.
    noise
        Noise of the run; None for expected durations.
    """

    def __init__(self, physics: Physics, platform: Platform, noise: Noise | None = None) -> None:
        self.physics = physics
        self.platform = platform
        self.noise = noise if noise and noise.sigma > 0 else None
        self._physics_columns = physics.columns(platform)
        self._cached: dict[int, Floats] = {}

    @property
    def columns(self) -> Ints:
        """Column of each device in the tables."""
        if self.noise is None:
            return self._physics_columns
        return np.arange(len(self.platform), dtype=np.int64)

    @property
    def links(self) -> Links:
        """Transfer costs of data that moves between devices."""
        return self.physics.links(self.platform)

    def table(self, workload: Workload) -> TimeTable:
        """Return (whole, fixed) seconds, shape (tasks, columns, 2)."""
        nominal = self.physics.times(workload, self.platform)
        if self.noise is None:
            return nominal
        factors = self.noise.factors(workload.task_id, len(self.platform))
        realised: TimeTable = nominal[:, self._physics_columns] * factors[:, :, None]
        return realised

    def row(self, task: Task) -> Floats:
        """Return the table's row for one task."""
        cached = self._cached.get(task.task_id)
        return self.table(Workload.from_tasks([task]))[0] if cached is None else cached

    def remember(self, workload: Workload) -> TimeTable:
        """Cache the rows of a workload that runs task by task, and return its table."""
        table = self.table(workload)
        self._cached = dict(zip(workload.task_id.tolist(), table, strict=True))
        return table

    def forget(self) -> None:
        """Drop the cached rows."""
        self._cached = {}


class GraphCosts:
    """Computation and communication costs of a workload on a platform, from a time model."""

    def __init__(self, workload: Workload, platform: Platform, times: TimeModel) -> None:
        self.workload = workload
        seconds = times.table(workload).sum(axis=2)[:, times.columns]
        fits = workload.memory_required[:, None] <= platform.memory_limit
        self.seconds: Floats = np.where(fits, seconds, np.inf)
        self.mean_seconds: Floats = np.where(fits, seconds, 0.0).sum(axis=1) / fits.sum(axis=1)
        self.per_mb = np.ascontiguousarray(times.links.seconds_per_mb(platform.node))
        self.latency = np.ascontiguousarray(times.links.startup_seconds(platform.node))
        others = max(len(platform) * (len(platform) - 1), 1)
        self._mean_per_mb = self.per_mb.sum() / others
        self._mean_latency = self.latency.sum() / others
        self.children: list[list[tuple[int, float]]] = [[] for _ in range(len(workload))]
        for row in range(len(workload)):
            data = workload.parent_data[workload.parent_start[row] : workload.parent_start[row + 1]]
            for parent, megabytes in zip(workload.parents(row).tolist(), data.tolist(), strict=True):
                self.children[parent].append((row, megabytes))

    def mean_transfer(self, megabytes: float) -> float:
        """Return the transfer seconds averaged over pairs of different devices; 0 without data."""
        return self._mean_latency + megabytes * self._mean_per_mb if megabytes else 0.0

    def upward_rank(self) -> Floats:
        """Return the mean length of the longest path from each task to an exit, the task included."""
        rank = np.zeros(len(self.workload))
        for row in self.workload.topological_order[::-1].tolist():
            paths = (self.mean_transfer(mb) + rank[child] for child, mb in self.children[row])
            rank[row] = self.mean_seconds[row] + max(paths, default=0.0)
        return rank

    def downward_rank(self) -> Floats:
        """Return the mean length of the longest path from an entry to each task, the task not included."""
        rank = np.zeros(len(self.workload))
        for row in self.workload.topological_order.tolist():
            for child, mb in self.children[row]:
                rank[child] = max(rank[child], rank[row] + self.mean_seconds[row] + self.mean_transfer(mb))
        return rank
