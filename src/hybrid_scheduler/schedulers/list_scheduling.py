"""List schedulers (HEFT, CPOP, PEFT, LPT, min-min, max-min), with costs, ranks and insertion into the earliest gap.

They assume that durations and transfers are known, that the graph is known beforehand and that tasks run whole. A
list scheduler ranks the tasks. It then places each in turn on the device on which it finishes first, also in gaps
between tasks that were placed before. Devices without enough memory are not considered.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numba import types

from ..cluster.graph_costs import GraphCosts
from ..compiled import compiled, entry
from ..core import Floats, Knowledge, Plan, Platform, Static, Workload
from .registry import Look, register


def _insert_in_order(costs: GraphCosts, order: list[int], preference: Floats | None = None) -> Plan:
    """Place tasks in a given order, each in the earliest gap of its device.

    Parameters
    ----------
    costs
        Costs of the graph.
    order
        Rows, parents first.
    preference
        Seconds per row and device that are added to the finish time when the device is chosen; infinity excludes
        a device. By default the earliest finish counts alone.
    """
    workload = costs.workload
    n, devices = costs.seconds.shape
    device, start, finish = compiled(_insert, _INSERT_SIGNATURE)(
        np.array(order, np.int64), costs.seconds, np.zeros((n, devices)) if preference is None else preference,
        costs.per_mb, costs.latency, workload.arrival_time,
        workload.parent_start, workload.parent_rows, workload.parent_data,
    )  # fmt: skip
    return Plan(device, np.ones(n), start, finish)


_vector = types.float64[::1]
_matrix = types.float64[:, ::1]
_readonly = types.Array(types.float64, 1, "C", readonly=True)
_readonly_ints = types.Array(types.int64, 1, "C", readonly=True)
_INSERT_SIGNATURE = types.Tuple((types.int64[::1], _vector, _vector))(
    types.int64[::1], _matrix, _matrix, _matrix, _matrix, _readonly, _readonly_ints, _readonly_ints, _readonly
)


_COMPLETION_SIGNATURE = types.Tuple((types.int64[::1], _vector, _vector))(
    types.boolean, _matrix, _matrix, _matrix, _readonly, _readonly_ints, _readonly_ints, _readonly, types.int64[::1]
)


@entry
def _insert(  # type: ignore[no-untyped-def]
    order, seconds, preference, per_mb, latency, arrival, parent_start, parent_rows, parent_data
):
    """Return device, start and finish of every row; see `_insert_in_order`."""
    n, devices = seconds.shape
    device = np.zeros(n, np.int64)
    start = np.zeros(n)
    finish = np.zeros(n)
    # Busy intervals of each device, sorted; the arrays grow with the number of tasks on the device.
    capacity = 64
    begins = np.empty((devices, capacity))
    ends = np.empty((devices, capacity))
    counts = np.zeros(devices, np.int64)
    for row in order:
        best = -1
        best_value = np.inf
        best_start = np.inf
        best_end = np.inf
        best_gap = 0
        for d in range(devices):
            ready = arrival[row]
            for edge in range(parent_start[row], parent_start[row + 1]):
                parent = parent_rows[edge]
                data = parent_data[edge]
                moved = 0.0
                if data > 0.0:
                    moved = latency[device[parent], d] + data * per_mb[device[parent], d]
                ready = max(ready, finish[parent] + moved)
            length = seconds[row, d]
            # The first gap that is long enough, among those that end after `ready`.
            gap = np.searchsorted(ends[d, : counts[d]], ready, side="right")
            begin = ready
            while gap < counts[d] and begin + length > begins[d, gap]:
                begin = max(begin, ends[d, gap])
                gap += 1
            value = begin + length + preference[row, d]
            if best < 0 or value < best_value:
                best = d
                best_value = value
                best_start = begin
                best_end = begin + length
                best_gap = gap
        device[row] = best
        start[row] = best_start
        finish[row] = best_end
        if counts[best] == capacity:
            more = np.empty((devices, capacity))
            begins = np.concatenate((begins, more), axis=1)
            ends = np.concatenate((ends, more), axis=1)
            capacity = 2 * capacity
        for position in range(counts[best], best_gap, -1):
            begins[best, position] = begins[best, position - 1]
            ends[best, position] = ends[best, position - 1]
        begins[best, best_gap] = best_start
        ends[best, best_gap] = best_end
        counts[best] += 1
    return device, start, finish


def _priority_order(costs: GraphCosts, priority: Floats) -> list[int]:
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


# ------------------------------------------------------------------------------------------ schedulers


class _ListScheduler(Static):
    """Static scheduler that places tasks one after the other by the costs of their graph."""

    knows = Knowledge.TOLD

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        """Return the schedule of the whole workload."""
        assert self.setting.times is not None
        return self.schedule(GraphCosts(workload, platform, self.setting.times))

    @abstractmethod
    def schedule(self, costs: GraphCosts) -> Plan:
        """Return the schedule by the costs of the tasks."""


@register("heft", label="HEFT (knows durations)", look=Look("#C4B5FD", "#5B21B6", "⬡", "solid"))
class Heft(_ListScheduler):
    """Static graph scheduler: by upward rank, each task on the device where it finishes first.

    Heterogeneous earliest finish time (Topcuoglu, Hariri, Wu 2002): ranks are the mean path lengths to the end.
    """

    def schedule(self, costs: GraphCosts) -> Plan:
        """Return the schedule by these costs."""
        # A parent never ranks below its child; equal ranks (zero durations) keep the topological order.
        order = np.lexsort((np.argsort(costs.workload.topological_order), -costs.upward_rank()))
        return _insert_in_order(costs, order.tolist())


@register("cpop", label="CPOP (knows durations)", look=Look("#F0ABFC", "#86198F", "⬟", "dashed"))
class Cpop(_ListScheduler):
    """Static graph scheduler: the critical path runs on one device.

    Critical path on a processor (Topcuoglu, Hariri, Wu 2002): the priority is the mean path length from the start
    plus the one to the end. Tasks on the critical path go to the device with the shortest total time for them.
    """

    def schedule(self, costs: GraphCosts) -> Plan:
        """Return the schedule by these costs."""
        priority = costs.upward_rank() + costs.downward_rank()
        path = _critical_path(costs, priority)
        path_seconds = costs.seconds[path].sum(axis=0)
        preference = np.zeros_like(costs.seconds)
        if np.isfinite(path_seconds).any():
            preference[path] = np.inf
            preference[path, np.argmin(path_seconds)] = 0.0
        return _insert_in_order(costs, _priority_order(costs, priority), preference)


def _critical_path(costs: GraphCosts, priority: Floats) -> list[int]:
    """Follow the highest priority from an entry task to an exit task."""
    entries = np.flatnonzero(np.diff(costs.workload.parent_start) == 0)
    row = int(entries[np.argmax(priority[entries])])
    path = [row]
    while costs.children[row]:
        row = max((child for child, _ in costs.children[row]), key=lambda child: (priority[child], -child))
        path.append(row)
    return path


@register("peft", label="PEFT (knows durations)", look=Look("#67E8F9", "#155E75", "⬣", "dash-dot"))
class Peft(_ListScheduler):
    """Static graph scheduler: each task where finish time plus optimistic remaining cost is least.

    Predict earliest finish time (Arabnejad, Barbosa 2014): a table of optimistic costs holds, for each task and
    device, the least possible time of the remaining graph. Released tasks are ordered by their mean optimistic
    cost. This looks one step further than HEFT at the same complexity.
    """

    def schedule(self, costs: GraphCosts) -> Plan:
        """Return the schedule by these costs."""
        optimistic = optimistic_costs(costs)
        rank = np.where(np.isfinite(optimistic), optimistic, 0.0).mean(axis=1)
        order = _priority_order(costs, rank)
        return _insert_in_order(costs, order, optimistic)


def optimistic_costs(costs: GraphCosts) -> Floats:
    """Return ``table[row, d]``: path length from the task's end on device d to the exit, each child at its best."""
    n, devices = costs.seconds.shape
    table = np.zeros((n, devices))
    other_device = 1.0 - np.eye(devices)
    for row in costs.workload.topological_order[::-1].tolist():
        for child, megabytes in costs.children[row]:
            # paths[d, e]: the child runs on e while its data lies on d
            paths = table[child] + costs.seconds[child] + other_device * costs.mean_transfer(megabytes)
            table[row] = np.maximum(table[row], paths.min(axis=1))
    return table


