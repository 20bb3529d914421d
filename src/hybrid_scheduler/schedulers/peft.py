"""PEFT: predict earliest finish time (Arabnejad, Barbosa 2014).

Assumes that durations and transfers are known, that the graph is known beforehand and that tasks run whole.
Rule: a table of optimistic costs holds, for each task and device, the least possible time of the remaining graph.
Released tasks are ordered by their mean optimistic cost; each goes to the device with the least finish + optimistic
cost. This looks one step further than HEFT at the same complexity.
"""

from __future__ import annotations

import numpy as np

from ..core import Floats, Knowledge, Plan, Platform, Static, Workload
from .list_scheduling import GraphCosts, insert_in_order, priority_order
from .registry import Look, register


@register("peft", label="PEFT (knows durations)", look=Look("#67E8F9", "#155E75", "⬣", "dash-dot"))
class Peft(Static):
    """Static graph scheduler: each task where finish time plus optimistic remaining cost is least."""

    knows = Knowledge.TOLD

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        """Return the schedule of a task graph."""
        assert self.setting.times is not None
        costs = GraphCosts(workload, platform, self.setting.times)
        optimistic = optimistic_costs(costs)
        rank = np.where(np.isfinite(optimistic), optimistic, 0.0).mean(axis=1)
        order = priority_order(costs, rank)
        return insert_in_order(costs, order, optimistic)


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
