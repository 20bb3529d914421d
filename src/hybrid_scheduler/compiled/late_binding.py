"""Order of a central queue and the placement of its tasks, for schedulers that bind tasks when they start.

Priced work is the least ``price * seconds`` over a task's placements, with prices that add up to 1 over all
devices. All devices together do at most one unit of it per second, so the priced work that waits is the time that
the machine needs for it.

Tasks start in the order of ``release - boost``. The boost is ``-g * s * log(1 - exp(-work / s))``: large for small
tasks and near zero for tasks larger than the scale `s`. This is the boost of Yu and Scully (2024) with priced work
as the size; a larger factor `g` lowers the mean latency and raises the tail. The scale has a part that is constant
in the long run and one that grows with the queue, up to half of the time since the first release.

On request a few tasks are deferred. Where they are fewer than one in a hundred, they decide neither the median nor
the 99th percentile, and all others gain; the 99.9th percentile rises. Each release adds the allowed share to a
budget, and each deferral takes 1 from it. A task that comes first in the queue is deferred if the product of its
work, the work behind it and the budget is large. So the budget is spent on the tasks that delay others most, and
the number of late tasks stays small, as by the rule of Moore and Hodgson (1968), which leaves out the largest task.
A deferred task waits like one that is released later, by a multiple of the mean queue and by at most the time t
since the first release. It is deferred once.

No task starves, at any load. With b as the largest boost without a queue, one released t seconds after the first is
overtaken only by tasks released before 2 (t + b); a deferred one, by tasks released before 2 (2 t + b).

The queue is planned again at every release and whenever a device becomes free: task by task, on copies of the
devices' queues, each at prices that rise with the work planned before it and waiting behind it. Large tasks pay a
little less, because their own duration makes the tail. A task starts if the longer of its parts can start now. Else
it keeps its planned place in the copies, so that those behind it do not take the device that it waits for.

With several classes of accelerators each class has its own price. It follows the fluid optimum, in which all
devices are equally loaded and every task runs where its priced seconds are least. Tasks go to a class in proportion
to its priced seconds to the power of -32, and the price of a class changes until its load is that of the others.
These are Sinkhorn's iterations, which converge where steps towards the exact optimum would oscillate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from ..core import Floats, InvalidInputError, Platform
from .device_prices import (
    WINDOW_SCRATCH,
    PriceRule,
    add_to_window,
    keep_newest,
    price_state,
    set_prices,
    set_window_prices,
    tasks_since_change,
    update_window,
    window_prices,
)
from .jit_cache import helper, inner
from .regime import (
    FIRST_LOG,
    MULTIPLIED,
    STARTED,
    STATE_LENGTH,
    note_task,
    renewal_is_due,
    set_features,
    set_multipliers,
)
from .row_heap import push_row, return_skipped, take_row, waiting_rows
from .split_placement import FORBIDDEN_SPLIT_FEE, best_placement

#: Coefficients of the prices (see `device_prices.py`). Then weight in the prices of the work that waits behind a
#: task, exponent of the relief for large tasks, factors of the mean work of a task and of the mean queue in the
#: scale of the boost. Then the least product of budget, work and work behind, in squared mean works, at which a
#: task is deferred, and by how many mean queues. Tuned with 0.92 % of the tasks deferred, on seeds that no reported
#: figure uses: `python -m studies.late_binding --tune`.
COEFFICIENTS = (0.45, 1.148, 0.14, 1.07, 0.442, 0.007, 0.042, 1.06, 0.1155, 7.1, 0.16, 414.0, 25.0)
#: Default factor of the boost, tuned with them, and share of the tasks that may be deferred.
BOOST = 0.48
DEFERRED = 0.0
#: Largest number of tasks that one planning pass may leave waiting: it bounds the time that a pass takes.
MAX_SKIPPED_PER_PASS = 1000

#: Smallest ratio of a task's work to the scale: it bounds the boost, and with it the wait of large tasks.
_MIN_WORK_RATIO = 1e-4
_MAX_BOOST = -math.log(-math.expm1(-_MIN_WORK_RATIO))
#: Largest number of deferrals that can be saved up.
_MAX_SAVED = 8.0
#: Number of tasks over which the queue's length and the work of a task are averaged.
_QUEUE_MEMORY = 200.0
#: Prices of several classes: number of tasks that they follow, exponent of the shares, rounds and tasks between two
#: updates, and the limit of a weight.
CLASS_WINDOW = 500
CLASS_EXPONENT = 32.0
_ROUNDS = 4
_REFRESH = 64
_MAX_WEIGHT = 1e200
#: Priced work of a task that came before any duration was known. It is never deferred.
UNKNOWN_WORK = -1.0
_COEFFICIENTS = 2
(
    _WAITING_WEIGHT,
    _RELIEF,
    _WORK_SCALE,
    _QUEUE_SCALE,
    _MIN_DELAY_CAUSED,
    _DELAY,
    _FACTOR,
    _SHARE,
    _WEIGHT,
    _PRICES,
) = range(9, 19)
#: Totals of the queue: see `QueueArrays`.
WORK, _MEAN_QUEUE, _MEAN_WORK, _TASKS, _FIRST, _BUDGET = range(6)


class QueueArrays(NamedTuple):
    """Arrays of a queue: numbers fixed for a run, state of the prices, totals of the queue, classes of devices.

    The totals are [work that waits, its mean at releases, mean work of a task, number of tasks, first release,
    deferrals that are left].
    `classes` is empty where one price is enough. Else it holds the number of tasks, the weight of each column and
    of all CPUs together, the seconds of the last tasks there, and these relative to the least to the power of -32.
    `scratch` is space for numbers that are needed for a moment: compiled loops create no arrays.
    `regime` and `policy` are empty where the coefficients are fixed; else see `regime.py`.
    """

    params: Floats
    prices: Floats
    totals: Floats
    classes: Floats
    scratch: Floats
    regime: Floats
    policy: Floats


_VECTOR = types.float64[::1]
QUEUE_ARRAYS = types.NamedUniTuple(_VECTOR, 7, QueueArrays)


def new_queue_arrays(
    platform: Platform,
    coefficients: Sequence[float],
    boost: float,
    deferred: float,
    objective: Floats,
    columns: int,
    policy: Floats | None = None,
) -> QueueArrays:
    """Return the arrays of an empty queue.

    `objective` is the weight of latency and a price for each column. With a `policy` the coefficients follow the
    regime.
    """
    counts = [platform.is_cpu.sum(), len(platform.accelerators)]
    params = np.concatenate([counts, coefficients, [boost, deferred], objective]).astype(np.float64)
    slots = columns + 1
    classes = np.zeros(1 + slots + 2 * CLASS_WINDOW * slots) if columns > 2 else np.zeros(0)
    scratch = np.zeros(max(WINDOW_SCRATCH, 3 * slots))
    regime = np.zeros(0 if policy is None else STATE_LENGTH)
    base = np.zeros(0) if policy is None else np.concatenate([coefficients[: MULTIPLIED - 1], [boost], policy])
    return QueueArrays(params, price_state(columns), np.zeros(6), classes, scratch, regime, base)


def check_order(boost: float, deferred: float) -> None:
    """Raise an error if these parameters of the order are invalid."""
    if not 0.0 <= boost < math.inf:
        raise InvalidInputError("boost", "a number of at least 0", boost)
    if not 0.0 <= deferred <= 1.0:
        raise InvalidInputError("deferred", "a share from 0 to 1", deferred)


@inner
def set_class_seconds(arrays, task, times, devices):  # type: ignore[no-untyped-def]
    """Write the seconds of a task, counted from the first one on, into the window of the classes."""
    slots = len(arrays.params) - _PRICES + 1
    window = arrays.classes[1 + slots :].reshape(2, CLASS_WINDOW, slots)
    seconds = window[0, task % CLASS_WINDOW]
    power = window[1, task % CLASS_WINDOW]
    for slot in range(slots):
        seconds[slot] = power[slot] = 0.0
    for d in range(len(devices)):
        column = devices[d].column
        whole = min(max(times[column, 0] + times[column, 1], 1e-12), 1e12)
        if devices[d].is_cpu == 1:
            seconds[slots - 1] += whole / arrays.params[0]
        else:
            seconds[column] = whole
    least = np.inf
    for slot in range(slots):
        if seconds[slot] > 0.0:
            least = min(least, seconds[slot])
    for slot in range(slots):
        if seconds[slot] > 0.0:
            power[slot] = (least / seconds[slot]) ** CLASS_EXPONENT


@inner
def balance_classes(weight, load, devices_of, seconds, power, tasks, rounds):  # type: ignore[no-untyped-def]
    """Move the weights of classes towards those at which all are equally loaded.

    The last slot is that of all CPUs, and its weight is 1; `load` is scratch. A price is a weight to the power of
    -1/32. `power` holds the tasks' seconds relative to the least, to the power of -32.
    """
    slots = len(weight)
    last = slots - 1
    for _ in range(rounds):
        for slot in range(slots):
            load[slot] = 0.0
        for i in range(tasks):
            total = 1e-300
            for slot in range(slots):
                total += weight[slot] * power[i, slot]
            for slot in range(slots):
                load[slot] += seconds[i, slot] * weight[slot] * power[i, slot] / total
        mean = load.sum() / devices_of.sum()
        for slot in range(slots):
            if devices_of[slot] > 0.0:
                weight[slot] /= max(load[slot] / devices_of[slot] / mean, 1e-3)
        for slot in range(slots):
            if slot < last:
                weight[slot] = min(max(weight[slot] / weight[last], 1.0 / _MAX_WEIGHT), _MAX_WEIGHT)
        weight[last] = 1.0


@inner
def forget_classes(arrays, kept):  # type: ignore[no-untyped-def]
    """Keep only so many newest tasks in the window of the classes, if it has more."""
    state = arrays.classes
    slots = len(arrays.params) - _PRICES + 1
    if kept < 0 or kept >= min(int(state[0]), CLASS_WINDOW):
        return
    seen = int(state[0]) * slots
    size = CLASS_WINDOW * slots
    for begin in (1 + slots, 1 + slots + size):
        keep_newest(state[begin : begin + size], seen, kept * slots)
    state[0] = kept


@inner
def update_class_prices(arrays, times, devices):  # type: ignore[no-untyped-def]
    """Add a task to the window of the classes, and replace the values of their seconds by the fluid optimum's.

    Without several classes of accelerators it does nothing.
    """
    if len(arrays.classes) == 0 or arrays.params[1] == 0.0:
        return
    state = arrays.classes
    last = len(arrays.params) - _PRICES
    if not window_prices(arrays.prices)[1] > 0.0:  # tasks that take no time on accelerators have no price there
        return
    slots = last + 1
    weight = state[1 : 1 + slots]
    window = state[1 + slots :].reshape(2, CLASS_WINDOW, slots)
    seconds = window[0]
    power = window[1]
    relative_speed, critical_ratio, typical_time = window_prices(arrays.prices)
    forget_classes(arrays, tasks_since_change(arrays.prices) - 1)
    seen = int(state[0])
    set_class_seconds(arrays, seen, times, devices)
    devices_of = arrays.scratch[:slots]
    load = arrays.scratch[slots : 2 * slots]
    prices = arrays.scratch[2 * slots :]
    for slot in range(slots):
        devices_of[slot] = 0.0
    for d in range(len(devices)):
        devices_of[last if devices[d].is_cpu == 1 else devices[d].column] += 1.0
    for slot in range(slots):
        if devices_of[slot] > 0.0 and seen == 0:
            weight[slot] = (
                1.0 if slot == last else max(critical_ratio * relative_speed[slot], 1e-6) ** -CLASS_EXPONENT
            )
    state[0] += 1.0
    if seen < _REFRESH or seen % _REFRESH == 0:
        filled = min(seen + 1, CLASS_WINDOW)
        balance_classes(weight, load, devices_of, seconds, power, filled, _ROUNDS)
    for slot in range(last):
        prices[slot] = (
            weight[slot] ** (-1.0 / CLASS_EXPONENT) / critical_ratio
            if devices_of[slot] > 0.0
            else relative_speed[slot]
        )
    set_window_prices(arrays.prices, prices[:last], critical_ratio, typical_time)


@helper
def admit(arrays, release, times, devices):  # type: ignore[no-untyped-def]
    """Add a task to the queue's totals; return the key by which it waits and its priced work."""
    cpus = arrays.params[0]
    accelerators = arrays.params[1]
    columns = len(arrays.params) - _PRICES
    if add_to_window(times, devices, columns, cpus, accelerators, arrays.prices):
        update_window(cpus, accelerators, arrays.prices, arrays.scratch)
    update_class_prices(arrays, times, devices)
    return enqueue(arrays, release, times, devices)


