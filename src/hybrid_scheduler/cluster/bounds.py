"""Lower bounds on the makespan of any schedule, exact for the relaxation that they come from.

    makespan >= max over k of (arrival_k + fluid makespan of tasks k..n) - first arrival      work
    makespan >= max over i of (arrival_i + isolated optimum_i) - first arrival                one task
    makespan >= longest chain of dependent tasks with the data that must move between them    critical path

The first one needs the fluid makespan of every suffix. Tasks are inserted from the last to the first into a
Fenwick tree ordered by t_cpu / t_acc; each insertion and each search for the pivot costs O(log n).
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from ..compiled import entry
from ..core import Floats, Ints, Platform, Workload
from ..physics import FluidTasks, Physics, best_prices, fluid_tasks, isolated_split, pair_split
from .noise import Noise
from .physics_times import PhysicsTimes

_BLOCK_NUMBERS = 20_000_000
#: Most devices for which transfers count in the critical path: its cost grows with their square.
_MAX_DEVICES = 64


def makespan_bound(
    workload: Workload,
    platform: Platform,
    physics: Physics,
    noise: Noise | None = None,
    *,
    memory_policy: str = "clip",
) -> float:
    """Return the best of the three lower bounds on the makespan, in seconds.

    Parameters
    ----------
    workload
        Tasks, with their dependencies.
    platform, physics
        Devices and durations.
    noise
        Noise of the run; the bound then holds for the realised durations.
    memory_policy
        With ``"fail"`` tasks that may fail do not count: those that do not fit into every accelerator, and all
        that depend on them. With ``"page"`` memory does not bind: the bound leaves out what pages cost.

    Returns
    -------
    float
        Seconds from the first arrival; no schedule ends earlier.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, WorkloadGenerator, compare, makespan_bound, workstation
    >>> workload = WorkloadGenerator(seed=1).generate_workload(50, utilisation=0.5)
    >>> bound = makespan_bound(workload, workstation(), AnalyticPhysics())
    >>> compare(workload, ["oracle"]).summaries["oracle"].makespan >= bound
    True
    """
    first = float(workload.arrival_time[0])
    if memory_policy == "fail":
        sure = ~_may_fail(workload, platform)
        if not sure.any():
            return 0.0
        workload = workload.subset(np.flatnonzero(sure))
    workload = runnable(workload, memory_policy)
    times = PhysicsTimes(physics, platform, noise)
    parts = [
        fluid_tasks(times.table(part), times.columns, physics.columns(platform), part.memory_required, platform)
        for part in _blocks(workload, times)
    ]
    tasks = FluidTasks(
        np.concatenate([part.whole for part in parts]),
        np.concatenate([part.pinned for part in parts]),
        parts[0].servers,
    )
    alone = isolated_optimum(workload, platform, physics, noise)
    work = _work_bound(workload.arrival_time, tasks)
    path = float((earliest_starts(workload, alone) + alone).max())
    if workload.parent_data.any() and len(platform) <= _MAX_DEVICES:
        path = max(path, _path_with_transfers(workload, platform, times))
    return max(work, path) - first


def runnable(workload: Workload, memory_policy: str) -> Workload:
    """Return the tasks as bounds see them: where pages move over the link, memory limits no share."""
    if memory_policy != "page":
        return workload
    unlimited = copy(workload)
    unlimited.memory_required = np.zeros(len(workload))
    return unlimited


def isolated_optimum(
    workload: Workload, platform: Platform, physics: Physics, noise: Noise | None = None
) -> Floats:
    """Return the seconds of each task alone on an empty platform, with the best device and share.

    Parameters
    ----------
    workload
        Tasks.
    platform, physics
        Devices and durations.
    noise
        Noise of the run, if the realised durations count.
    """
    times = PhysicsTimes(physics, platform, noise)
    blocks = [
        isolated_split(times.table(part), times.columns, platform, part.memory_required, part.divisible)[1]
        for part in _blocks(workload, times)
    ]
    return np.concatenate(blocks)


def _blocks(workload: Workload, times: PhysicsTimes) -> list[Workload]:
    """Cut the workload into blocks whose tables stay small (with noise every device has a column)."""
    width = 2 * (int(times.columns.max()) + 1)
    step = max(1, _BLOCK_NUMBERS // width)
    return [workload.rows(i, min(i + step, len(workload))) for i in range(0, len(workload), step)]


def _may_fail(workload: Workload, platform: Platform) -> NDArray[np.bool_]:
    """Return which tasks can fail: too big for some accelerator, or dependent on a task that can."""
    limits = platform.column("memory")[platform.accelerators]
    fails = workload.memory_required > limits.min(initial=np.inf)
    if workload.has_dependencies:
        for row in workload.topological_order.tolist():
            fails[row] |= fails[workload.parents(row)].any()
    return fails


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
    """Return max over k of arrival[k] + fluid makespan of k..n, for a CPU class and one accelerator class."""
    n = len(arrival)
    top = 1
    while top * 2 <= n:
        top *= 2
    both = np.zeros(n + 1)  # Fenwick tree: accelerator load + CPU load that moves, per server
    moved = np.zeros(n + 1)  # Fenwick tree: accelerator load alone
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
        # Move tasks to the accelerators in order of ratio until both sides are equally busy.
        gap = cpu_load
        on_accelerator = 0.0
        position = 0
        step = top
        while step > 0:
            after = position + step
            if after <= n and both[after] <= gap:
                position = after
                gap -= both[after]
                on_accelerator += moved[after]
            step //= 2
        if position < n and order[position] >= k:
            c = whole[order[position], 0] / servers[0]
            a = whole[order[position], 1] / servers[1]
            on_accelerator += a * min(1.0, gap / (a + c))  # the pivot task is split
        best = max(best, arrival[k] + max(on_accelerator, pinned_load))
    return best


def _work_bound_by_prices(arrival: Floats, tasks: FluidTasks) -> float:
    """Return the work bound for three or more classes, by ascent between suffixes and dual prices.

    Any dual prices bound every suffix. Prices that are optimal for one suffix are applied to all; the best suffix
    then gets its own prices, until nothing improves. The bound is valid throughout, and exact for the last suffix.
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


