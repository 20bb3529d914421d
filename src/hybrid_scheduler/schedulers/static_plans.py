"""Static plans that may split tasks: the rounded fluid relaxation, and local search for batches and graphs.

Both assume that durations and all tasks are known beforehand.

Fluid plan: solve the fluid relaxation. At its prices every task goes whole to the cheapest class of device, the
longest task first; among equally cheap devices it goes where it finishes first. The one task at which the
relaxation changes sides is split so that CPU and accelerators finish together. Dependencies do not count when
devices are chosen.

Split search: list scheduling with splits, improved by simulated annealing over order, devices and shares.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..compiled import compiled, entry, inner
from ..core import (
    Floats,
    Ints,
    InvalidInputError,
    Knowledge,
    Plan,
    PlanProgress,
    Platform,
    Static,
    TimeModel,
    Workload,
)
from ..physics import best_prices, fluid_tasks
from ..workload.argument_checks import positive_number, whole_number
from .registry import Look, register


@register("fluid_plan", label="Fluid plan (knows durations)", look=Look("#FCD34D", "#92400E", "◉", "long dash"))
class FluidPlan(Static):
    """Static plan for independent tasks by the fluid relaxation, close to the lower bound."""

    knows = Knowledge.TOLD

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        """Return the schedule of the whole workload."""
        assert self.setting.times is not None
        return Plan(*_fluid_placement(workload, platform, self.setting.times))


def _fluid_placement(workload: Workload, platform: Platform, times: TimeModel) -> tuple[Ints, Floats, Floats]:
    """Return device, share and start of every task."""
    columns = times.columns
    table = times.table(workload)
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
        workload.topological_order if workload.has_dependencies else np.lexsort((-longest, workload.arrival_time))
    )
    pivot = (
        _pivot(value, platform, workload.divisible)
        if len(platform.accelerators) and not workload.has_dependencies
        else -1
    )
    n = len(workload)
    device = np.zeros(n, np.int64)
    start = np.zeros(n)
    finish = np.zeros(n)
    free = np.zeros(len(platform))
    for row in order.tolist():
        if row == pivot:
            continue
        members = np.flatnonzero(cheapest[row])
        d = int(members[(free[members] + seconds[row, members]).argmin()])
        ready = max(free[d], workload.arrival_time[row], finish[workload.parents(row)].max(initial=0.0))
        device[row] = d
        start[row] = ready
        finish[row] = free[d] = ready + seconds[row, d]
    fraction = np.ones(n)
    if pivot >= 0:
        d = int(platform.accelerators[free[platform.accelerators].argmin()])
        host = int(platform.cpu_of[d])
        whole = seconds[pivot, d] + seconds[pivot, host]
        share = (free[host] + seconds[pivot, host] - free[d]) / whole if whole > 0 else 1.0
        cap = min(1.0, platform.devices[d].memory / max(workload.memory_required[pivot], 1e-12))
        device[pivot] = d
        fraction[pivot] = min(max(share, 0.0), cap)
        start[pivot] = max(free.max(), workload.arrival_time[pivot])
    return device, fraction, start


def _groups(platform: Platform, columns: Ints) -> Ints:
    """Return the class of each device in the relaxation: all CPUs are class 0, accelerators by column."""
    accelerators = np.unique(columns[~platform.is_cpu])
    return np.where(platform.is_cpu, 0, 1 + np.searchsorted(accelerators, columns))


def _pivot(value: Floats, platform: Platform, divisible: NDArray[np.bool_]) -> int:
    """Return the task with the most equal costs on CPU and accelerators; -1 if no task fits on both."""
    cpu = value[:, platform.is_cpu].min(axis=1)
    accelerator = value[:, ~platform.is_cpu].min(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # a task of zero seconds is no pivot
        gap = np.abs(cpu - accelerator) / np.minimum(cpu, accelerator)
    gap[~divisible] = np.inf
    return int(np.nanargmin(gap)) if np.isfinite(gap).any() else -1


# ------------------------------------------------------------------------------------------ split search

#: Highest temperature of the annealing, as a share of the best makespan; it falls to 0.
_TEMPERATURE = 0.002
#: Weight of the mean end of all devices beside the makespan: among equal plans the one that leaves devices early.
_EARLY_DEVICES = 0.05
#: Most looks at a task or an edge in one search: long workloads get fewer moves.
_MAX_EVALUATIONS = 20_000_000
#: Share of a task that stands for "so that both parts end together".
_BALANCED = -1.0
#: Share of the moves that a plan for the rest gets: it starts from the plan before.
_REPLAN_SHARE = 10
#: Moves by which the speed of the search is measured.
_TRIAL_MOVES = 200


class _Costs(NamedTuple):
    """Seconds, limits and links of a workload on a platform, as arrays for the compiled search."""

    whole: Floats
    fixed: Floats
    largest_share: Floats
    divisible: NDArray[np.bool_]
    arrival: Floats
    parent_start: Ints
    parent_rows: Ints
    parent_data: Floats
    host: Ints
    node: Ints
    link: Floats
    network: Floats  # seconds per MB between nodes, start-up seconds
    pairs: Floats  # seconds per MB from each device to each other one; empty where links say it all
    startup: Floats
    free_at: Floats  # when each device is free of earlier tasks


@register("split_search", label="Split search (knows durations)", look=Look("#A3E635", "#3F6212", "◈", "solid"))
class SplitSearch(Static):
    """Static plan for batches and graphs: list scheduling with splits, improved by local search.

    Parameters
    ----------
    iterations
        Moves of the local search; 0 gives the list schedule. Workloads above about 1,000 tasks get fewer.
    seconds
        Time for the search instead; the result then depends on the machine.
    replan
        Factor above 1 between measured and planned seconds of a task above which the tasks that have not started
        are planned again; None for never.

    Raises
    ------
    InvalidInputError
        If a parameter is out of range.

    Notes
    -----
    Tasks are ranked by the shortest path to the end. In that order each takes the placement with the earliest end:
    whole on a device, or split so that both parts end together. A batch also starts from the fluid plan. Simulated
    annealing then moves a task in the order, gives it another device or share, or exchanges the placements of two.

    Examples
    --------
    >>> from hybrid_scheduler import compare
    >>> from hybrid_scheduler.workload import fork_join
    >>> found = compare(fork_join(3, 8), ["heft", "split_search(iterations=500)"]).summaries
    >>> found["split_search(iterations=500)"].makespan < found["heft"].makespan
    True
    """

    knows = Knowledge.TOLD

    def __init__(self, iterations: int = 10_000, seconds: float | None = None, replan: float | None = None) -> None:
        self.iterations = whole_number("iterations", iterations, 0)
        self.seconds = None if seconds is None else positive_number("seconds", seconds)
        if replan is not None and not 1.0 < replan < math.inf:
            raise InvalidInputError("replan", "a number above 1, or None", replan)
        self.replan_above = replan

    def plan(self, workload: Workload, platform: Platform) -> Plan:
        """Return the schedule of the whole workload."""
        assert self.setting.times is not None
        costs = _search_costs(workload, platform, self.setting.times)
        other = None
        if not workload.has_dependencies:
            device, share, start = _fluid_placement(workload, platform, self.setting.times)
            other = np.argsort(start, kind="stable"), device, share
        order, device, share = _best_start(workload, costs, other)
        moves = min(self.iterations, _MAX_EVALUATIONS // (len(workload) + len(costs.parent_rows)))
        if self.seconds is not None:
            began = time.perf_counter()
            compiled(_search, _SEARCH_SIGNATURE)(order, device, share, _TRIAL_MOVES, costs)
            moves = int(_TRIAL_MOVES * self.seconds / (time.perf_counter() - began))
        order, device, share = compiled(_search, _SEARCH_SIGNATURE)(order, device, share, moves, costs)
        self._last = order, device, share
        return _as_plan(order, device, share, costs)

    def replan(self, workload: Workload, platform: Platform, progress: PlanProgress) -> Plan:
        """Return another schedule for the tasks that have not started; see `Static.replan`."""
        assert self.setting.times is not None
        rows = progress.rows
        rest = workload.subset(progress.rows)
        costs = _search_costs(rest, platform, self.setting.times)
        costs = costs._replace(
            arrival=np.maximum(rest.arrival_time, np.maximum(progress.ready, progress.now)),
            free_at=progress.free_at.copy(),
        )
        order, device, share = self._last
        place = np.full(len(workload), -1)
        place[rows] = np.arange(len(rows))
        kept = place[order[place[order] >= 0]].astype(np.int64)
        start = _best_start(rest, costs, (kept, device[rows], share[rows]))
        moves = min(self.iterations // _REPLAN_SHARE, _MAX_EVALUATIONS // (len(rows) + len(costs.parent_rows)))
        new_order, new_device, new_share = compiled(_search, _SEARCH_SIGNATURE)(*start, moves, costs)
        device[rows] = new_device
        share[rows] = new_share
        self._last = np.concatenate([order[place[order] < 0], rows[new_order]]), device, share
        return _as_plan(new_order, new_device, new_share, costs)


_Solution = tuple[Ints, Ints, Floats]  # order, device, share


def _best_start(workload: Workload, costs: _Costs, other: _Solution | None) -> _Solution:
    """Return the best of the list schedules, with and without splits, and another plan."""
    order = _rank_order(workload, costs)
    n = len(workload)
    starts = []
    for splits in (True, False):
        device = np.zeros(n, np.int64)
        share = np.zeros(n)
        makespan = compiled(_list_schedule, _LIST_SIGNATURE)(order, device, share, splits, costs)
        starts.append((makespan, (order, device, share)))
    if other is not None:
        starts.append((compiled(_decode, _DECODE_SIGNATURE)(*other, costs)[0], other))
    return min(starts, key=lambda one: one[0])[1]


def _as_plan(order: Ints, device: Ints, share: Floats, costs: _Costs) -> Plan:
    _, used, begin, finish = compiled(_decode, _DECODE_SIGNATURE)(order, device, share, costs)
    return Plan(device.copy(), used, _increasing(order, begin), finish)


def _search_costs(workload: Workload, platform: Platform, times: TimeModel) -> _Costs:
    table = times.table(workload)[:, times.columns]
    links = times.links
    with np.errstate(divide="ignore"):
        share = np.minimum(1.0, platform.memory_limit / workload.memory_required[:, None])
    share = np.where(np.isnan(share), 1.0, share)
    has_pairs = links.pairs is not None
    return _Costs(
        np.ascontiguousarray(table[:, :, 0]),
        np.ascontiguousarray(table[:, :, 1]),
        np.ascontiguousarray(share),
        workload.divisible.copy(),
        workload.arrival_time.copy(),
        workload.parent_start.copy(),
        workload.parent_rows.copy(),
        workload.parent_data.copy(),
        platform.cpu_of.copy(),
        platform.node.copy(),
        np.ascontiguousarray(links.device, np.float64),
        np.array([links.network, links.latency]),
        np.ascontiguousarray(links.seconds_per_mb(platform.node)) if has_pairs else np.empty((0, 0)),
        np.ascontiguousarray(links.startup_seconds(platform.node)) if has_pairs else np.empty((0, 0)),
        np.zeros(len(platform)),
    )


def _rank_order(workload: Workload, costs: _Costs) -> Ints:
    """Return rows, parents first, by the length of the shortest possible path to the end."""
    fits = (costs.largest_share >= 1.0) | (costs.host == np.arange(len(costs.host)))
    shortest = np.where(fits, costs.whole + costs.fixed, np.inf).min(axis=1)
    rank = shortest.copy()
    if workload.has_dependencies:
        for row in workload.topological_order[::-1].tolist():
            for parent in workload.parents(row).tolist():
                rank[parent] = max(rank[parent], shortest[parent] + rank[row])
    position = np.argsort(workload.topological_order)
    order = np.lexsort((position, -rank)) if workload.has_dependencies else np.lexsort((-rank, costs.arrival))
    return order.astype(np.int64)


def _increasing(order: Ints, begin: Floats) -> Floats:
    """Return starts that increase along the order, so that every device works in this order."""
    start = np.empty(len(order))
    before = -np.inf
    for row in order.tolist():
        before = start[row] = max(np.nextafter(before, np.inf), begin[row])
    return start


_COSTS_TYPE = types.NamedTuple(
    (
        *(types.float64[:, ::1],) * 3, types.boolean[::1], types.float64[::1],
        types.int64[::1], types.int64[::1], types.float64[::1], types.int64[::1], types.int64[::1],
        types.float64[::1], types.float64[::1], types.float64[:, ::1], types.float64[:, ::1], types.float64[::1],
    ),
    _Costs,
)  # fmt: skip
_rows = types.int64[::1]
_shares = types.float64[::1]
_LIST_SIGNATURE = types.float64(_rows, _rows, _shares, types.boolean, _COSTS_TYPE)
_DECODE_SIGNATURE = types.Tuple((types.float64, *(_shares,) * 3))(_rows, _rows, _shares, _COSTS_TYPE)
_SEARCH_SIGNATURE = types.Tuple((_rows, _rows, _shares))(_rows, _rows, _shares, types.int64, _COSTS_TYPE)


@inner
def _moved(megabytes, parent, parent_share, child, child_share, costs):  # type: ignore[no-untyped-def]
    """Return the seconds to move a parent's output to its child; see `cluster.event_loop`."""
    parent_host = costs.host[parent]
    child_host = costs.host[child]
    if len(costs.pairs) > 0:
        source = parent if parent_share > 0.0 else parent_host
        target = child if child_share > 0.0 else child_host
        if source == target:
            return 0.0
        return costs.startup[source, target] + megabytes * costs.pairs[source, target]
    link = costs.link
    if parent_host == child_host:
        on_host = abs(parent_share - child_share) * link[child_host]
        if parent == child:
            return megabytes * (abs(parent_share - child_share) * link[child] + on_host)
        return megabytes * (child_share * link[child] + parent_share * link[parent] + on_host)
    seconds = child_share * link[child] + (1.0 - child_share) * link[child_host]
    seconds += parent_share * link[parent] + (1.0 - parent_share) * link[parent_host]
    seconds *= megabytes
    if costs.node[parent_host] != costs.node[child_host]:
        seconds += costs.network[1] + megabytes * costs.network[0]
    return seconds


