"""PEFT: predict earliest finish time (Arabnejad, Barbosa 2014).

Assumes that durations and transfers are told, that the graph is known beforehand and that tasks run whole.
Rule: a table of optimistic costs says, for each task and device, how long the rest of the graph takes at best from
there. Released tasks go by their mean optimistic cost, each to the device with the least finish + optimistic cost:
it looks one step further than HEFT at the same complexity.
"""

from __future__ import annotations

import numpy as np

from ..core import Floats, Knowledge, Plan, Platform, Static, Workload
from .list_scheduling import GraphCosts, insert_in_order, released_by
from .registry import Look, register


@register("peft", label="PEFT (told)", look=Look("#67E8F9", "#155E75", "⬣", "dash-dot"))
class Peft(Static):
    """Told the times: plans a graph by what each choice costs the tasks that follow."""

    knows = Knowledge.TOLD

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        assert self.setting.times is not None
        costs = GraphCosts(workload, platform, self.setting.times)
        optimistic = optimistic_costs(costs)
        rank = np.where(np.isfinite(optimistic), optimistic, 0.0).mean(axis=1)
        order = released_by(costs, rank)
        return insert_in_order(costs, order, lambda row, ends: int(np.argmin(ends + optimistic[row])))


def optimistic_costs(costs: GraphCosts) -> Floats:
    """``table[row, d]``: longest way from the task's end on device d to the graph's end, each child at its best."""
    n, devices = costs.seconds.shape
    table = np.zeros((n, devices))
    away = 1.0 - np.eye(devices)
    for row in costs.workload.topological_order[::-1].tolist():
        for child, megabytes in costs.children[row]:
            # ways[d, e]: the child runs on e while its data lies on d
            ways = table[child] + costs.seconds[child] + away * costs.mean_transfer(megabytes)
            table[row] = np.maximum(table[row], ways.min(axis=1))
    return table
