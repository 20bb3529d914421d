"""CPOP: critical path on a processor (Topcuoglu, Hariri, Wu 2002).

Assumes that durations and transfers are told, that the graph is known beforehand and that tasks run whole.
Rule: priority = mean way from the start + mean way to the end; tasks on the longest way all go to the one device
that does them fastest together, the others where they end first.
"""

from __future__ import annotations

import numpy as np

from ..core import Floats, Knowledge, Plan, Platform, Static, Workload
from .list_scheduling import GraphCosts, insert_in_order, released_by
from .registry import Look, register


@register("cpop", label="CPOP (told)", look=Look("#F0ABFC", "#86198F", "⬟", "dashed"))
class Cpop(Static):
    """Told the times: plans a graph with its critical path on one device."""

    knows = Knowledge.TOLD

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        assert self.setting.times is not None
        costs = GraphCosts(workload, platform, self.setting.times)
        priority = costs.upward_rank() + costs.downward_rank()
        path = _critical_path(workload, costs, priority)
        together = costs.seconds[path].sum(axis=0)
        best = int(np.argmin(together)) if np.isfinite(together).any() else None
        on_path = set(path)

        def choose(row: int, ends: Floats) -> int:
            return best if best is not None and row in on_path else int(np.argmin(ends))

        return insert_in_order(costs, released_by(costs, priority), choose)


def _critical_path(workload: Workload, costs: GraphCosts, priority: Floats) -> list[int]:
    """From the entry with the highest priority, always on to the child with the highest."""
    entries = np.flatnonzero(np.diff(workload.parent_start) == 0)
    row = int(entries[np.argmax(priority[entries])])
    path = [row]
    while costs.children[row]:
        row = max((child for child, _ in costs.children[row]), key=lambda child: (priority[child], -child))
        path.append(row)
    return path
