"""The isolated optimum: the best split of a task that is alone on the machine, in closed form.

A share f on the accelerator takes ``fixed + f * whole`` seconds there, the rest ``cpu_fixed + (1 - f) * cpu`` on
the CPU beside it. The best share is one of three: nothing, the share with which both parts end together, or all
that fits.

The optima of time, energy and cost also give the units of a scheduling objective. Each goal is divided by how far
its mean moves between its own optimum and that of the others, so that equal weights have equal influence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Ints, Platform, Scales, TimeTable


def optimal_fraction(cpu: Floats, accelerator: Floats, launch: Floats | float = 0.0) -> Floats:
    """Return the best share of isolated tasks on an accelerator without a memory limit.

    Parameters
    ----------
    cpu, accelerator
        Seconds of the whole task on either side.
    launch
        Seconds that any part on the accelerator takes beside its share.
    """
    return _best_split(cpu, accelerator, fixed=launch)[0]


def isolated_time(
    fraction: Floats | float,
    cpu: Floats,
    accelerator: Floats,
    launch: Floats | float = 0.0,
    *,
    cpu_fixed: Floats | float = 0.0,
    concurrent: bool = True,
) -> Floats:
    """Return the seconds that isolated tasks take when `fraction` of each runs on the accelerator."""
    share = np.asarray(fraction, dtype=np.float64)
    on_cpu = np.where(share < 1.0, cpu_fixed + (1.0 - share) * cpu, 0.0)
    on_accelerator = np.where(share > 0, launch + share * accelerator, 0.0)
    return np.maximum(on_cpu, on_accelerator) if concurrent else on_cpu + on_accelerator


def _best_split(
    cpu: Floats,
    accelerator: Floats,
    *,
    cpu_fixed: Floats | float = 0.0,
    fixed: Floats | float = 0.0,
    most: Floats | float = 1.0,
) -> tuple[Floats, Floats]:
    """Return the best share on the accelerator, at most `most`, and the seconds it takes."""
    total = cpu + accelerator
    balance = np.divide(cpu_fixed + cpu - fixed, total, out=np.ones_like(total), where=total > 0)
    best = np.zeros_like(total)
    time = isolated_time(best, cpu, accelerator, fixed, cpu_fixed=cpu_fixed)
    for share in (np.clip(balance, 0.0, most), np.broadcast_to(np.asarray(most, dtype=np.float64), total.shape)):
        taken = isolated_time(share, cpu, accelerator, fixed, cpu_fixed=cpu_fixed)
        better = taken < time
        best = np.where(better, share, best)
        time = np.where(better, taken, time)
    return best, time


def pair_split(
    table: TimeTable, cpu: int, accelerator: int, capacity: float, memory: Floats, divisible: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return the best share of each task on one accelerator beside its CPU, and the seconds it takes.

    Parameters
    ----------
    table
        Seconds by (task, column, whole or fixed).
    cpu, accelerator
        Columns of the two devices.
    capacity
        Memory of the accelerator in MB.
    memory
        Memory need of each task.
    divisible
        Whether each task may be split; one that may not runs whole on the accelerator, or not at all.
    """
    most = np.ones(len(table))
    np.divide(capacity, memory, out=most, where=memory > capacity)
    share, seconds = _best_split(
        table[:, cpu, 0], table[:, accelerator, 0],
        cpu_fixed=table[:, cpu, 1], fixed=table[:, accelerator, 1], most=most,
    )  # fmt: skip
    whole = np.where(memory <= capacity, table[:, accelerator].sum(axis=1), np.inf)
    return np.where(divisible, share, 1.0), np.where(divisible, seconds, whole)


def isolated_split(
    table: TimeTable, columns: Ints, platform: Platform, memory: Floats, divisible: NDArray[np.bool_] | None = None
) -> tuple[Floats, Floats]:
    """Return the best share of each task over all devices of a platform, and the seconds it takes.

    Parameters
    ----------
    table
        Seconds by (task, column, whole or fixed).
    columns
        For each device, its column of the table.
    platform
        The devices.
    memory
        Memory need of each task: a share that does not fit into an accelerator is clipped.
    divisible
        Whether each task may be split; by default all may.
    """
    flags = np.ones(len(table), np.bool_) if divisible is None else divisible
    best = np.zeros(len(table))
    time = table[:, np.unique(columns[platform.is_cpu])].sum(axis=2).min(axis=1)
    limits = platform.column("memory")
    pairs = {
        (int(columns[platform.cpu_of[d]]), int(columns[d]), float(limits[d]))
        for d in platform.accelerators.tolist()
    }
    for cpu, accelerator, capacity in sorted(pairs):
        share, taken = pair_split(table, cpu, accelerator, capacity, memory, flags)
        better = taken < time
        best = np.where(better, share, best)
        time = np.where(better, taken, time)
    return best, time


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
    on_accelerator = table[:, columns[accelerator], 0]
    launch = table[:, columns[accelerator], 1]
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
