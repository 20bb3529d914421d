"""Payoff ranges of latency, energy and cost: the units of a scheduling objective.

A range is how far the mean of a goal moves between its own optimum and that of the others. Each goal is divided by
its range, so that equal weights have equal influence.
"""

from __future__ import annotations

import numpy as np

from ..core import Floats, Ints, Platform, Scales, TimeTable
from .isolated_optimum import isolated_time, optimal_fraction


def objective_scales(table: TimeTable, columns: Ints, platform: Platform, dollars: Floats) -> Scales:
    """Return the payoff ranges of mean isolated time, energy and cost on the platform's first accelerator.

    For each pair of goals the range is the mean at the other's optimum minus the mean at its own; of two such
    ranges the larger counts. A range of zero (no trade-off) becomes 1.

    Parameters
    ----------
    table, columns
        (whole, fixed) seconds of sample tasks, and the column of each device.
    platform
        Devices.
    dollars
        Dollars per busy second of each device.
    """
    if len(platform.accelerators) == 0:
        return Scales()
    accelerator = int(platform.accelerators[0])
    host = int(platform.cpu_of[accelerator])
    on_cpu = table[:, columns[host], 0]
    on_accelerator, launch = table[:, columns[accelerator], 0], table[:, columns[accelerator], 1]
    watts = platform.column("watts")

    def cheaper_side(rate: Floats) -> Floats:
        return np.where(rate[accelerator] * (launch + on_accelerator) < rate[host] * on_cpu, 1.0, 0.0)

    shares = (optimal_fraction(on_cpu, on_accelerator, launch), cheaper_side(watts), cheaper_side(dollars))

    def means(share: Floats) -> tuple[float, float, float]:
        busy_cpu = (1.0 - share) * on_cpu
        busy_accelerator = np.where(share > 0, launch + share * on_accelerator, 0.0)
        time = isolated_time(share, on_cpu, on_accelerator, launch)
        energy = watts[host] * busy_cpu + watts[accelerator] * busy_accelerator
        cost = dollars[host] * busy_cpu + dollars[accelerator] * busy_accelerator
        return float(time.mean()), float(energy.mean()), float(cost.mean())

    payoff = np.array([means(share) for share in shares])
    ranges = [float(payoff[:, goal].max() - payoff[goal, goal]) for goal in range(3)]
    return Scales(*(spread if spread > 0 else 1.0 for spread in ranges))