@inner
def _ends(row, d, share, costs, device, used, finish, free):  # type: ignore[no-untyped-def]
    """Return start, end, executed share, and ends of both parts of a task that is placed next."""
    host = costs.host[d]
    first = costs.parent_start[row]
    last = costs.parent_start[row + 1]
    parents_end = costs.arrival[row]
    for edge in range(first, last):
        parents_end = max(parents_end, finish[costs.parent_rows[edge]])
    ready = parents_end
    part = 0.0 if host == d else share
    balanced = part == _BALANCED
    for _ in range(3):  # a balanced share depends on the data's arrival, which depends on the share
        if balanced:
            on_cpu = max(ready, free[host]) + costs.fixed[row, host] + costs.whole[row, host]
            on_device = max(ready, free[d]) + costs.fixed[row, d]
            both = costs.whole[row, host] + costs.whole[row, d]
            part = (on_cpu - on_device) / both if both > 0.0 else 1.0
            part = min(max(part, 0.0), costs.largest_share[row, d])
        ready = parents_end
        for edge in range(first, last):
            parent = costs.parent_rows[edge]
            megabytes = costs.parent_data[edge]
            if megabytes > 0.0:
                data = finish[parent] + _moved(megabytes, device[parent], used[parent], d, part, costs)
                ready = max(ready, data)
        if not balanced or first == last:
            break
    cpu_end = free[host]
    device_end = free[d]
    end = ready
    start = np.inf
    if part < 1.0:
        begin = max(ready, free[host])
        cpu_end = begin + (costs.fixed[row, host] + (1.0 - part) * costs.whole[row, host])
        start = begin
        end = max(end, cpu_end)
    if part > 0.0:
        begin = max(ready, free[d])
        device_end = begin + (costs.fixed[row, d] + part * costs.whole[row, d])
        start = min(start, begin)
        end = max(end, device_end)
    return start, end, part, cpu_end, device_end