@register("lpt", label="LPT (knows durations)", look=Look("#FDBA74", "#9A3412", "◧", "dashed"))
class LongestFirst(_ListScheduler):
    """Static plan for whole tasks: the longest first, each on the device where it finishes first.

    Longest processing time (Graham 1969), where a task is as long as on its fastest device. Of a graph, released
    tasks are considered.
    """

    def schedule(self, costs: GraphCosts) -> Plan:
        """Return the schedule by these costs."""
        return _insert_in_order(costs, _priority_order(costs, costs.seconds.min(axis=1)))


@register("min_min", label="Min-min (knows durations)", look=Look("#7DD3FC", "#075985", "◨", "dotted"))
class MinMin(_ListScheduler):
    """Static plan for whole tasks: next is always the task that can finish first.

    Min-min (Ibarra, Kim 1977). Of a graph, released tasks are considered.
    """

    _largest: ClassVar[bool] = False

    def schedule(self, costs: GraphCosts) -> Plan:
        """Return the schedule by these costs."""
        return _by_completion(costs, largest=self._largest)


@register("max_min", label="Max-min (knows durations)", look=Look("#FDA4AF", "#9F1239", "◩", "dotted"))
class MaxMin(MinMin):
    """Static plan for whole tasks: next is always the task whose earliest finish is latest.

    Max-min (Ibarra, Kim 1977). Of a graph, released tasks are considered.
    """

    _largest = True


