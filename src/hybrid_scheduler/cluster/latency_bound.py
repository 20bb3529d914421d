"""Lower bound on the mean latency of any schedule: a time-indexed relaxation, bounded by prices on device time.

A part of share s that runs for p seconds advances its task by s / p per second, and p is at least s times the
seconds T of the whole task on that device. So a task on one CPU and one accelerator advances at most at the rate
``1 / h = 1 / T_cpu + 1 / T_acc``, and if its progress has the mean time m, it ends at ``m + h / 2`` or later.
The relaxation keeps three facts: progress takes T device seconds per unit, a class of devices has as many seconds
per second as it has devices, and no task advances faster than 1 / h or before its release.

For any prices ``pi[c](t) >= 0`` on the seconds of class c, weak duality gives

    sum of latencies >= sum over tasks of min over pairs (cost of progress + h / 2 - arrival) - sum of pi * devices

where the cost of progress at time t on class c is ``t + T * pi[c](t)``, and each task buys the cheapest progress
that its rate allows. Prices are step functions of time. They begin as the dual prices of a priority rule on the
pooled machine and rise along the subgradient: where tasks buy more seconds than there are, they are too low. Every
step gives a valid bound; the best one counts. With all prices zero it is the mean isolated optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..compiled import compiled, entry, inner
from ..core import Floats, Ints, Platform, Workload
from ..physics import Physics
from .bounds import earliest_starts, isolated_optimum
from .noise import Noise
from .physics_times import PhysicsTimes

#: Tasks that are bounded together. Leaving out tasks never raises the latency of the others, so the bounds of
#: consecutive blocks add up.
_BLOCK = 2000
#: Width of a step of the prices in mean isolated optima, and most steps of a block.
_WIDTH = 0.6
_MAX_STEPS = 50_000
#: Largest numbers of steps of the ascent, and of evaluations in a block. Only very long queues need so many.
_ASCENT = 100
_MAX_EVALUATIONS = 1_000_000_000
#: Share of the mean price that a step of the ascent may change, and the weight of the newest subgradient. After
#: that many steps without a better bound the share is halved.
_RATE = 0.15
_NEWEST = 0.3
_MAX_FAILURES = 4
#: Share of the pooled prices with which the ascent begins.
_BEGIN = 0.6
#: Part of a task's progress that may be missing at the cost found for it; it lowers the bound by less.
_PRECISION = 1e-5
#: Most limits that are tried for one task and placement; very late arrivals leave few digits for their latency.
_MAX_ATTEMPTS = 100


class _Tasks(NamedTuple):
    """Tasks of a block, in the order of their releases, and the devices that they may use.

    Releases count from the first of them.

    A placement is a pair of columns: a CPU and an accelerator of its node, or twice the same column for a task that
    runs on one device.
    """

    release: Floats
    seconds: Floats
    allowed: NDArray[np.bool_]
    placements: Ints
    devices: Floats


_TASKS_TYPE = types.NamedTuple(
    (
        types.float64[::1],
        types.float64[:, ::1],
        types.boolean[:, ::1],
        types.int64[:, ::1],
        types.float64[::1],
    ),
    _Tasks,
)


def mean_latency_bound(
    workload: Workload, platform: Platform, physics: Physics, noise: Noise | None = None
) -> float:
    """Return a lower bound on the mean latency that any scheduler can reach, in seconds.

    Parameters
    ----------
    workload, platform, physics, noise
        Tasks, devices, durations and the noise of the run, as for `makespan_bound`.

    Returns
    -------
    float
        Seconds; no schedule has a lower mean latency.

    Notes
    -----
    It holds for runs in which every task is executed, as with the memory policies ``"clip"`` and ``"to_cpu"``.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, WorkloadGenerator, compare, mean_latency_bound, workstation
    >>> workload = WorkloadGenerator(seed=1).generate_workload(50, utilisation=0.5)
    >>> bound = mean_latency_bound(workload, workstation(), AnalyticPhysics())
    >>> compare(workload, ["oracle"]).summaries["oracle"].latency.mean >= bound
    True
    """
    alone = isolated_optimum(workload, platform, physics, noise)
    release = earliest_starts(workload, alone)
    times = PhysicsTimes(physics, platform, noise)
    order = np.argsort(release, kind="stable")
    total = float((release - workload.arrival_time).sum())  # parents take at least so long
    for begin in range(0, len(workload), _BLOCK):
        rows = order[begin : begin + _BLOCK]
        part = workload.subset(np.sort(rows))
        seconds = times.table(part).sum(axis=2)[np.argsort(np.argsort(rows))]
        block = _block(workload, rows, release[rows], seconds, times.columns, platform)
        total += max(float(alone[rows].sum()), _bound(block))
    return total / len(workload)


def _block(
    workload: Workload, rows: Ints, release: Floats, seconds: Floats, columns: Ints, platform: Platform
) -> _Tasks:
    """Return a block without the tasks that take no time somewhere: they may have a latency of 0."""
    accelerators = platform.accelerators
    pairs = np.stack([columns[platform.cpu_of[accelerators]], columns[accelerators]], axis=1)
    single = np.stack([columns, columns], axis=1)
    fits = np.ones((len(rows), len(columns)), np.bool_)
    fits[:, accelerators] = workload.memory_required[rows, None] <= platform.memory_limit[accelerators]
    divisible = workload.divisible[rows, None]
    # A divisible task may use one device alone, too; its pair then costs no more than that.
    lone_cpus = platform.is_cpu & ~np.isin(np.arange(len(columns)), platform.cpu_of[accelerators])
    allowed = np.hstack([np.repeat(divisible, len(pairs), axis=1), np.where(divisible, lone_cpus, fits)])
    placements, which = np.unique(np.vstack([pairs, single]), axis=0, return_inverse=True)
    merged = np.zeros((len(rows), len(placements)), np.bool_)
    for position, placement in enumerate(np.ravel(which)):
        merged[:, placement] |= allowed[:, position]
    counts = np.bincount(columns, minlength=seconds.shape[1]).astype(np.float64)
    positive = seconds[:, np.unique(columns)].min(axis=1) > 0.0
    release = release[positive]
    return _Tasks(
        release - release[:1],
        np.ascontiguousarray(seconds[positive]),
        np.ascontiguousarray(merged[positive]),
        np.ascontiguousarray(placements.astype(np.int64)),
        counts,
    )


def _bound(block: _Tasks) -> float:
    """Return the best bound on the block's total latency that the ascent finds."""
    count = len(block.release)
    if not count:
        return 0.0
    worth = _column_prices(block)
    work = (block.seconds * np.where(block.devices > 0, worth, np.inf)).min(axis=1)
    least = compiled(_least_seconds, _LEAST_SECONDS)(block)
    span = float(block.release[-1]) + float(work.sum())
    width = max(_WIDTH * float(least.mean()), span / _MAX_STEPS)
    steps = int(span / width) + 2
    pooled = compiled(_pooled_prices, _POOLED)(block.release, work, least, width, steps)
    prices = np.ascontiguousarray(_BEGIN * worth[:, None] * pooled)
    dual = compiled(_dual, _DUAL)
    used = np.empty_like(prices)
    limits = np.zeros(count)
    trend = np.zeros_like(prices)
    best = -np.inf
    best_prices = prices
    evaluations = 0
    failures = 0
    rate = _RATE
    for _ in range(_ASCENT):
        value, seen = dual(block, prices, width, used, limits)
        evaluations += seen
        failures = 0 if value > best else failures + 1
        if value > best:
            best = value
            best_prices = prices
        if evaluations + seen > _MAX_EVALUATIONS or not prices.any():
            break
        trend += _NEWEST * (used / width - block.devices[:, None] - trend)
        if failures == _MAX_FAILURES:  # the steps are too long
            prices = best_prices
            rate = 0.5 * rate
            failures = 0
            trend[:] = 0.0
            continue
        prices = np.maximum(0.0, prices + rate * prices[prices > 0.0].mean() * trend)
    return float(best)


