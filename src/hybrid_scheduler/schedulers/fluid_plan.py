"""Fluid plan: the fluid relaxation behind the lower bound, rounded to a schedule.

Assumes that durations are known and that all tasks are known beforehand.
Rule: solve the fluid relaxation. At its prices every task goes whole to the cheapest class of device, the longest
task first; among equally cheap devices it goes where it finishes first. The one task at which the relaxation
changes sides is split so that CPU and accelerators finish together. The plan is close to the bound for many
independent tasks. It ignores dependencies when it chooses devices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Ints, Knowledge, Plan, Platform, Static, Workload
from ..physics import best_prices, fluid_tasks
from .registry import Look, register


@register("fluid_plan", label="Fluid plan (knows durations)", look=Look("#FCD34D", "#92400E", "◉", "long dash"))
class FluidPlan(Static):
    """Static plan for independent tasks by the fluid relaxation, close to the lower bound."""

    knows = Knowledge.TOLD

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        """Return the schedule of the whole workload."""
        assert self.setting.times is not None
        columns = self.setting.times.columns
        table = self.setting.times.table(workload)
        tasks = fluid_tasks(table, columns, columns, workload.memory_required, platform)
        seconds = table.sum(axis=2)[:, columns]
        fits = workload.memory_required[:, None] <= platform.memory_limit
        group = _groups(platform, columns)
        prices = best_prices(tasks)[group]
        value = np.where(fits, seconds * prices, np.inf)
        # Equal tasks cost the same on several devices: the tolerance lets them spread.
        cheapest = value <= value.min(axis=1, keepdims=True) * (1 + 1e-6)
        longest = np.where(cheapest, seconds, 0.0).max(axis=1)
        order = (
            workload.topological_order
            if workload.has_dependencies
            else np.lexsort((-longest, workload.arrival_time))
        )
        pivot = (
            _pivot(value, platform, workload.divisible)
            if len(platform.accelerators) and not workload.has_dependencies
            else -1
        )
        n = len(workload)
        device, start, finish = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        free = np.zeros(len(platform))
        for row in order.tolist():
            if row == pivot:
                continue
            members = np.flatnonzero(cheapest[row])
            d = int(members[(free[members] + seconds[row, members]).argmin()])
            ready = max(free[d], workload.arrival_time[row], finish[workload.parents(row)].max(initial=0.0))
            device[row], start[row] = d, ready
            finish[row] = free[d] = ready + seconds[row, d]
        fraction = np.ones(n)
        if pivot >= 0:
            d = int(platform.accelerators[free[platform.accelerators].argmin()])
            host = int(platform.cpu_of[d])
            whole = seconds[pivot, d] + seconds[pivot, host]
            share = (free[host] + seconds[pivot, host] - free[d]) / whole if whole > 0 else 1.0
            cap = min(1.0, platform.devices[d].memory / max(workload.memory_required[pivot], 1e-12))
            device[pivot], fraction[pivot] = d, min(max(share, 0.0), cap)
            start[pivot] = max(free.max(), workload.arrival_time[pivot])
        return Plan(device, fraction, start)


def _groups(platform: Platform, columns: Ints) -> Ints:
    """Return the class of each device in the relaxation: all CPUs are class 0, accelerators by column."""
    accelerators = np.unique(columns[~platform.is_cpu])
    return np.where(platform.is_cpu, 0, 1 + np.searchsorted(accelerators, columns))


def _pivot(value: Floats, platform: Platform, divisible: NDArray[np.bool_]) -> int:
    """Return the task with the most equal costs on CPU and accelerators; -1 if no task fits on both."""
    cpu, accelerator = value[:, platform.is_cpu].min(axis=1), value[:, ~platform.is_cpu].min(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # a task of zero seconds is no pivot
        gap = np.abs(cpu - accelerator) / np.minimum(cpu, accelerator)
    gap[~divisible] = np.inf
    return int(np.nanargmin(gap)) if np.isfinite(gap).any() else -1