@inner
def _decoded(order, device, share, costs, used, finish, begin, free, limit):  # type: ignore[no-untyped-def]
    """Place all tasks in order; return the last end, or infinity as soon as it exceeds `limit`."""
    free[:] = costs.free_at
    last = 0.0
    for row in order:
        d = device[row]
        start, end, part, cpu_end, device_end = _ends(row, d, share[row], costs, device, used, finish, free)
        begin[row] = start
        finish[row] = end
        used[row] = part
        if part < 1.0:
            free[costs.host[d]] = cpu_end
        if part > 0.0:
            free[d] = device_end
        last = max(last, end)
        if last > limit:
            return np.inf
    return last


@entry
def _decode(order, device, share, costs):  # type: ignore[no-untyped-def]
    """Return the makespan of a plan, executed shares, starts and ends."""
    n, devices = costs.whole.shape
    used = np.empty(n)
    begin = np.empty(n)
    finish = np.zeros(n)
    last = _decoded(order, device, share, costs, used, finish, begin, np.zeros(devices), np.inf)
    return last, used, begin, finish


@entry
def _list_schedule(order, device, share, splits, costs):  # type: ignore[no-untyped-def]
    """Write, task by task, the placement with the earliest end; return the makespan."""
    n, devices = costs.whole.shape
    used = np.zeros(n)
    finish = np.zeros(n)
    free = costs.free_at.copy()
    for row in order:
        best_end = np.inf
        best_device = 0
        best_share = 0.0
        for d in range(devices):
            accelerator = costs.host[d] != d
            splittable = costs.divisible[row] and len(costs.pairs) == 0
            if accelerator and costs.largest_share[row, d] < 1.0 and not splittable:
                continue
            choices = 2 if accelerator and splits and splittable else 1
            for choice in range(choices):
                wanted = 0.0
                if accelerator:
                    wanted = costs.largest_share[row, d] if choice == 0 else _BALANCED
                _, end, _, _, _ = _ends(row, d, wanted, costs, device, used, finish, free)
                if end < best_end:
                    best_end = end
                    best_device = d
                    best_share = wanted
        device[row] = best_device
        share[row] = best_share
        _, finish[row], used[row], cpu_end, device_end = _ends(
            row, best_device, best_share, costs, device, used, finish, free
        )
        if used[row] < 1.0:
            free[costs.host[best_device]] = cpu_end
        if used[row] > 0.0:
            free[best_device] = device_end
    return finish.max()