def _column_prices(block: _Tasks) -> Floats:
    """Return prices per column, in sum 1 over all devices, at which all columns get about the same load."""
    count = len(block.release)
    devices = block.devices
    used = devices > 0
    prices = np.where(used, 1.0 / devices.sum(), np.inf)
    for _ in range(50):
        chosen = (block.seconds * prices).argmin(axis=1)
        busy = np.bincount(chosen, block.seconds[np.arange(count), chosen], minlength=len(devices))
        load = busy[used] / devices[used]
        prices[used] *= (0.1 + load / load.sum() * used.sum()) ** 0.2
        prices[used] /= (prices[used] * devices[used]).sum()
    return np.where(used, prices, 0.0)


# ------------------------------------------------------------------------------------------ compiled

_LEAST_SECONDS = types.float64[::1](_TASKS_TYPE)


@entry
def _least_seconds(block):  # type: ignore[no-untyped-def]
    """Return the seconds of each task at its highest rate."""
    least = np.full(len(block.release), np.inf)
    for i in range(len(least)):
        for p in range(len(block.placements)):
            if block.allowed[i, p]:
                first, second = block.placements[p]
                rate = 1.0 / block.seconds[i, first]
                if first != second:
                    rate += 1.0 / block.seconds[i, second]
                least[i] = min(least[i], 1.0 / rate)
    return least