def _by_completion(costs: GraphCosts, *, largest: bool) -> Plan:
    """Place the released task with the smallest or largest earliest finish, until none is left."""
    workload = costs.workload
    child = np.repeat(np.arange(len(workload)), np.diff(workload.parent_start))
    device, start, finish = compiled(_place_by_completion, _COMPLETION_SIGNATURE)(
        largest, costs.seconds, costs.per_mb, costs.latency, workload.arrival_time,
        workload.parent_start, workload.parent_rows, workload.parent_data, child,
    )  # fmt: skip
    return Plan(device, np.ones(len(workload)), start, finish)


@entry
def _place_by_completion(  # type: ignore[no-untyped-def]
    largest, seconds, per_mb, latency, arrival, parent_start, parent_rows, parent_data, child
):
    """Return device, start and finish of every row; see `_by_completion`."""
    n, devices = seconds.shape
    device = np.zeros(n, np.int64)
    start = np.zeros(n)
    finish = np.zeros(n)
    free = np.zeros(devices)
    missing = np.diff(parent_start)
    data_at = np.empty((n, devices))
    for row in range(n):
        data_at[row, :] = arrival[row]
    done = np.zeros(n, np.bool_)
    for _ in range(n):
        chosen = -1
        chosen_end = 0.0
        chosen_device = 0
        for row in range(n):
            if done[row] or missing[row] > 0:
                continue
            best = 0
            best_end = np.inf
            for d in range(devices):
                end = max(data_at[row, d], free[d]) + seconds[row, d]
                if end < best_end:
                    best = d
                    best_end = end
            if chosen < 0 or (best_end > chosen_end if largest else best_end < chosen_end):
                chosen = row
                chosen_end = best_end
                chosen_device = best
        device[chosen] = chosen_device
        finish[chosen] = chosen_end
        done[chosen] = True
        start[chosen] = max(data_at[chosen, chosen_device], free[chosen_device])
        free[chosen_device] = chosen_end
        for edge in range(len(parent_rows)):
            if parent_rows[edge] == chosen:
                row = child[edge]
                data = parent_data[edge]
                missing[row] -= 1
                for d in range(devices):
                    moved = latency[chosen_device, d] + data * per_mb[chosen_device, d] if data > 0.0 else 0.0
                    data_at[row, d] = max(data_at[row, d], chosen_end + moved)
    return device, start, finish