@inner
def _random(state):  # type: ignore[no-untyped-def]
    """Return a number in [0, 1) (xorshift)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return (x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def _shift(order, position, old, new):  # type: ignore[no-untyped-def]
    """Move the row at `old` to `new`, and those between by one."""
    row = order[old]
    step = 1 if new > old else -1
    for k in range(old, new, step):
        order[k] = order[k + step]
        position[order[k]] = k
    order[new] = row
    position[row] = new


@inner
def _children_of(costs):  # type: ignore[no-untyped-def]
    """Return the children of all rows: first positions, and rows."""
    n = len(costs.arrival)
    first = np.zeros(n + 1, np.int64)
    for parent in costs.parent_rows:
        first[parent + 1] += 1
    first = np.cumsum(first)
    rows = np.empty(len(costs.parent_rows), np.int64)
    filled = first[:-1].copy()
    for row in range(n):
        for edge in range(costs.parent_start[row], costs.parent_start[row + 1]):
            parent = costs.parent_rows[edge]
            rows[filled[parent]] = row
            filled[parent] += 1
    return first, rows


@inner
def _new_share(row, d, own, state, costs):  # type: ignore[no-untyped-def]
    """Return a share for a task on a device: all, balanced, anything, or near its own; NaN if none is allowed."""
    if costs.host[d] == d:
        return 0.0
    largest = costs.largest_share[row, d]
    if not costs.divisible[row] or len(costs.pairs) > 0:
        return 1.0 if largest >= 1.0 else np.nan
    kind = _random(state)
    if kind < 0.35:
        return largest
    if kind < 0.7:
        return _BALANCED
    if kind < 0.85:
        return _random(state) * largest
    return min(max(own + 0.1 * (_random(state) - 0.5), 0.0), largest)


class _Change(NamedTuple):
    """Change of a plan at a row and perhaps another one, by what was before; row -1 if there is none."""

    row: int
    position: int
    device: int
    share: float
    other: int
    other_device: int
    other_share: float


@inner
def _new_position(row, position, child_start, child_rows, state, costs):  # type: ignore[no-untyped-def]
    """Return a position in the order between a row's parents and its children."""
    lowest = 0
    highest = len(position) - 1
    for edge in range(costs.parent_start[row], costs.parent_start[row + 1]):
        lowest = max(lowest, position[costs.parent_rows[edge]] + 1)
    for edge in range(child_start[row], child_start[row + 1]):
        highest = min(highest, position[child_rows[edge]] - 1)
    return lowest + int(_random(state) * (highest - lowest + 1))