@helper
def enqueue(arrays, release, times, devices):  # type: ignore[no-untyped-def]
    """Add a task to the totals at the current prices; return the key by which it waits and its priced work."""
    params = arrays.params
    totals = arrays.totals
    relative_speed, critical_ratio, _ = window_prices(arrays.prices)
    total = 0.0
    work = np.inf
    for d in range(len(devices)):
        column = devices[d].column
        price = 1.0 if devices[d].is_cpu == 1 else critical_ratio * relative_speed[column]
        total += price
        cost = price * (times[column, 0] + times[column, 1])
        work = cost if cost < work else work  # not a number where no time meets a price without bound
    work = max(work / total, 1e-300) if work < np.inf and total < np.inf else 1e-300
    totals[WORK] += work
    if totals[_TASKS] == 0.0:
        totals[_FIRST] = release
    totals[_TASKS] += 1.0
    memory = min(totals[_TASKS], _QUEUE_MEMORY)
    totals[_MEAN_QUEUE] += (totals[WORK] - totals[_MEAN_QUEUE]) / memory
    totals[_MEAN_WORK] += (work - totals[_MEAN_WORK]) / memory
    totals[_BUDGET] = min(totals[_BUDGET] + params[_SHARE], _MAX_SAVED)
    if len(arrays.regime) > 0:
        follow_regime(arrays, release, work, times, devices)
    factor = params[_FACTOR]
    if factor == 0.0:
        return release, work
    elapsed = release - totals[_FIRST]
    scale = params[_WORK_SCALE] * totals[_MEAN_WORK]
    scale += min(params[_QUEUE_SCALE] * totals[_MEAN_QUEUE], 0.5 * elapsed / (factor * _MAX_BOOST))
    boost = -factor * scale * math.log(-math.expm1(-max(work / scale, _MIN_WORK_RATIO)))
    return release - boost, work


