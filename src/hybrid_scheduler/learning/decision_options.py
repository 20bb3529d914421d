"""Options of a placement decision, with their known costs and the features that an agent observes.

Everything is measured in typical task times, and backlogs are those of one node, sorted: the same network therefore
serves fast and slow machines, one GPU or four, one node or a thousand.

The options give the accelerator none, half, exactly, half-way beyond, or the largest part that fits, of the
balancing share. With the balancing share CPU and accelerator finish together; the accelerator is the one on which
the balanced task would finish first. An option that does not fit into memory costs infinity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Floats32, Ints, Platform

ACTIONS = 5
#: Length of the observation.
FEATURES = 21
_SLOWEST_BLEND = 0.005
_LEAST_SECONDS = 1e-12

Bools = NDArray[np.bool_]


class ArrivingTasks(NamedTuple):
    """Tasks to place, one in each of several clusters: columns of `DecisionOptions.describe`.

    `times` are their (whole, fixed) seconds by device, `prices` those of a busy second of each device.
    """

    now: Floats
    memory: Floats
    times: Floats
    free_at: Floats
    weight: Floats
    prices: Floats


class DecisionOptions:
    """Options of the current task in each of several clusters.

    Parameters
    ----------
    platform
        The machine of every cluster.
    clusters
        Number of clusters.
    """

    def __init__(self, platform: Platform, clusters: int) -> None:
        self._platform = platform
        self._limit = platform.memory_limit
        self._first = int(platform.accelerators[0]) if len(platform.accelerators) else 0
        #: Observations.
        self.features: Floats32 = np.zeros((clusters, FEATURES), np.float32)
        #: Cost of each option in typical task times, infinity if it does not fit; its device and share.
        self.cost: Floats = np.zeros((clusters, ACTIONS))
        self.device: Ints = np.zeros((clusters, ACTIONS), np.int64)
        self.fraction: Floats = np.zeros((clusters, ACTIONS))
        #: Running means over the tasks seen: time split over both sides, log ratio of the sides, gap of arrivals.
        self.seen, self._typical, self._ratio, self._gap, self._last = np.zeros((5, clusters))

    def restart(self, which: Bools) -> None:
        """Forget the tasks seen in the marked clusters."""
        for means in (self.seen, self._typical, self._ratio, self._gap, self._last):
            means[which] = 0.0

    def typical(self, which: Bools | slice = slice(None)) -> Floats:
        """Return the seconds that are the unit of costs, per cluster."""
        return np.maximum(self._typical[which], _LEAST_SECONDS)

    def describe(self, which: Bools, tasks: ArrivingTasks) -> None:
        """Count and describe a task in each marked cluster; `tasks` has a row for each of them."""
        self._update_means(which, tasks)
        row = np.arange(len(tasks.now))
        whole = tasks.times[:, :, 0]
        fixed = tasks.times[:, :, 1]
        wait = np.maximum(tasks.free_at - tasks.now[:, None], 0.0)
        share, most, best = self._best_accelerator(tasks, whole, fixed, wait)
        cpu = self._platform.cpu_of[best]
        share = share[row, best]
        most = most[row, best]
        device = np.column_stack([cpu, *(best,) * (ACTIONS - 1)])
        fraction = np.column_stack([np.zeros(len(row)), 0.5 * share, share, 0.5 * (share + most), most])
        rest = np.where(fraction < 1.0, fixed[row, cpu, None] + (1.0 - fraction) * whole[row, cpu, None], 0.0)
        part = np.where(fraction > 0.0, fixed[row, best, None] + fraction * whole[row, best, None], 0.0)
        end = np.maximum(
            np.where(fraction < 1.0, wait[row, cpu, None] + rest, 0.0),
            np.where(fraction > 0.0, wait[row, best, None] + part, 0.0),
        )
        price = tasks.prices[row, cpu, None] * rest + tasks.prices[row, best, None] * part
        typical = self.typical(which)
        cost = (tasks.weight[:, None] * end + price) / typical[:, None]
        cost[best == cpu, 1:] = np.inf
        self.device[which] = device
        self.fraction[which] = fraction
        self.cost[which] = cost
        least = cost.min(axis=1)
        on_cpu = np.maximum(whole[row, cpu] + fixed[row, cpu], _LEAST_SECONDS)
        on_best = np.maximum(whole[row, best] + fixed[row, best], _LEAST_SECONDS)
        ratio = self._ratio[which]
        nodes = float(self._platform.is_cpu.sum())
        pace = np.clip(0.5 * np.log(typical / np.maximum(self._gap[which] * nodes, _LEAST_SECONDS)), -2.0, 2.0)
        self.features[which] = np.column_stack(
            [
                0.5 * np.log(on_cpu / typical), 0.5 * np.log(on_best / typical), np.log(on_cpu / on_best) - ratio,
                ratio, share, most, self._queues(best, wait / typical[:, None]),
                np.where(self.seen[which] > 1.0, pace, 0.0), np.log1p(least),
                np.log(np.clip(cost / np.maximum(least, _LEAST_SECONDS)[:, None], 1e-300, np.exp(2.0))),
            ]
        )  # fmt: skip

    def _update_means(self, which: Bools, tasks: ArrivingTasks) -> None:
        seconds = np.maximum(tasks.times.sum(axis=2), _LEAST_SECONDS)
        on_accelerator = seconds[:, self._first]
        on_cpu = seconds[:, self._platform.cpu_of[self._first]]
        seen = self.seen[which]
        blend = np.maximum(1.0 / (seen + 1.0), _SLOWEST_BLEND)
        both = on_cpu * on_accelerator / (on_cpu + on_accelerator)
        self._typical[which] += blend * (both - self._typical[which])
        self._ratio[which] += blend * (np.log(on_cpu / on_accelerator) - self._ratio[which])
        gap = tasks.now - self._last[which] - self._gap[which]
        self._gap[which] += np.where(seen > 0.0, np.maximum(1.0 / np.maximum(seen, 1.0), _SLOWEST_BLEND) * gap, 0.0)
        self._last[which] = tasks.now
        self.seen[which] += 1.0

    def _best_accelerator(
        self, tasks: ArrivingTasks, whole: Floats, fixed: Floats, wait: Floats
    ) -> tuple[Floats, Floats, Ints]:
        """Return balancing and largest shares by device, and the device on which the balanced task finishes first.

        Of equals the one that is free first, CPUs last.
        """
        is_cpu = self._platform.is_cpu
        cpu = self._platform.cpu_of
        memory = np.maximum(tasks.memory, _LEAST_SECONDS)[:, None]
        most = np.where(is_cpu, 0.0, np.minimum(self._limit / memory, 1.0))
        on_cpu = wait[:, cpu] + fixed[:, cpu] + whole[:, cpu]
        share = np.clip((on_cpu - wait - fixed) / np.maximum(whole[:, cpu] + whole, 1e-300), 0.0, most)
        rest = wait[:, cpu] + fixed[:, cpu] + (1.0 - share) * whole[:, cpu]
        end = np.where(share > 0.0, np.minimum(on_cpu, np.maximum(wait + fixed + share * whole, rest)), on_cpu)
        end = np.where(most == 1.0, np.minimum(end, wait + fixed + whole), end)
        first = end == end.min(axis=1, keepdims=True)
        free = np.where(is_cpu, np.finfo(np.float64).max, tasks.free_at)
        return share, most, np.where(first, free, np.inf).argmin(axis=1)

    def _queues(self, best: Ints, wait: Floats) -> Floats:
        """Return the features of the queues of the devices' nodes."""
        nodes = self._platform.node
        found = np.zeros((len(best), 8))
        for node in np.unique(nodes[best]).tolist():
            rows = np.flatnonzero(nodes[best] == node)
            of_node = np.flatnonzero((nodes == node) & ~self._platform.is_cpu)
            cpu_wait = wait[rows, self._platform.cpu_of[best[rows]]]
            waits = np.sort(wait[np.ix_(rows, of_node)], axis=1) if len(of_node) else np.zeros((len(rows), 1))
            count = len(of_node)
            mean = waits.mean(axis=1)
            tilt = cpu_wait - mean
            # Smallest, two between, largest: with four accelerators exactly the four.
            places = [(i * (waits.shape[1] - 1) + 1) // 3 for i in range(4)]
            found[rows, 0] = np.log1p(cpu_wait)
            found[rows, 1:5] = np.log1p(waits[:, places])
            found[rows, 5] = np.log1p((cpu_wait + count * mean) / (count + 1))
            found[rows, 6] = np.copysign(np.log1p(np.abs(tilt)), tilt)
            found[rows, 7] = np.log(count + 1.0) - 1.6
        return found