@inner
def _changed(order, position, device, share, used, child_start, child_rows, state, costs):  # type: ignore[no-untyped-def]
    """Move a row in the order, exchange the placements of two, or give one another device or share."""
    row = int(_random(state) * len(order))
    kind = _random(state)
    change = _Change(row, position[row], device[row], share[row], -1, 0, 0.0)
    none = _Change(-1, 0, 0, 0.0, -1, 0, 0.0)
    if kind < 0.3:
        new = _new_position(row, position, child_start, child_rows, state, costs)
        if new == change.position:
            return none
        _shift(order, position, change.position, new)
    elif kind < 0.45:
        other = int(_random(state) * len(order))
        if other == row or (device[other] == device[row] and share[other] == share[row]):
            return none
        if not (costs.divisible[row] and costs.divisible[other]) or len(costs.pairs) > 0:
            return none
        change = _Change(row, position[row], device[row], share[row], other, device[other], share[other])
        device[row] = change.other_device
        share[row] = min(change.other_share, costs.largest_share[row, change.other_device])
        device[other] = change.device
        share[other] = min(change.share, costs.largest_share[other, change.device])
    else:
        d = int(_random(state) * len(costs.host))
        wanted = _new_share(row, d, used[row], state, costs)
        if np.isnan(wanted) or (d == device[row] and wanted == share[row]):
            return none
        device[row] = d
        share[row] = wanted
    return change


