"""Prices on device time that rise with the backlog, and the placement that minimises latency plus prices.

A placement costs ``finish - now + p_c * CPU seconds + p_a * accelerator seconds + split_fee * [split]``. On a busy
platform each device second delays other tasks. The prices therefore rise with the backlog, and wasteful splits
stop. An accelerator second costs r* CPU seconds, where the critical ratio r* is the ratio of CPU to accelerator
time at which the fluid optimum changes sides, estimated over the last 1000 tasks. Backlogs are measured in typical
task times, so the rule does not depend on the unit of time.

`coefficients` holds seven numbers: base price, its slope with the mean backlog, its slope with the imbalance
between CPU and accelerators, the accelerators' factors on both, the fee of a split in typical task times and its
slope with the backlog.
"""

from __future__ import annotations

import numpy as np

from ..core import Floats
from .jit_cache import helper, inner
from .split_placement import best_placement

#: Tuned by evolution on seeds that no reported figure uses: `python -m studies.tune_prices`.
PRICE_COEFFICIENTS = (0.2321, 1.298, 0.1262, 0.9975, 0.6998, 0.01075, 0.09935)

#: Layout of the parameters of a rule with prices: numbers of CPUs and of accelerators, the coefficients, the weight
#: of latency, and the objective's price of a busy second per column.
CPUS, ACCELERATORS, FIRST_COEFFICIENT = 0, 1, 2
LATENCY_WEIGHT = FIRST_COEFFICIENT + len(PRICE_COEFFICIENTS)
FIRST_PRICE = LATENCY_WEIGHT + 1
#: Index of the fee of a split, in typical times, among the coefficients.
SPLIT_FEE = 5

_WINDOW = 1000
#: Length of the scratch array that `update_window` needs.
WINDOW_SCRATCH = 2 * _WINDOW
_REFRESH = 64
# state: [tasks seen, r*, typical task time, window of CPU times, of accelerator times, relative speed by column...]
_RING = 3


@inner
def find_critical_ratio(cpu, accelerator, cpus, accelerators, scratch):  # type: ignore[no-untyped-def]
    """Return the ratio of CPU to accelerator time at which the fluid optimum changes sides.

    Tasks go to the accelerators from the largest ratio on, until these are as long busy as the CPUs with the rest.
    A search by partitions finds the last one in linear time, without sorting all. `scratch` has space for two
    numbers of each task.
    """
    count = len(cpu)
    ratio, seconds = scratch[:count], scratch[count : 2 * count]
    remaining = 0.0
    for i in range(count):
        ratio[i] = cpu[i] / accelerator[i]
        seconds[i] = cpu[i] / cpus + accelerator[i] / accelerators
        remaining += cpu[i]
    remaining /= cpus
    low, high = 0, count
    while high - low > 1:
        first, middle, last = ratio[low], ratio[(low + high) // 2], ratio[high - 1]
        guess = max(min(first, middle), min(max(first, middle), last))
        # Order rows low..high by larger, equal and smaller ratio than the guess.
        larger, at, smaller = low, low, high
        in_larger, in_equal = 0.0, 0.0
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
def add_to_window(times, devices, cpus, accelerators, state):  # type: ignore[no-untyped-def]
    """Add this task to the window; return whether `update_window` is due: every 64 tasks."""
    cpu_sum, rate = 0.0, 0.0
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
    relative_speed = state[_RING + 2 * _WINDOW :]
    for d in range(len(devices)):
        if devices[d].is_cpu == 0 and devices[d].group == d:
            column = devices[d].column
            seconds = max(times[column, 0] + times[column, 1], 1e-12)
            relative_speed[column] += blend * (accelerator / seconds - relative_speed[column])
    state[0] += 1.0
    return seen < _REFRESH or seen % _REFRESH == 0


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
    return state[_RING + 2 * _WINDOW :], state[1], state[2]


@helper
def set_window_prices(state, relative_speed, critical_ratio, typical_time):  # type: ignore[no-untyped-def]
    """Replace what `window_prices` returns, for callers with a window of their own."""
    state[1], state[2] = critical_ratio, typical_time
    for column in range(len(relative_speed)):
        state[_RING + 2 * _WINDOW + column] = relative_speed[column]


@helper
def set_prices(  # type: ignore[no-untyped-def]
    prices, now, free_at, devices, cpus, accelerators, coefficients, weight, objective, relative_speed,
    critical_ratio, typical_time, waiting,
):  # fmt: skip
    """Write the price of a second for each column of `prices` and return the fee of a split.

    `objective` is the cost of a second without a backlog, `relative_speed` the speed of each column relative to the
    average accelerator, `critical_ratio` is r* and `typical_time` the typical task time. `waiting` adds to the mean
    backlog: work that no device has been given yet.
    """
    cpu_backlog, accelerator_backlog = 0.0, 0.0
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
def priced_placement(  # type: ignore[no-untyped-def]
    now, memory, times, free_at, earliest_start, devices, cpus, accelerators, coefficients, weight, objective, state
):
    """Return the best (device, share) at current prices. Each call updates `state` (see `price_state`).

    Prices follow the queues in `free_at`. The task can start at `earliest_start`, later if its data must move.
    """
    if accelerators == 0.0:
        return best_placement(now, memory, times, earliest_start, devices, 0, len(devices), weight, objective, 0.0)
    if add_to_window(times, devices, cpus, accelerators, state):
        update_window(cpus, accelerators, state, np.empty(WINDOW_SCRATCH))
    prices = objective.copy()
    relative_speed, critical_ratio, typical_time = window_prices(state)
    split_fee = set_prices(
        prices, now, free_at, devices, cpus, accelerators, coefficients, weight, objective, relative_speed,
        critical_ratio, typical_time, 0.0,
    )  # fmt: skip
    return best_placement(now, memory, times, earliest_start, devices, 0, len(devices), weight, prices, split_fee)


def price_state(columns: int) -> Floats:
    """Return an initial state for `priced_placement`, for time tables with this number of columns."""
    return np.zeros(_RING + 2 * _WINDOW + columns)
