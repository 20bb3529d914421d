"""HEFT: heterogeneous earliest finish time (Topcuoglu, Hariri, Wu 2002).

Assumes that durations and transfers are known, that the graph is known beforehand and that tasks run whole.
Rule: rank tasks by the mean path length to the end; in that order place each on the device on which it finishes
first, also in gaps.
"""

from __future__ import annotations

import numpy as np

from ..core import Knowledge, Plan, Platform, Static, Workload
from .list_scheduling import GraphCosts, insert_in_order
from .registry import Look, register


@register("heft", label="HEFT (knows durations)", look=Look("#C4B5FD", "#5B21B6", "⬢", "solid"))
class Heft(Static):
    """Static graph scheduler: by upward rank, each task on the device where it finishes first."""

    knows = Knowledge.TOLD

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        """Return the schedule of a task graph."""
        assert self.setting.times is not None
        costs = GraphCosts(workload, platform, self.setting.times)
        position = np.empty(len(workload))
        position[workload.topological_order] = np.arange(len(workload))
        # A parent never ranks below its child; equal ranks (zero durations) keep the topological order.
        order = np.lexsort((position, -costs.upward_rank()))
        return insert_in_order(costs, order.tolist())
