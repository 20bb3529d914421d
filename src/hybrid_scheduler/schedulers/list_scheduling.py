"""List scheduling of task graphs: costs, ranks, and insertion into the earliest gap.

A list scheduler ranks the tasks. It then places each in turn on the device on which it finishes first, also in gaps
between tasks that were placed before. Tasks run whole. Devices without enough memory are not considered.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable

import numpy as np

from ..core import Floats, Plan, Platform, TimeModel, Workload


class GraphCosts:
    """Computation and communication costs of a workload on a platform, from a time model."""

    def __init__(self, workload: Workload, platform: Platform, times: TimeModel) -> None:
        self.workload = workload
        seconds = times.table(workload).sum(axis=2)[:, times.columns]
        fits = workload.memory_required[:, None] <= platform.memory_limit
        self.seconds: Floats = np.where(fits, seconds, np.inf)
        self.mean_seconds: Floats = np.where(fits, seconds, 0.0).sum(axis=1) / fits.sum(axis=1)
        self.per_mb = _seconds_per_mb(platform, times)
        self.latency = np.where(platform.node[:, None] != platform.node, times.links.latency, 0.0)
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

    def transfer(self, megabytes: float) -> Floats:
        """Return the matrix of transfer seconds from each device to each other."""
        return self.latency + megabytes * self.per_mb if megabytes else np.zeros_like(self.per_mb)

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


def insert_in_order(
    costs: GraphCosts, order: list[int], choose: Callable[[int, Floats], int] | None = None
) -> Plan:
    """Place tasks in a given order, each in the earliest gap of its device.

    Parameters
    ----------
    costs
        Costs of the graph.
    order
        Rows, parents first.
    choose
        Function of a row and its finish time per device that returns the device; by default the earliest finish.
    """
    workload = costs.workload
    n, devices = costs.seconds.shape
    device, start, finish = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
    busy: list[list[tuple[float, float]]] = [[] for _ in range(devices)]
    for row in order:
        ready = np.full(devices, workload.arrival_time[row])
        data = workload.parent_data[workload.parent_start[row] : workload.parent_start[row + 1]]
        for parent, megabytes in zip(workload.parents(row).tolist(), data.tolist(), strict=True):
            ready = np.maximum(ready, finish[parent] + costs.transfer(megabytes)[device[parent]])
        starts = np.array([_earliest_gap(busy[d], ready[d], costs.seconds[row, d]) for d in range(devices)])
        ends = starts + costs.seconds[row]
        d = int(np.argmin(ends)) if choose is None else choose(row, ends)
        device[row], start[row], finish[row] = d, starts[d], ends[d]
        insort(busy[d], (float(starts[d]), float(ends[d])))
    return Plan(device, np.ones(n), start, finish)


def priority_order(costs: GraphCosts, priority: Floats) -> list[int]:
    """Return an order, parents first, that takes the released task with the highest priority next."""
    missing = np.diff(costs.workload.parent_start)
    ready = [(-priority[row], row) for row in np.flatnonzero(missing == 0).tolist()]
    heapq.heapify(ready)
    order = []
    while ready:
        _, row = heapq.heappop(ready)
        order.append(row)
        for child, _ in costs.children[row]:
            missing[child] -= 1
            if missing[child] == 0:
                heapq.heappush(ready, (-priority[child], child))
    return order


def _earliest_gap(busy: list[tuple[float, float]], ready: float, seconds: float) -> float:
    """Return the first time from `ready` on at which a device is free for `seconds`."""
    if not np.isfinite(seconds):
        return np.inf
    start = ready
    for begin, end in busy:
        if start + seconds <= begin:
            break
        start = max(start, end)
    return start


def _seconds_per_mb(platform: Platform, times: TimeModel) -> Floats:
    links = times.links
    matrix: Floats = (
        links.device[:, None] + links.device + np.where(platform.node[:, None] != platform.node, links.network, 0.0)
    )
    np.fill_diagonal(matrix, 0.0)
    return matrix
