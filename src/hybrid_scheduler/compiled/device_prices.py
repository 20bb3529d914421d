"""Prices on device time that rise with the backlog, and the placement that minimises latency plus prices.

A placement costs ``finish - now + p_c * CPU seconds + p_a * accelerator seconds + split_fee * [split]``. On a busy
platform each device second delays other tasks. The prices therefore rise with the backlog, and wasteful splits
stop. An accelerator second costs r* CPU seconds, where the critical ratio r* is the ratio of CPU to accelerator
time at which the fluid optimum changes sides, estimated over the last 1000 tasks. Backlogs are measured in typical
task times, so the rule does not depend on the unit of time.

Where tasks or devices have changed, older tasks say nothing about what a second is worth now, and are forgotten. A
change is a split of the last tasks into older and newer ones, in blocks of 32, that differ by more than 5.5
standard errors in a mean: of the fourth root of the CPU time, of the share ``CPU time / (CPU time + accelerator
time)``, or of the relative speed of a class. Streams that do not change almost never have such a split, so that
their prices are those of all 1000 tasks.

`coefficients` holds seven numbers: base price, its slope with the mean backlog, its slope with the imbalance
between CPU and accelerators, the accelerators' factors on both, the fee of a split in typical task times and its
slope with the backlog.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..core import Floats
from .jit_cache import helper, inner
from .split_placement import best_placement

#: Tuned by evolution on seeds that no reported figure uses: `python -m studies.tune_prices`.
PRICE_COEFFICIENTS = (0.2321, 1.298, 0.1262, 0.9975, 0.6998, 0.01075, 0.09935)

#: Layout of the parameters of a rule with prices: numbers of CPUs and of accelerators, the coefficients, the weight
#: of latency, and the objective's price of a busy second per column.
CPUS = 0
ACCELERATORS = 1
_FIRST_COEFFICIENT = 2
LATENCY_WEIGHT = _FIRST_COEFFICIENT + len(PRICE_COEFFICIENTS)
FIRST_PRICE = LATENCY_WEIGHT + 1
#: Index of the fee of a split, in typical times, among the coefficients.
SPLIT_FEE = 5

_WINDOW = 1000
#: Length of the scratch array that `update_window` needs.
WINDOW_SCRATCH = 2 * _WINDOW
_REFRESH = 64
# state: [tasks since the last change, r*, typical task time, window of CPU times, of accelerator times, relative
# speed by column, number of full blocks; for each block and then for the open one the sums of values and squares:
# of relative speeds by column, of the fourth root of the CPU time, of the share]
_RING = 3
_TIMES = _RING + 2 * _WINDOW
#: Tasks in a block (a power of 2), and most full blocks.
BLOCK = 32
_BLOCKS = _WINDOW // BLOCK
#: Squared standard errors between older and newer tasks that are a change, and the least variance of a value.
_CHANGE = 5.5**2
_LEAST_VARIANCE = 1e-4


class PriceRule(NamedTuple):
    """Parameters of a rule with prices.

    Parameters
    ----------
    cpus, accelerators
        Numbers of CPUs and of accelerators.
    coefficients
        Seven numbers; see the module.
    weight
        Weight of latency.
    objective
        Price of a busy second per column without a backlog.
    """

    cpus: float
    accelerators: float
    coefficients: Any
    weight: float
    objective: Any


@helper
def price_rule(params):  # type: ignore[no-untyped-def]
    """Return the parameters of a rule with prices by name."""
    return PriceRule(
        params[CPUS], params[ACCELERATORS], params[_FIRST_COEFFICIENT:LATENCY_WEIGHT], params[LATENCY_WEIGHT],
        params[FIRST_PRICE:],
    )  # fmt: skip


@inner
def find_critical_ratio(cpu, accelerator, cpus, accelerators, scratch):  # type: ignore[no-untyped-def]
    """Return the ratio of CPU to accelerator time at which the fluid optimum changes sides.

    Tasks go to the accelerators from the largest ratio on, until these are as long busy as the CPUs with the rest.
    A search by partitions finds the last one in linear time, without sorting all. `scratch` has space for two
    numbers of each task.
    """
    count = len(cpu)
    ratio = scratch[:count]
    seconds = scratch[count : 2 * count]
    remaining = 0.0
    for i in range(count):
        ratio[i] = cpu[i] / accelerator[i]
        seconds[i] = cpu[i] / cpus + accelerator[i] / accelerators
    for i in range(count):
        remaining += cpu[i]
    remaining /= cpus
    low = 0
    high = count
    while high - low > 1:
        first = ratio[low]
        middle = ratio[(low + high) // 2]
        last = ratio[high - 1]
        guess = max(min(first, middle), min(max(first, middle), last))
        # Order rows low..high by larger, equal and smaller ratio than the guess.
        larger = low
        at = low
        smaller = high
        in_larger = 0.0
        in_equal = 0.0
        while at < smaller:
            if ratio[at] < guess:
                smaller -= 1
                ratio[at], ratio[smaller] = ratio[smaller], ratio[at]
                seconds[at], seconds[smaller] = seconds[smaller], seconds[at]
            elif ratio[at] > guess:
                in_larger += seconds[at]
                ratio[at], ratio[larger] = ratio[larger], ratio[at]
                seconds[at], seconds[larger] = seconds[larger], seconds[at]
                larger += 1
                at += 1
            else:
                in_equal += seconds[at]
                at += 1
        if in_larger >= remaining:
            high = larger
        elif in_larger + in_equal >= remaining or smaller == high:
            return guess
        else:
            remaining -= in_larger + in_equal
            low = smaller
    return ratio[low]


@helper
def add_to_window(times, devices, columns, cpus, accelerators, state):  # type: ignore[no-untyped-def]
    """Add this task to the window; return whether `update_window` is due: every 64 tasks, and after a change."""
    cpu_sum = 0.0
    rate = 0.0
    for d in range(len(devices)):
        column = devices[d].column
        seconds = times[column, 0] + times[column, 1]
        if devices[d].is_cpu == 1:
            cpu_sum += seconds
        else:
            rate += 1.0 / max(seconds, 1e-12)
    cpu = max(cpu_sum / cpus, 1e-12)
    accelerator = accelerators / rate if accelerators > 0.0 else cpu  # time on the average accelerator
    seen = int(state[0])
    state[_RING + seen % _WINDOW] = cpu
    state[_RING + _WINDOW + seen % _WINDOW] = accelerator
    blend = max(1.0 / (seen + 1), 0.005)
    relative_speed = state[_TIMES:]
    full = _TIMES + columns
    sums = state[full + 1 + int(state[full]) * 2 * (columns + 2) :]
    highest = -1
    for d in range(len(devices)):
        if devices[d].is_cpu == 0 and devices[d].group == d:
            column = devices[d].column
            seconds = max(times[column, 0] + times[column, 1], 1e-12)
            speed = accelerator / seconds
            relative_speed[column] += blend * (speed - relative_speed[column])
            if column > highest:  # once, where several nodes have the class
                highest = column
                sums[2 * column] += speed
                sums[2 * column + 1] += speed * speed
    state[0] += 1.0
    changed = seen % BLOCK == BLOCK - 1 and _end_block(state, columns)
    return changed or seen < _REFRESH or seen % _REFRESH == 0


@inner
def _end_block(state, columns):  # type: ignore[no-untyped-def]
    """Close the open block; return whether older tasks were forgotten, because they differ from the newest."""
    seen = int(state[0])
    blocks = int(state[_TIMES + columns])
    sums = state[_TIMES + columns + 1 :].reshape(_BLOCKS + 1, columns + 2, 2)
    for k in range(seen - BLOCK, seen):
        cpu = state[_RING + k % _WINDOW]
        accelerator = state[_RING + _WINDOW + k % _WINDOW]
        add_values(sums[blocks, columns:], cpu, accelerator)
    blocks += 1
    first = first_alike(sums[:blocks])
    if first > 0:
        kept = (blocks - first) * BLOCK
        keep_newest(state[_RING : _RING + _WINDOW], seen, kept)
        keep_newest(state[_RING + _WINDOW : _TIMES], seen, kept)
        state[0] = kept
    dropped = max(first, blocks - _BLOCKS)
    blocks -= dropped
    # By numbers: rows of an array would be copied through a new array, which loops without arrays cannot compile.
    for b in range(blocks if dropped > 0 else 0):
        for v in range(columns + 2):
            sums[b, v, 0] = sums[b + dropped, v, 0]
            sums[b, v, 1] = sums[b + dropped, v, 1]
    sums[blocks] = 0.0
    state[_TIMES + columns] = blocks
    return first > 0


@inner
def keep_newest(ring, seen, kept):  # type: ignore[no-untyped-def]
    """Move the newest `kept` of `seen` numbers in a ring to its front, in order and in place.

    A rotation is three reversals; compiled loops create no arrays.
    """
    filled = min(seen, len(ring))
    start = (seen - kept) % filled
    for begin, end in ((0, start), (start, filled), (0, filled)):
        for k in range((end - begin) // 2):
            ring[begin + k], ring[end - 1 - k] = ring[end - 1 - k], ring[begin + k]


@inner
def add_values(sums, cpu, accelerator):  # type: ignore[no-untyped-def]
    """Add the fourth root of a task's CPU time and the share to the two rows of sums of values and squares."""
    for row, value in ((0, math.sqrt(math.sqrt(cpu))), (1, cpu / (cpu + accelerator))):
        sums[row, 0] += value
        sums[row, 1] += value * value


