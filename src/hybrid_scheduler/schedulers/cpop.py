"""CPOP: critical path on a processor (Topcuoglu, Hariri, Wu 2002).

Assumes that durations and transfers are known, that the graph is known beforehand and that tasks run whole.
Rule: priority = mean path length from the start + mean path length to the end. Tasks on the critical path all go to
the device with the shortest total time for them; the others go where they finish first.
"""

from __future__ import annotations

import numpy as np

from ..core import Floats, Knowledge, Plan, Platform, Static, Workload
from .list_scheduling import GraphCosts, insert_in_order, priority_order
from .registry import Look, register


@register("cpop", label="CPOP (knows durations)", look=Look("#F0ABFC", "#86198F", "⬟", "dashed"))
class Cpop(Static):
    """Static graph scheduler: the critical path runs on one device."""

    knows = Knowledge.TOLD

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        """Return the schedule of a task graph."""
        assert self.setting.times is not None
        costs = GraphCosts(workload, platform, self.setting.times)
        priority = costs.upward_rank() + costs.downward_rank()
        path = _critical_path(workload, costs, priority)
        path_seconds = costs.seconds[path].sum(axis=0)
        preference = np.zeros_like(costs.seconds)
        if np.isfinite(path_seconds).any():
            preference[path] = np.inf
            preference[path, np.argmin(path_seconds)] = 0.0
        return insert_in_order(costs, priority_order(costs, priority), preference)


def _critical_path(workload: Workload, costs: GraphCosts, priority: Floats) -> list[int]:
    """Follow the highest priority from an entry task to an exit task."""
    entries = np.flatnonzero(np.diff(workload.parent_start) == 0)
    row = int(entries[np.argmax(priority[entries])])
    path = [row]
    while costs.children[row]:
        row = max((child for child, _ in costs.children[row]), key=lambda child: (priority[child], -child))
        path.append(row)
    return path
