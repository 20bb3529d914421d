"""Earliest finish time, with splitting and without.

Assumes that durations are known (by default the noise-free physics) and that backlogs are exact.
Rule: the device and the share with which this task finishes first on the current queues, in closed form. It is
myopic: it also splits where splitting wastes device time, so near capacity other rules are better.
With an objective other than latency it minimises the weighted sum instead.

`min_completion` is the rule without splitting, like StarPU's dmda: the device on which the whole task finishes
first. A task that fits into no accelerator runs on the CPU.
"""

from __future__ import annotations

import numpy as np

from ..cluster.arrival_loop import run_rule
from ..compiled import FastRule, beats, best_placement, column_prices, helper, loop_entry, rule
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
    "earliest_finish", label="Earliest finish (knows durations)", look=Look("#FFE841", "#684908", "◇", "solid")
)
class EarliestFinish(FastRule):
    """Device and share with which each task finishes first."""

    rule = _earliest_finish_rule
    loop = _earliest_finish_loop
    knows = Knowledge.TOLD

    def make_params(self) -> Floats:
        """Return the objective's prices."""
        return column_prices(self.setting)


@rule
def _min_completion_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    best = 0
    best_value = np.inf
    best_free = np.inf
    for d in range(len(devices)):
        if task[0].memory > devices[d].memory:
            continue
        column = devices[d].column
        seconds = times[column, 0] + times[column, 1]
        value = params[0] * (max(0.0, free_at[d] - now) + seconds) + params[1 + column] * seconds
        free = np.inf if devices[d].is_cpu == 1 else free_at[d]
        if beats(value, free, best_value, best_free):
            best = d
            best_value = value
            best_free = free
    return best, 0.0 if devices[best].is_cpu == 1 else 1.0


_inlined_whole = helper(_min_completion_rule.py_func)


@loop_entry
def _min_completion_loop(arrays):  # type: ignore[no-untyped-def]
    return run_rule(_inlined_whole, arrays)


@register(
    "min_completion", label="Min completion (knows durations)", look=Look("#F472B6", "#9D174D", "▣", "dashed")
)
class MinCompletion(FastRule):
    """Each task whole on the device where it finishes first."""

    rule = _min_completion_rule
    loop = _min_completion_loop
    knows = Knowledge.TOLD
    make_params = EarliestFinish.make_params
