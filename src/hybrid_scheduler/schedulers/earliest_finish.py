"""Earliest finish time with splitting.

Assumes that durations are known (by default the noise-free physics) and that backlogs are exact.
Rule: the device and the share with which this task finishes first on the current queues, in closed form. It is
myopic: it also splits where splitting wastes device time, so near capacity other rules are better.
With an objective other than latency it minimises the weighted sum instead.
"""

from __future__ import annotations

import numpy as np

from ..cluster.arrival_loop import run_rule
from ..compiled import FastRule, best_placement, column_prices, helper, loop_entry, rule
from ..core import Floats, Knowledge
from .registry import Look, register


@rule
def _earliest_finish_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    split_price = np.inf if task[0].indivisible == 1 else 0.0
    return best_placement(
        now, task[0].memory, times, free_at, devices, 0, len(devices), params[0], params[1:], split_price
    )


_inlined = helper(_earliest_finish_rule.py_func)


@loop_entry
def _earliest_finish_loop(arrays):  # type: ignore[no-untyped-def]
    return run_rule(_inlined, arrays)


@register(
    "earliest_finish", label="Earliest finish (knows durations)", look=Look("#38BDF8", "#0369A1", "◇", "solid")
)
class EarliestFinish(FastRule):
    """Device and share with which each task finishes first."""

    rule = _earliest_finish_rule
    loop = _earliest_finish_loop
    knows = Knowledge.TOLD

    def make_params(self) -> Floats:
        """Return the objective's prices."""
        return column_prices(self.setting)