@inner
def first_alike(sums):  # type: ignore[no-untyped-def]
    """Return the first block of tasks that are like the newest; 0 if there was no change.

    `sums` holds for each block, oldest first, and each value of a task the sums of values and of squares. The
    newest 1, 2, 4, ... blocks are compared with those before them.
    """
    blocks = len(sums)
    first = 0
    largest = _CHANGE
    tasks = float(blocks * BLOCK)
    for v in range(sums.shape[1]):
        total = 0.0
        squares = 0.0
        newer = 0.0
        split = 1
        for b in range(blocks):
            total += sums[b, v, 0]
            squares += sums[b, v, 1]
        for b in range(blocks - 1, 0, -1):
            newer += sums[b, v, 0]
            if blocks - b < split:
                continue
            split *= 2
            older = total - newer
            before = float(b * BLOCK)
            after = tasks - before
            within = squares - newer * newer / after - older * older / before
            difference = newer * before - older * after
            score = difference * difference / (before * after * max(within, _LEAST_VARIANCE * tasks))
            if score > largest:
                largest = score
                first = b
    return first


@inner
def update_window(cpus, accelerators, state, scratch):  # type: ignore[no-untyped-def]
    """Compute r* and the typical task time of the tasks in the window; `scratch` has `WINDOW_SCRATCH` numbers."""
    filled = min(int(state[0]), _WINDOW)
    c = state[_RING : _RING + filled]
    a = state[_RING + _WINDOW : _RING + _WINDOW + filled]
    state[1] = find_critical_ratio(c, a, cpus, accelerators, scratch)
    typical_time = 0.0
    for i in range(filled):
        typical_time += c[i] * a[i] / (c[i] + a[i])
    state[2] = typical_time / filled