@inner
def follow_regime(arrays, release, work, times, devices):  # type: ignore[no-untyped-def]
    """Add a task to the regime, and let the coefficients follow it."""
    regime = arrays.regime
    params = arrays.params
    note_task(regime, release, work, times, devices)
    if not renewal_is_due(regime):
        return
    set_features(regime, arrays.totals[_MEAN_QUEUE], params[1])
    set_multipliers(regime, arrays.policy)
    set_coefficients(arrays)


@inner
def set_coefficients(arrays):  # type: ignore[no-untyped-def]
    """Multiply the coefficients of late binding by the multipliers of the regime."""
    for k in range(MULTIPLIED):
        number = _COEFFICIENTS + k if k < MULTIPLIED - 1 else _FACTOR
        arrays.params[number] = arrays.policy[k] * math.exp(arrays.regime[FIRST_LOG + k])


@helper
def note_start(arrays):  # type: ignore[no-untyped-def]
    """Count a task that starts, if the policy has changed the coefficients."""
    if len(arrays.regime) > 0:
        for k in range(MULTIPLIED):
            if arrays.regime[FIRST_LOG + k] != 0.0:
                arrays.regime[STARTED] += 1.0
                break


@helper
def deferred_key(arrays, release, key, work):  # type: ignore[no-untyped-def]
    """Return the key of the task that comes first in the queue: a later one if it is deferred.

    The key of a deferred task exceeds its release, that of no other task does.
    """
    params = arrays.params
    totals = arrays.totals
    delay_caused = totals[_BUDGET] * work * (totals[WORK] - work)
    if (
        key > release
        or totals[_BUDGET] < 1.0
        or not delay_caused >= params[_MIN_DELAY_CAUSED] * totals[_MEAN_WORK] ** 2
    ):
        return key
    delay = min(params[_DELAY] * totals[_MEAN_QUEUE], release - totals[_FIRST])
    if delay <= 0.0:
        return key
    totals[_BUDGET] -= 1.0
    return release + delay