@inner
def _undo(order, position, device, share, change):  # type: ignore[no-untyped-def]
    device[change.row] = change.device
    share[change.row] = change.share
    if change.other >= 0:
        device[change.other] = change.other_device
        share[change.other] = change.other_share
    if position[change.row] != change.position:
        _shift(order, position, position[change.row], change.position)


@entry
def _search(order, device, share, moves, costs):  # type: ignore[no-untyped-def]
    """Improve a plan by simulated annealing; return order, devices and shares of the best one."""
    n, devices = costs.whole.shape
    state = np.array([np.uint64(88172645463325252)])
    used = np.zeros(n)
    finish = np.zeros(n)
    begin = np.zeros(n)
    free = np.zeros(devices)
    best = _decoded(order, device, share, costs, used, finish, begin, free, np.inf)
    value = best + _EARLY_DEVICES * free.mean()
    best_order = order
    best_device = device
    best_share = share
    order = order.copy()
    device = device.copy()
    share = share.copy()
    position = np.argsort(order)
    child_start, child_rows = _children_of(costs)
    for move in range(moves):
        change = _changed(order, position, device, share, used, child_start, child_rows, state, costs)
        if change.row < 0:
            continue
        temperature = _TEMPERATURE * best * (1.0 - move / moves)
        limit = value - temperature * np.log(max(_random(state), 1e-300))
        last = _decoded(order, device, share, costs, used, finish, begin, free, limit)
        found = last + _EARLY_DEVICES * free.mean()
        if found > limit:
            _undo(order, position, device, share, change)
            continue
        value = found
        if last < best:
            best = last
            best_order = order.copy()
            best_device = device.copy()
            best_share = share.copy()
    return best_order, best_device, best_share