@helper
def window_prices(state):  # type: ignore[no-untyped-def]
    """Return the relative speed of each column, r* and the typical task time, of the window's tasks."""
    return state[_TIMES:], state[1], state[2]


@helper
def tasks_since_change(state):  # type: ignore[no-untyped-def]
    """Return the number of tasks since the last change; 0 for a window that the caller keeps."""
    return int(state[0])


@helper
def set_window_prices(state, relative_speed, critical_ratio, typical_time):  # type: ignore[no-untyped-def]
    """Replace what `window_prices` returns, for callers with a window of their own."""
    state[1] = critical_ratio
    state[2] = typical_time
    for column in range(len(relative_speed)):
        state[_TIMES + column] = relative_speed[column]


@helper
def set_prices(prices, now, free_at, devices, rule, window, waiting):  # type: ignore[no-untyped-def]
    """Write the price of a second for each column of `prices` and return the fee of a split.

    `rule` is a `PriceRule`, and `window` what `window_prices` returns: the speed of each column relative to the
    average accelerator, r* and the typical task time. `waiting` adds to the mean backlog: work that no device has
    been given yet.
    """
    cpus, accelerators, coefficients, weight, objective = rule
    relative_speed, critical_ratio, typical_time = window
    cpu_backlog = 0.0
    accelerator_backlog = 0.0
    for d in range(len(devices)):
        wait = max(0.0, free_at[d] - now)
        if devices[d].is_cpu == 1:
            cpu_backlog += wait
        else:
            accelerator_backlog += wait
    backlog = (cpu_backlog + accelerator_backlog) / (cpus + accelerators) + waiting
    imbalance = cpu_backlog / cpus - accelerator_backlog / accelerators
    base_price = weight * (coefficients[0] + coefficients[1] * backlog / typical_time)
    imbalance_price = weight * coefficients[2] * imbalance / typical_time
    for d in range(len(devices)):
        if devices[d].group == d:
            column = devices[d].column
            if devices[d].is_cpu == 1:
                scaled = base_price + imbalance_price
            else:
                scaled = relative_speed[column] * (
                    coefficients[3] * critical_ratio * base_price - coefficients[4] * imbalance_price
                )
            prices[column] = objective[column] + max(0.0, scaled)
    return weight * (coefficients[5] * typical_time + coefficients[6] * backlog)


@helper
def priced_placement(now, memory, times, free_at, earliest_start, devices, rule, state):  # type: ignore[no-untyped-def]
    """Return the best (device, share) at current prices. Each call updates `state` (see `price_state`).

    Prices follow the queues in `free_at`. The task can start at `earliest_start`, later if its data must move.
    `rule` is a `PriceRule`.
    """
    weight = rule.weight
    objective = rule.objective
    if rule.accelerators == 0.0:
        return best_placement(now, memory, times, earliest_start, devices, 0, len(devices), weight, objective, 0.0)
    if add_to_window(times, devices, len(objective), rule.cpus, rule.accelerators, state):
        update_window(rule.cpus, rule.accelerators, state, np.empty(WINDOW_SCRATCH))
    prices = objective.copy()
    split_fee = set_prices(prices, now, free_at, devices, rule, window_prices(state), 0.0)
    return best_placement(now, memory, times, earliest_start, devices, 0, len(devices), weight, prices, split_fee)


def price_state(columns: int) -> Floats:
    """Return an initial state for `priced_placement`, for time tables with this number of columns."""
    return np.zeros(_TIMES + columns + 1 + 2 * (_BLOCKS + 1) * (columns + 2))