@helper
def starts_now(now, device, share, times, planned, devices):  # type: ignore[no-untyped-def]
    """Return whether the longer part of a placement can start now."""
    cpu = devices[device].cpu
    rest = times[devices[cpu].column, 1] + (1.0 - share) * times[devices[cpu].column, 0]
    part = times[devices[device].column, 1] + share * times[devices[device].column, 0]
    cpu_now = share < 1.0 and planned[cpu] <= now
    device_now = share > 0.0 and planned[device] <= now
    if share == 0.0 or share == 1.0:
        return cpu_now or device_now
    return (cpu_now and (device_now or rest >= part)) or (device_now and part >= rest)


@helper
def plan_task(arrays, now, memory, divisible, times, work, planned, behind, devices):  # type: ignore[no-untyped-def]
    """Return (device, share, whether it starts now) of a waiting task.

    `planned` is when each device is free of the tasks before it; `work` is its priced work, `behind` that of those
    after it.
    """
    params = arrays.params
    weight = params[_WEIGHT]
    objective = params[_PRICES:]
    prices = arrays.scratch[: len(objective)]
    split_fee = 0.0
    for column in range(len(prices)):
        prices[column] = objective[column]
    if params[1] > 0.0:
        rule = PriceRule(params[0], params[1], params[_COEFFICIENTS:_WAITING_WEIGHT], weight, objective)
        waiting = params[_WAITING_WEIGHT] * max(behind, 0.0)
        split_fee = set_prices(prices, now, planned, devices, rule, window_prices(arrays.prices), waiting)
        relief = (1.0 + work / arrays.totals[_MEAN_WORK]) ** -params[_RELIEF]
        for column in range(len(prices)):
            prices[column] = objective[column] + relief * (prices[column] - objective[column])
    if not divisible:
        split_fee = FORBIDDEN_SPLIT_FEE
    device, share = best_placement(now, memory, times, planned, devices, 0, len(devices), weight, prices, split_fee)
    if devices[device].is_cpu == 1:
        share = 0.0
    return device, share, starts_now(now, device, share, times, planned, devices)