def earliest_starts(workload: Workload, alone: Floats) -> Floats:
    """Return each task's start if all take their isolated optima and wait only for arrival and parents."""
    starts = workload.arrival_time.copy()
    if workload.has_dependencies:
        for row in workload.topological_order.tolist():
            parents = workload.parents(row)
            if len(parents):
                starts[row] = max(starts[row], (starts[parents] + alone[parents]).max())
    return starts


def _path_with_transfers(workload: Workload, platform: Platform, times: PhysicsTimes) -> float:
    """Return the latest end if tasks wait only for arrival, parents and the parents' data.

    A task runs whole on a device, or split between an accelerator and its host. For each of these placements the
    earliest end follows from the best placement of every parent alone, so queues and conflicts are left out.
    Between two placements that share no device all data moves, at least over the cheapest pair.
    """
    seconds, members = _placements(workload, platform, times)
    links = times.links
    per_mb = links.seconds_per_mb(platform.node)
    startup = links.startup_seconds(platform.node)
    ends = np.empty_like(seconds)
    for row in workload.topological_order.tolist():
        begin = np.full(len(members), workload.arrival_time[row])
        first = workload.parent_start[row]
        last = workload.parent_start[row + 1]
        for parent, megabytes in zip(workload.parents(row), workload.parent_data[first:last], strict=True):
            if megabytes > 0:
                # least[p, q]: seconds to move the data from placement p to placement q
                by_pair = startup + megabytes * per_mb
                least = np.minimum.reduce([by_pair[np.ix_(a, b)] for a in members.T for b in members.T])
                begin = np.maximum(begin, (ends[parent][:, None] + least).min(axis=0))
            else:
                begin = np.maximum(begin, ends[parent].min())
        ends[row] = begin + seconds[row]
    return float(ends.min(axis=1).max())


def _placements(workload: Workload, platform: Platform, times: PhysicsTimes) -> tuple[Floats, Ints]:
    """Return the least seconds of each task in each placement, and the two devices of each placement.

    First come the devices, which run a task whole, then the accelerators with their hosts, which split it.
    """
    columns = times.columns
    memory = workload.memory_required
    table = np.concatenate([times.table(part) for part in _blocks(workload, times)])
    devices = np.arange(len(platform))
    whole = np.where(memory[:, None] <= platform.memory_limit, table.sum(axis=2)[:, columns], np.inf)
    limits = platform.column("memory")
    split = [
        pair_split(
            table, int(columns[platform.cpu_of[d]]), int(columns[d]), float(limits[d]), memory, workload.divisible
        )[1][:, None]
        for d in platform.accelerators.tolist()
    ]
    hosts = platform.cpu_of[platform.accelerators]
    members = np.stack([np.concatenate([devices, platform.accelerators]), np.concatenate([devices, hosts])], axis=1)
    return np.hstack([whole, *split]), members
