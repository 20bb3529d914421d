"""Earliest finish, with splitting.

Assumes that durations are told (by default the noise-free physics) and that backlogs are exact.
Rule: the device and the share with which this task ends first, in closed form, against the queues as they stand.
Myopic: it splits even where splitting wastes machine time, so it can be beaten near capacity.
With an objective other than latency it minimises the weighted sum instead.
"""

from __future__ import annotations

from ..compiled import FastRule, best_placement, column_prices, rule
from ..core import Floats, Knowledge
from .registry import Look, register


@rule
def earliest_finish_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    return best_placement(now, task[0].memory, times, free_at, devices, 0, len(devices), params[0], params[1:], 0.0)


@register("earliest_finish", label="Earliest finish (told)", look=Look("#38BDF8", "#0369A1", "◇", "solid"))
class EarliestFinish(FastRule):
    """Told the times: the device and share with which this task ends first."""

    rule = earliest_finish_rule
    knows = Knowledge.TOLD

    def make_params(self) -> Floats:
        return column_prices(self.setting)