@helper
def reserve(now, device, share, times, planned, devices):  # type: ignore[no-untyped-def]
    """Add a task that does not start yet to the planned queues.

    Where one device of a split task is idle, that is the shorter part's: it can run at any time before the longer
    one ends, and must not keep the device idle until then.
    """
    cpu = devices[device].cpu
    split = 0.0 < share < 1.0
    cpu_idle = split and planned[cpu] <= now
    device_idle = split and planned[device] <= now
    if share < 1.0 and not cpu_idle:
        column = devices[cpu].column
        planned[cpu] = max(now, planned[cpu]) + times[column, 1] + (1.0 - share) * times[column, 0]
    if share > 0.0 and not device_idle:
        column = devices[device].column
        planned[device] = max(now, planned[device]) + times[column, 1] + share * times[column, 0]


@helper
def next_waiting(arrays, now, queue, arrival, work, planned):  # type: ignore[no-untyped-def]
    """Take the next row to plan from the queue and return its key and row; row -1 if the planning pass ends.

    It ends when every device is planned, or when as many tasks as one pass may leave were skipped.
    """
    idle = False
    for d in range(len(planned)):
        idle |= planned[d] <= now
    while idle and waiting_rows(queue) > 0 and queue.skipped.length[0] < MAX_SKIPPED_PER_PASS:
        key, row = take_row(queue)
        later = deferred_key(arrays, arrival[row], key, work[row])
        if not later > key:
            return key, row
        push_row(queue.heap, later, row)
    return 0.0, -1


@helper
def end_pass(arrays, queue):  # type: ignore[no-untyped-def]
    """Put the skipped rows back into the queue; an empty queue has no work, whatever rounding has left."""
    return_skipped(queue)
    if waiting_rows(queue) == 0:
        arrays.totals[WORK] = 0.0