_POOLED = types.float64[::1](types.float64[::1], types.float64[::1], types.float64[::1], types.float64, types.int64)


@entry
def _pooled_prices(release, work, least, width, steps):  # type: ignore[no-untyped-def]
    """Return the price of the pooled machine's seconds in each step of time.

    The pooled machine does one unit of priced work per second and advances tasks with little work first, none
    faster than its highest rate. While it is full, the price falls by 1 / work of the task that gets what is left.
    Every turn of the loop ends at an arrival or finishes a task, even one whose rest the clock cannot resolve.
    """
    count = len(release)
    waiting = np.empty(count, np.int64)  # by work
    left = np.ones(count)
    rate = np.zeros(count)
    end = np.zeros(count)
    fall = np.zeros(steps)
    full = np.zeros(steps)
    now = 0.0
    arrived = 0
    length = 0
    while arrived < count or length > 0:
        while arrived < count and release[arrived] <= now:
            at = length
            while at > 0 and work[waiting[at - 1]] > work[arrived]:
                waiting[at] = waiting[at - 1]
                at -= 1
            waiting[at] = arrived
            length += 1
            arrived += 1
        later = release[arrived] if arrived < count else np.inf
        capacity = 1.0
        served = 0
        marginal = -1
        for at in range(length):
            i = waiting[at]
            rate[at] = min(1.0 / least[i], capacity / work[i])
            capacity -= rate[at] * work[i]
            end[at] = now + left[i] / rate[at]
            later = min(later, end[at])
            served = at + 1
            if capacity <= 1e-12:
                marginal = i
                break
        kept = 0
        for at in range(length):
            i = waiting[at]
            if at < served:
                left[i] = 0.0 if end[at] <= later else left[i] - rate[at] * (later - now)
            if left[i] > 1e-9:
                waiting[kept] = i
                kept += 1
        length = kept
        step = int(now / width)
        while marginal >= 0 and now < later and step < steps:
            until = min(later, (step + 1) * width)
            fall[step] += (until - now) / work[marginal]
            full[step] += until - now
            now = until
            step += 1
        now = later
    prices = np.zeros(steps)
    total = 0.0
    for step in range(steps - 1, -1, -1):
        if full[step] < 0.5 * width:
            total = 0.0
        else:
            prices[step] = total + 0.5 * fall[step]
            total += fall[step]
    return prices


