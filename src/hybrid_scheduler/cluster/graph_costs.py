"""Computation and communication costs of a task graph, by which list schedulers rank its tasks."""

from __future__ import annotations

import numpy as np

from ..core import Floats, Platform, TimeModel, Workload


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
