"""Capacity of a platform: the fluid relaxation of scheduling, solved exactly.

Split every task freely among the device classes so that the busiest class is done as early as possible:

    minimise M   subject to   sum_i x[i,k] * t[i,k] <= n[k] * M   for every class k,   sum_k x[i,k] = 1

Its value for a set of tasks is a lower bound on any schedule's length, and tasks / M is the capacity mu*.
With a CPU and one class of accelerators it is a fractional knapsack: sort by t_cpu / t_acc. With more classes
the dual, ``max over prices y >= 0, sum n[k] y[k] = 1, of sum_i min_k y[k] t[i,k]``, has few variables and is
solved by cutting planes; every price vector gives a valid lower bound, so stopping early is safe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import Floats, Ints, Platform, TimeTable, Workload
from .protocol import Physics, full_speed


@dataclass(frozen=True, slots=True)
class FluidTasks:
    """Tasks of the fluid relaxation. Column 0 is the CPU.

    Parameters
    ----------
    whole
        Seconds per task and class for the part that may run anywhere.
    pinned
        CPU seconds of the part that fits into no accelerator's memory.
    servers
        Number of devices of each class.
    """

    whole: Floats
    pinned: Floats
    servers: Floats

    def __len__(self) -> int:
        return len(self.whole)


def fluid_tasks(
    table: TimeTable,
    columns: Ints,
    classes: Ints,
    memory_required: Floats,
    platform: Platform,
) -> FluidTasks:
    """Merge devices into classes: all CPUs are one class, accelerators merge when `classes` agree.

    Devices of one class may differ in `table` because of noise; the fastest counts. Launch overhead enters as
    ``s * fixed``, never more than the real ``fixed``, so the bound stays valid.

    Parameters
    ----------
    table
        (whole, fixed) seconds, shape (tasks, columns, 2).
    columns
        Column of each device in `table`.
    classes
        Class of each device.
    memory_required
        MB of each task.
    platform
        Devices.
    """
    accelerators = [np.flatnonzero(~platform.is_cpu & (classes == c)) for c in np.unique(classes[~platform.is_cpu])]
    members = [np.flatnonzero(platform.is_cpu), *accelerators]
    whole = np.stack([table[:, np.unique(columns[devices])].sum(axis=2).min(axis=1) for devices in members], axis=1)
    servers = np.array([len(devices) for devices in members], dtype=np.float64)
    memory = platform.column("memory")[~platform.is_cpu]
    largest = memory.max() if len(memory) else np.inf
    too_big = memory_required > largest
    share = np.ones(len(table))
    np.divide(largest, memory_required, out=share, where=too_big)
    pinned = (1.0 - share) * whole[:, 0]
    whole *= share[:, None]
    return FluidTasks(whole, pinned, servers)


def fluid_makespan(tasks: FluidTasks) -> float:
    """Return the value M of the relaxation: seconds for all tasks with every class busy to the end."""
    if tasks.whole.shape[1] == 1:
        return float((tasks.whole[:, 0] + tasks.pinned).sum() / tasks.servers[0])
    if tasks.whole.shape[1] == 2:
        return _knapsack(tasks)
    return _cutting_planes(tasks)[0]


def _knapsack(tasks: FluidTasks) -> float:
    cpu = tasks.whole[:, 0]
    accelerator = tasks.whole[:, 1]
    cpus, accelerators = tasks.servers
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(accelerator > 0, cpu / accelerator, np.inf)
    order = np.argsort(-ratio, kind="stable")
    on_accelerator = np.cumsum(accelerator[order]) / accelerators
    on_cpu = (cpu.sum() - np.cumsum(cpu[order]) + tasks.pinned.sum()) / cpus
    first = int(np.argmax(on_accelerator >= on_cpu))
    if on_accelerator[first] < on_cpu[first]:  # pinned CPU work alone takes longer
        return float(on_cpu[-1])
    c = cpu[order[first]] / cpus
    a = accelerator[order[first]] / accelerators
    before_accelerator = on_accelerator[first] - a
    before_cpu = on_cpu[first] + c
    share = (before_cpu - before_accelerator) / (a + c) if a + c > 0 else 0.0
    return float(before_accelerator + share * a)


def _cutting_planes(tasks: FluidTasks) -> tuple[float, Floats]:
    """Solve the dual by Kelley's method; return the best valid bound and its prices."""
    from scipy.optimize import linprog  # slow to import, and only needed for unequal accelerators

    count = tasks.whole.shape[1]
    pinned = tasks.pinned.sum()
    prices = np.full(count, 1.0 / tasks.servers.sum())
    cuts: list[Floats] = []
    best = -np.inf
    best_prices = prices
    for _ in range(200):
        priced = tasks.whole * prices
        chosen = priced.argmin(axis=1)
        # At these prices each task goes where it is cheapest; the loads are the slope of the dual there.
        slope = np.bincount(chosen, weights=tasks.whole[np.arange(len(chosen)), chosen], minlength=count)
        slope[0] += pinned
        value = float(slope @ prices)
        if value > best:
            best = value
            best_prices = prices
        cuts.append(np.append(-slope, 1.0))
        # Each cut says: dual <= slope . prices (the dual is positively homogeneous, so no constant term).
        solution = linprog(
            np.append(np.zeros(count), -1.0),
            A_ub=np.array(cuts),
            b_ub=np.zeros(len(cuts)),
            A_eq=[np.append(tasks.servers, 0.0)],
            b_eq=[1.0],
            bounds=[(0, None)] * count + [(None, None)],
        )
        if not solution.success or -solution.fun <= best * (1 + 1e-9):
            break
        prices = solution.x[:count]
    return best, best_prices


def best_prices(tasks: FluidTasks) -> Floats:
    """Return the dual prices per class: their ratios are the relative worth of a second on each class."""
    return _cutting_planes(tasks)[1]


def capacity(workload: Workload, platform: Platform, physics: Physics) -> float:
    """Return the capacity: tasks per second at which CPU and accelerators are all busy, at full speed.

    Parameters
    ----------
    workload
        Sample of the tasks to come.
    platform, physics
        Devices and durations.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, Task, Workload, capacity, workstation
    >>> tasks = Workload.from_tasks([Task(i, 2500, 0.5, 0) for i in range(100)])
    >>> round(capacity(tasks, workstation(1), AnalyticPhysics()), 6)
    7.0
    """
    durations = full_speed(physics)
    table = durations.times(workload, platform)
    columns = durations.columns(platform)
    return len(workload) / fluid_makespan(fluid_tasks(table, columns, columns, workload.memory_required, platform))