@inner
def _cheap_progress(limit, release, seconds, prices, width):  # type: ignore[no-untyped-def]
    """Return the seconds on one column whose cost is at most `limit`, what they cost, and the steps looked at.

    The third number is how many steps end at the limit: by so much the seconds grow with it. Limit and cost count
    from the release, which keeps the digits of short tasks that come late.
    """
    first = max(0, int(release / width) - 1)
    amount = 0.0
    cost = 0.0
    growth = 0.0
    step = first
    while True:
        start = max(0.0, step * width - release)
        if start >= limit:
            break
        if step >= len(prices):  # the price is zero
            amount += limit - start
            cost += 0.5 * (limit - start) * (limit + start)
            growth += 1.0
            break
        last = (step + 1) * width - release
        end = min(limit - seconds * prices[step], last)
        if end > start:
            amount += end - start
            cost += (end - start) * (0.5 * (end + start) + seconds * prices[step])
            growth += end < last
        step += 1
    return amount, cost, growth, step - first + 1


@inner
def _progress(limit, release, first_seconds, second_seconds, first_prices, second_prices, width):  # type: ignore[no-untyped-def]
    """Return the progress that costs at most `limit` on one or two columns; see `_cheap_progress`."""
    amount, cost, growth, evaluations = _cheap_progress(limit, release, first_seconds, first_prices, width)
    amount = amount / first_seconds
    cost = cost / first_seconds
    growth = growth / first_seconds
    if second_seconds > 0.0:
        more, dear, faster, seen = _cheap_progress(limit, release, second_seconds, second_prices, width)
        amount = amount + more / second_seconds
        cost = cost + dear / second_seconds
        evaluations = evaluations + seen
        growth += faster / second_seconds
    return amount, cost, growth, evaluations


_DUAL = types.Tuple((types.float64, types.int64))(
    _TASKS_TYPE, types.float64[:, ::1], types.float64, types.float64[:, ::1], types.float64[::1]
)


@entry
def _dual(block, prices, width, used, limits):  # type: ignore[no-untyped-def]
    """Return the bound at these prices and the steps looked at; write the seconds that tasks buy into `used`.

    `limits` keeps the highest cost of each task's progress, from its release on: the next call begins there.
    """
    used[:] = 0.0
    total = 0.0
    evaluations = 0
    for i in range(len(block.release)):
        release = block.release[i]
        best = np.inf
        best_limit = 0.0
        best_placement = 0
        for p in range(len(block.placements)):
            if not block.allowed[i, p]:
                continue
            first, second = block.placements[p]
            seconds = block.seconds[i, first]
            other = 0.0
            rate = 1.0 / seconds
            if first != second:
                other = block.seconds[i, second]
                rate += 1.0 / other
            least = 1.0 / rate
            # The limit at which all progress is bought, by Newton's method within what is known of it. Any limit
            # gives a valid bound, and its error is of second order in that of the limit.
            low = least
            high = np.inf
            step = least
            limit = max(low, limits[i])  # prices change little from call to call
            here = prices[first]
            there = prices[second]
            for attempt in range(_MAX_ATTEMPTS):
                amount, cost, growth, seen = _progress(limit, release, seconds, other, here, there, width)
                evaluations += seen
                missing = 1.0 - amount
                if abs(missing) < _PRECISION or attempt == _MAX_ATTEMPTS - 1:
                    break
                if missing > 0.0:
                    low = limit
                else:
                    high = limit
                limit = limit + missing / growth if growth > 0.0 else np.inf
                if not low < limit < high:
                    limit = 0.5 * (low + high) if high < np.inf else low + step
                    step *= 2.0
            value = cost + missing * limit + 0.5 * least
            if value < best:
                best = value
                best_limit = limit
                best_placement = p
        total += best
        limits[i] = best_limit
        first, second = block.placements[best_placement]
        _buy(best_limit, release, block.seconds[i, first], prices[first], width, used[first])
        if first != second:
            _buy(best_limit, release, block.seconds[i, second], prices[second], width, used[second])
    for column in range(len(prices)):
        total -= block.devices[column] * prices[column].sum() * width
    return total, evaluations


@inner
def _buy(limit, release, seconds, prices, width, used):  # type: ignore[no-untyped-def]
    """Add the seconds in each step whose cost is at most `limit` to `used`."""
    step = max(0, int(release / width) - 1)
    while step < len(prices):
        start = max(0.0, step * width - release)
        if start >= limit:
            break
        used[step] += max(0.0, min(limit - seconds * prices[step], (step + 1) * width - release) - start)
        step += 1
