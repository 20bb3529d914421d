"""Oracle: earliest finish with the realised durations.

Knows the realised durations, noise included, and the exact backlogs.
Rule: the earliest finish over every fraction on every device, on the current queues. The default computes the
optimum in closed form, which is never worse than any grid; `grid=11` or `grid=21` tries evenly spaced fractions
only, as published. It is optimal for each task but myopic over queues, so other schedulers can be better. The
limit of all schedulers is the lower bound.
"""

from __future__ import annotations

import numpy as np

from ..cluster.arrival_loop import run_rule
from ..compiled import FastRule, beats, best_placement, column_prices, fitting_share, helper, loop_entry, rule
from ..core import Floats, InvalidInputError, Knowledge
from .registry import Look, register


@rule
def _oracle_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    grid = int(params[0])
    weight = params[1]
    prices = params[2:]
    whole_only = task[0].indivisible == 1
    if grid == 0:
        split_price = np.inf if whole_only else 0.0
        return best_placement(
            now, task[0].memory, times, free_at, devices, 0, len(devices), weight, prices, split_price
        )
    best = 0
    best_share = 0.0
    best_value = np.inf
    best_free = np.inf
    for d in range(len(devices)):
        cpu = devices[d].cpu
        on_cpu = devices[cpu].column
        column = devices[d].column
        cap = fitting_share(task[0].memory, devices[d].memory)
        for step in range(grid):
            share = step / (grid - 1)
            if (share == 0.0) != (devices[d].is_cpu == 1) or share > cap or (whole_only and 0.0 < share < 1.0):
                continue
            value = 0.0
            finish = 0.0
            if share < 1.0:
                part = times[on_cpu, 1] + (1.0 - share) * times[on_cpu, 0]
                finish = max(0.0, free_at[cpu] - now) + part
                value = prices[on_cpu] * part
            if share > 0.0:
                part = times[column, 1] + share * times[column, 0]
                finish = max(finish, max(0.0, free_at[d] - now) + part)
                value += prices[column] * part
            value += weight * finish
            free = np.inf if devices[d].is_cpu == 1 else free_at[d]
            if beats(value, free, best_value, best_free):
                best = d
                best_share = share
                best_value = value
                best_free = free
    return best, best_share


_inlined = helper(_oracle_rule.py_func)


@loop_entry
def _oracle_loop(arrays):  # type: ignore[no-untyped-def]
    return run_rule(_inlined, arrays)


@register("oracle", label="Per-task best", look=Look("#FFE841", "#684908", "★", "dotted"), published=True)
class Oracle(FastRule):
    """Best fraction on the best device for each task in turn, with the realised durations.

    Parameters
    ----------
    grid
        Number of evenly spaced fractions to try; 0 uses the closed form.
    """

    rule = _oracle_rule
    loop = _oracle_loop
    knows = Knowledge.REALISED

    def __init__(self, grid: int = 0) -> None:
        if grid != 0 and not 2 <= grid <= 1001:
            raise InvalidInputError("grid", "0 (closed form) or 2 to 1001 points", grid)
        self.grid = grid

    def make_params(self) -> Floats:
        """Return the grid and the objective's prices."""
        return np.concatenate([[self.grid], column_prices(self.setting)])
