"""Lower bounds that no schedule can beat, exact for the relaxation they come from.

    makespan >= max over k of (arrival_k + fluid makespan of tasks k..n) - first arrival      work
    makespan >= max over i of (arrival_i + isolated optimum_i) - first arrival                one task
    makespan >= longest chain of dependent tasks, each at its isolated optimum                critical path

The first one needs the fluid makespan of every suffix. Tasks are inserted from the last to the first into a
Fenwick tree ordered by t_cpu / t_acc; each insertion and each search for the pivot costs O(log n).
"""

from __future__ import annotations

import numpy as np

from ..compiled import entry
from ..core import Floats, Platform, Workload
from ..physics import FluidTasks, Physics, best_prices, fluid_tasks, isolated_split
from .noise import Noise
from .physics_times import PhysicsTimes

_BLOCK_NUMBERS = 20_000_000


def makespan_bound(
    workload: Workload,
    platform: Platform,
    physics: Physics,
    noise: Noise | None = None,
    *,
    memory_policy: str = "clip",
) -> float:
    """The best of the three bounds, in seconds."""
    times = PhysicsTimes(physics, platform, noise)
    may_fail = memory_policy == "fail"
    parts = [
        fluid_tasks(
            times.table(part), times.columns, physics.columns(platform), part.memory_required, platform,
            may_fail=may_fail,
        )
        for part in _blocks(workload, times)
    ]  # fmt: skip
    tasks = FluidTasks(
        np.concatenate([part.whole for part in parts]),
        np.concatenate([part.pinned for part in parts]),
        parts[0].servers,
    )
    alone = isolated_optimum(workload, platform, physics, noise)
    if may_fail:
        alone = np.where(tasks.whole.sum(axis=1) + tasks.pinned > 0, alone, 0.0)
    first = float(workload.arrival_time[0])
    work = _work_bound(workload.arrival_time, tasks)
    return max(work, _critical_path(workload, alone)) - first


def isolated_optimum(
    workload: Workload, platform: Platform, physics: Physics, noise: Noise | None = None
) -> Floats:
    """Return the seconds that each task takes alone on an empty platform, best device and best share."""
    times = PhysicsTimes(physics, platform, noise)
    blocks = [
        isolated_split(times.table(part), times.columns, platform, part.memory_required)[1]
        for part in _blocks(workload, times)
    ]
    return np.concatenate(blocks)


def _blocks(workload: Workload, times: PhysicsTimes) -> list[Workload]:
    """The workload in pieces whose tables stay small (with noise every device has a column)."""
    width = 2 * (int(times.columns.max()) + 1)
    step = max(1, _BLOCK_NUMBERS // width)
    return [workload.rows(i, min(i + step, len(workload))) for i in range(0, len(workload), step)]


def _work_bound(arrival: Floats, tasks: FluidTasks) -> float:
    classes = tasks.whole.shape[1]
    if classes == 1:
        suffix = np.cumsum((tasks.whole[:, 0] + tasks.pinned)[::-1])[::-1] / tasks.servers[0]
        return float((arrival + suffix).max())
    if classes == 2:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(tasks.whole[:, 1] > 0, tasks.whole[:, 0] / tasks.whole[:, 1], np.inf)
        order = np.argsort(-ratio, kind="stable")
        rank = np.empty(len(arrival), np.int64)
        rank[order] = np.arange(len(arrival))
        return float(_best_suffix(arrival, tasks.whole, tasks.pinned, tasks.servers, order, rank))
    return _work_bound_by_prices(arrival, tasks)


@entry
def _best_suffix(arrival, whole, pinned, servers, order, rank):  # type: ignore[no-untyped-def]
    """max over k of arrival[k] + fluid makespan of k..n, for a CPU class and one accelerator class."""
    n = len(arrival)
    top = 1
    while top * 2 <= n:
        top *= 2
    both = np.zeros(n + 1)  # Fenwick: accelerator load + CPU load that leaves, per server
    moved = np.zeros(n + 1)  # Fenwick: accelerator load alone
    cpu_load = 0.0
    pinned_load = 0.0
    best = 0.0
    for k in range(n - 1, -1, -1):
        c = whole[k, 0] / servers[0]
        a = whole[k, 1] / servers[1]
        cpu_load += c + pinned[k] / servers[0]
        pinned_load += pinned[k] / servers[0]
        position = rank[k] + 1
        while position <= n:
            both[position] += a + c
            moved[position] += a
            position += position & -position
        # Move tasks to the accelerators in order of ratio until they are as busy as what is left for the CPU.
        room = cpu_load
        on_accelerator = 0.0
        position = 0
        step = top
        while step > 0:
            after = position + step
            if after <= n and both[after] <= room:
                position = after
                room -= both[after]
                on_accelerator += moved[after]
            step //= 2
        if position < n and order[position] >= k:
            c = whole[order[position], 0] / servers[0]
            a = whole[order[position], 1] / servers[1]
            on_accelerator += a * min(1.0, room / (a + c))  # the pivot task is split
        best = max(best, arrival[k] + max(on_accelerator, pinned_load))
    return best


def _work_bound_by_prices(arrival: Floats, tasks: FluidTasks) -> float:
    """Three or more classes: any dual prices bound every suffix at once, so climb between suffix and prices.

    Prices that are optimal for one suffix are tried on all; the best suffix then gets its own prices, until
    nothing improves. Always a valid bound, and exact for the suffix it ends on.
    """
    n = len(arrival)
    best = -np.inf
    tried: set[int] = set()
    todo = [n - n // 2**halving for halving in range(min(10, n.bit_length()))]
    todo[0] = 0
    while todo:
        k = todo.pop()
        if k in tried:
            continue
        tried.add(k)
        suffix = FluidTasks(tasks.whole[k:], tasks.pinned[k:], tasks.servers)
        prices = best_prices(suffix)
        cheapest = (tasks.whole * prices).min(axis=1) + tasks.pinned * prices[0]
        bounds = arrival + np.cumsum(cheapest[::-1])[::-1]
        winner = int(np.argmax(bounds))
        if bounds[winner] > best:
            best = float(bounds[winner])
            todo.append(winner)
    return best


def _critical_path(workload: Workload, alone: Floats) -> float:
    """Latest end when every task takes its isolated optimum and waits only for its arrival and its parents."""
    ends = workload.arrival_time + alone
    if workload.has_dependencies:
        for row in workload.topological_order.tolist():
            parents = workload.parents(row)
            if len(parents):
                ends[row] = max(workload.arrival_time[row], ends[parents].max()) + alone[row]
    return float(ends.max())
