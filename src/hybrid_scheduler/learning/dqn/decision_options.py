"""Options of a placement decision, with their known costs and the features the agent sees.

The environment that trains the agent and the scheduler that uses it call the same code, so a network
sees in a run exactly what it saw in training. Everything is measured in typical task times, and backlogs are those
of one node, sorted: the same network therefore serves fast and slow machines, one GPU or four, one node or a
thousand.

The `split` options give the accelerator none, half, exactly, half-way beyond, or the largest part that fits, of the
balancing share. With the balancing share CPU and accelerator finish together; the accelerator is the one on which
the balanced task would finish first. The `placement` options put the whole task on that node's CPU or on one of its
first four accelerators. An option that does not fit into memory costs infinity, and so does a split of a task that
is indivisible.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ...cluster.arrival_loop import CLIP, place
from ...compiled import DEVICE, beats, compiled, earliest_free, entry, fitting_share, inner
from ...core import Floats, Objective, Platform, UnknownNameError

ACTIONS = 5
#: Length of the observation by kind of state.
FEATURES = {"queue": 21, "task": 3}
ACTION_SETS = ("split", "placement")
#: Options known to cost more than this many times the best one are not considered: large tasks must not be
#: sacrificed for the mean.
MAX_COST_RATIO = 1.4

# params: what is fixed for a run.
_TASK_STATE, _PLACEMENT, _LATENCY, _ENERGY, _COST, _FIRST_ACCELERATOR, _NODES, _WORST = range(8)
# task_means: running means over the tasks seen. The last nine are the payoff matrix: row = goal whose isolated
# optimum is taken (time, energy, cost), column = what it makes of (time, energy, cost).
_SEEN, _TYPICAL, _RATIO, _GAP, _LAST, _PAYOFF = range(6)
_NUM_MEANS = _PAYOFF + 9
_SLOWEST_BLEND = 0.005


@inner
def _cost_of(d, share, now, times, free_at, devices, latency_weight, price):  # type: ignore[no-untyped-def]
    """Return the weighted latency and busy seconds of one option, in seconds."""
    cpu = devices[d].cpu
    rest, part, end = 0.0, 0.0, 0.0
    if share < 1.0:
        column = devices[cpu].column
        rest = times[column, 1] + (1.0 - share) * times[column, 0]
        end = max(0.0, free_at[cpu] - now) + rest
    if share > 0.0:
        column = devices[d].column
        part = times[column, 1] + share * times[column, 0]
        end = max(end, max(0.0, free_at[d] - now) + part)
    return latency_weight * end + price[cpu] * rest + price[d] * part


@inner
def _balancing(d, now, memory, times, free_at, devices):  # type: ignore[no-untyped-def]
    """Return the share at which both sides finish together, the largest that fits, and the earliest finish."""
    cpu = devices[d].cpu
    whole, fixed = times[devices[d].column, 0], times[devices[d].column, 1]
    cpu_whole, cpu_fixed = times[devices[cpu].column, 0], times[devices[cpu].column, 1]
    wait, cpu_wait = max(0.0, free_at[d] - now), max(0.0, free_at[cpu] - now)
    most = fitting_share(memory, devices[d].memory)
    share = (cpu_wait + cpu_fixed + cpu_whole - wait - fixed) / max(cpu_whole + whole, 1e-300)
    share = min(max(share, 0.0), most)
    end = cpu_wait + cpu_fixed + cpu_whole
    if d == cpu:
        return 0.0, 0.0, end
    if share > 0.0:
        end = min(end, max(wait + fixed + share * whole, cpu_wait + cpu_fixed + (1.0 - share) * cpu_whole))
    if most == 1.0:
        end = min(end, wait + fixed + whole)
    return share, most, end


@inner
def _best_accelerator(now, memory, divisible, times, free_at, devices):  # type: ignore[no-untyped-def]
    """Return the accelerator on which the balanced task finishes first; a CPU only where its node has no other.

    An indivisible task is not balanced but runs whole.
    """
    best, best_end, best_free = 0, np.inf, np.inf
    first = 0
    while first < len(devices):
        d = earliest_free(free_at, first, devices[first].group_end)
        first = devices[first].group_end
        free = np.inf if devices[d].is_cpu == 1 else free_at[d]
        _, most, end = _balancing(d, now, memory, times, free_at, devices)
        if not divisible and devices[d].is_cpu == 0:
            whole = times[devices[d].column, 0] + times[devices[d].column, 1]
            end = max(0.0, free_at[d] - now) + whole if most == 1.0 else np.inf
        if beats(end, free, best_end, best_free):
            best, best_end, best_free = d, end, free
    return best


@inner
def _update_task_means(now, times, devices, rates, params, task_means):  # type: ignore[no-untyped-def]
    """Add one task to the running means: once per task, before its options are described."""
    accelerator = int(params[_FIRST_ACCELERATOR])
    host = devices[max(accelerator, 0)].cpu
    on_cpu = max(times[devices[host].column, 0] + times[devices[host].column, 1], 1e-12)
    on_accelerator = on_cpu
    if accelerator >= 0:
        column = devices[accelerator].column
        on_accelerator = max(times[column, 0] + times[column, 1], 1e-12)
    blend = max(1.0 / (task_means[_SEEN] + 1.0), _SLOWEST_BLEND)
    both = on_cpu * on_accelerator / (on_cpu + on_accelerator)
    task_means[_TYPICAL] += blend * (both - task_means[_TYPICAL])
    task_means[_RATIO] += blend * (math.log(on_cpu / on_accelerator) - task_means[_RATIO])
    if task_means[_SEEN] > 0.0:
        task_means[_GAP] += max(1.0 / task_means[_SEEN], _SLOWEST_BLEND) * (
            now - task_means[_LAST] - task_means[_GAP]
        )
    task_means[_LAST] = now
    task_means[_SEEN] += 1.0
    for goal in range(3):
        if goal == 0:
            cpu_busy, busy, time = both, both, both
        elif rates[goal - 1, max(accelerator, 0)] * on_accelerator < rates[goal - 1, host] * on_cpu:
            cpu_busy, busy, time = 0.0, on_accelerator, on_accelerator
        else:
            cpu_busy, busy, time = on_cpu, 0.0, on_cpu
        row = _PAYOFF + 3 * goal
        task_means[row] += blend * (time - task_means[row])
        for measure in range(2):
            charge = rates[measure, host] * cpu_busy + rates[measure, max(accelerator, 0)] * busy
            task_means[row + 1 + measure] += blend * (charge - task_means[row + 1 + measure])


@inner
def _payoff_range(task_means, measure):  # type: ignore[no-untyped-def]
    """Return how far the mean of a measure moves between its own optimum and the others'; 1 if it does not move."""
    own = task_means[_PAYOFF + 3 * measure + measure]
    spread = 0.0
    for goal in range(3):
        spread = max(spread, task_means[_PAYOFF + 3 * goal + measure] - own)
    return spread if spread > 0.0 else 1.0


@inner
def _device_prices(rates, params, task_means, price):  # type: ignore[no-untyped-def]
    """Write the objective's price of a busy second on each device, in seconds of latency."""
    price[:] = 0.0
    if params[_ENERGY] > 0.0 or params[_COST] > 0.0:
        unit = _payoff_range(task_means, 0)
        energy = params[_ENERGY] * unit / _payoff_range(task_means, 1)
        money = params[_COST] * unit / _payoff_range(task_means, 2)
        for d in range(len(price)):
            price[d] = energy * rates[0, d] + money * rates[1, d]


@inner
def _describe_options(  # type: ignore[no-untyped-def]
    now,
    size,
    intensity,
    memory,
    divisible,
    times,
    free_at,
    devices,
    rates,
    params,
    task_means,
    features,
    cost,
    masked_cost,
    device,
    fraction,
):
    """Fill in the five options with their costs, and the features.

    `cost` is the predicted cost of an option in typical task times: infinity if it does not fit. `masked_cost` is
    the part of it that the agent's value starts from: infinity also for options far worse than the best.
    """
    typical = max(task_means[_TYPICAL], 1e-12)
    best = _best_accelerator(now, memory, divisible, times, free_at, devices)
    share, most, _ = _balancing(best, now, memory, times, free_at, devices)
    cpu = devices[best].cpu
    begin, end = best, best + 1
    while begin > 0 and devices[begin - 1].node == devices[best].node:
        begin -= 1
    while end < len(devices) and devices[end].node == devices[best].node:
        end += 1

    for a in range(ACTIONS):
        device[a], fraction[a], cost[a] = cpu, 0.0, 0.0 if a == 0 else np.inf
    if params[_PLACEMENT] == 1.0:
        a = 1
        for d in range(begin, end):
            if devices[d].is_cpu == 0 and a < ACTIONS:
                device[a], fraction[a] = d, 1.0
                cost[a] = 0.0 if memory <= devices[d].memory else np.inf
                a += 1
    elif devices[best].is_cpu == 0:
        for a in range(1, ACTIONS):
            device[a], cost[a] = best, 0.0
        fraction[1], fraction[2], fraction[3], fraction[4] = 0.5 * share, share, 0.5 * (share + most), most
        if not divisible:
            for a in range(1, ACTIONS):
                cost[a] = 0.0 if fraction[a] == 1.0 else np.inf

    price = np.empty(len(devices))
    _device_prices(rates, params, task_means, price)
    least = np.inf
    for a in range(ACTIONS):
        if cost[a] == 0.0:
            seconds = _cost_of(device[a], fraction[a], now, times, free_at, devices, params[_LATENCY], price)
            cost[a] = seconds / typical
            least = min(least, cost[a])
    for a in range(ACTIONS):
        if params[_TASK_STATE] == 1.0:
            masked_cost[a] = 0.0 if cost[a] < np.inf else np.inf
        else:
            masked_cost[a] = cost[a] if cost[a] <= params[_WORST] * least else np.inf

    if params[_TASK_STATE] == 1.0:
        features[0], features[1], features[2] = math.log(size / 1000.0), intensity, math.log1p(memory / 100.0)
        return
    on_cpu = max(times[devices[cpu].column, 0] + times[devices[cpu].column, 1], 1e-12)
    on_best = max(times[devices[best].column, 0] + times[devices[best].column, 1], 1e-12)
    ratio = math.log(on_cpu / on_best)
    features[0] = 0.5 * math.log(on_cpu / typical)
    features[1] = 0.5 * math.log(on_best / typical)
    features[2] = ratio - task_means[_RATIO]
    features[3] = task_means[_RATIO]
    features[4] = share
    features[5] = most
    cpu_wait = max(0.0, free_at[cpu] - now) / typical
    count = end - begin - 1
    waits = np.zeros(max(count, 1))
    i = 0
    for d in range(begin, end):
        if devices[d].is_cpu == 0:
            waits[i] = max(0.0, free_at[d] - now) / typical
            i += 1
    waits.sort()
    features[6] = math.log1p(cpu_wait)
    for i in range(4):  # smallest, two between, largest: with four accelerators exactly the four
        features[7 + i] = math.log1p(waits[(i * (len(waits) - 1) + 1) // 3])
    mean = waits.mean()
    features[11] = math.log1p((cpu_wait + count * mean) / (count + 1))
    tilt = cpu_wait - mean
    features[12] = math.log1p(tilt) if tilt > 0.0 else -math.log1p(-tilt)
    features[13] = math.log(count + 1.0) - 1.6
    gap = max(task_means[_GAP] * params[_NODES], 1e-12)
    features[14] = min(max(0.5 * math.log(typical / gap), -2.0), 2.0) if task_means[_SEEN] > 1.0 else 0.0
    features[15] = math.log1p(least)
    for a in range(ACTIONS):
        over = cost[a] / max(least, 1e-12)
        features[16 + a] = min(math.log(over), 2.0) if over < np.inf else 2.0


_vector = types.float64[::1]
_readonly = types.Array(types.float64, 1, "C", readonly=True)
_row = types.float64[:, ::1]
_cube = types.float64[:, :, ::1]
_devices = from_dtype(DEVICE)[::1]
_actions = types.int64[::1]

_describe_signature = types.void(
    *(types.float64,) * 4, types.boolean, _row, _readonly, _devices, _row, _vector, _vector,
    types.float32[::1], _vector, _vector, _actions, _vector,
)  # fmt: skip


@inner
def _observe_task(  # type: ignore[no-untyped-def]
    now, size, intensity, memory, divisible, times, free_at, devices, rates, params, task_means,
    features, cost, masked_cost, device, fraction,
):  # fmt: skip
    """Add an arriving task to the running means and describe its options."""
    _update_task_means(now, times, devices, rates, params, task_means)
    _describe_options(now, size, intensity, memory, divisible, times, free_at, devices, rates, params, task_means,
           features, cost, masked_cost, device, fraction)  # fmt: skip


@inner
def _counterfactuals(  # type: ignore[no-untyped-def]
    device, fraction, masked_cost, memory, now, times, free_at, devices,
    next_now, next_size, next_intensity, next_memory, next_divisible, next_times, rates, params, next_task_means,
    realised_cost, next_features, next_masked_cost,
):  # fmt: skip
    """Compute the cost of every option in seconds, and the state that the next task would have seen after it.

    `times` are the task's realised seconds, `next_*` the next task as it arrived. Options that are not considered
    (masked_cost = infinity) are skipped.
    """
    queues, busy, price = np.empty(len(devices)), np.zeros(len(devices)), np.empty(len(devices))
    _device_prices(rates, params, next_task_means, price)
    cost, next_device, next_fraction = np.empty(ACTIONS), np.empty(ACTIONS, np.int64), np.empty(ACTIONS)
    for a in range(ACTIONS):
        if masked_cost[a] == np.inf:
            realised_cost[a] = 0.0
            next_features[a, :] = 0.0
            next_masked_cost[a, :] = 0.0
            continue
        realised_cost[a] = _cost_of(device[a], fraction[a], now, times, free_at, devices, params[_LATENCY], price)
        queues[:] = free_at
        place(device[a], fraction[a], 0, memory, now, times, devices, queues, busy, 0.0, 0, CLIP)
        _describe_options(next_now, next_size, next_intensity, next_memory, next_divisible, next_times, queues,
               devices, rates, params, next_task_means, next_features[a], cost, next_masked_cost[a],
               next_device, next_fraction)  # fmt: skip


_counterfactuals_signature = types.void(
    _actions, _vector, _vector, types.float64, types.float64, _row, _vector, _devices,
    *(types.float64,) * 4, types.boolean, _row, _row, _vector, _vector, _vector, types.float32[:, ::1], _row,
)  # fmt: skip


@entry
def device_prices(rates, params, task_means, price):  # type: ignore[no-untyped-def]
    """Call `_device_prices` from Python."""
    _device_prices(rates, params, task_means, price)


@entry
def describe_one(  # type: ignore[no-untyped-def]
    now, size, intensity, memory, divisible, times, free_at, devices, rates, params, task_means,
    features, cost, masked_cost, device, fraction,
):  # fmt: skip
    """Call `_observe_task` from Python; with a copy: code for arrays that are read only would be compiled apart."""
    _observe_task(now, size, intensity, memory, divisible, times, free_at.copy(), devices, rates, params,
         task_means, features, cost, masked_cost, device, fraction)  # fmt: skip


@entry
def counterfactuals_one(  # type: ignore[no-untyped-def]
    device, fraction, masked_cost, memory, now, times, free_at, devices,
    next_now, next_size, next_intensity, next_memory, next_divisible, next_times, rates, params, next_task_means,
    realised_cost, next_features, next_masked_cost,
):  # fmt: skip
    """Call `_counterfactuals` from Python."""
    _counterfactuals(device, fraction, masked_cost, memory, now, times, free_at, devices,
            next_now, next_size, next_intensity, next_memory, next_divisible, next_times, rates, params,
            next_task_means, realised_cost, next_features, next_masked_cost)  # fmt: skip


_tasks = (_row, _row, _row, _row, types.float64[:, :, :, ::1])  # arrival, size, intensity, memory, times
_options = (
    types.float32[:, ::1],
    _row,
    _row,
    types.int64[:, ::1],
    _row,
)  # features, cost, masked_cost, device, fraction
_describe_all_signature = types.void(
    types.boolean[::1], _actions, *_tasks, _row, _devices, _row, _vector, _row, *_options
)
_step_signature = types.void(_actions, _actions, *_tasks, _row, _devices, _row, _vector, _row, *_options)
_counterfactuals_all_signature = types.void(
    _actions, *_tasks, _row, _devices, _row, _vector, _row, *_options, types.float32[:, :, ::1], _cube
)


@entry
def describe_all(  # type: ignore[no-untyped-def]
    which, position, arrival, size, intensity, memory, times, free_at, devices, rates, params, task_means,
    features, cost, masked_cost, device, fraction,
):  # fmt: skip
    """Describe the options of the current task in every marked cluster."""
    for e in range(len(position)):
        if which[e]:
            i = position[e]
            _observe_task(arrival[e, i], size[e, i], intensity[e, i], memory[e, i], True, times[e, i], free_at[e],
                 devices, rates, params, task_means[e], features[e], cost[e], masked_cost[e],
                 device[e], fraction[e])  # fmt: skip


@entry
def step_all(  # type: ignore[no-untyped-def]
    actions, position, arrival, size, intensity, memory, times, free_at, devices, rates, params, task_means,
    features, cost, masked_cost, device, fraction,
):  # fmt: skip
    """Place every cluster's task as its action says and describe the next one; a negative action waits."""
    busy = np.zeros(len(devices))
    for e in range(len(position)):
        i, a = position[e], actions[e]
        if a < 0:
            continue
        place(device[e, a], fraction[e, a], 0, memory[e, i], arrival[e, i], times[e, i], devices, free_at[e], busy,
              0.0, 0, CLIP)  # fmt: skip
        i += 1
        position[e] = i
        _observe_task(arrival[e, i], size[e, i], intensity[e, i], memory[e, i], True, times[e, i], free_at[e],
             devices, rates, params, task_means[e], features[e], cost[e], masked_cost[e], device[e],
             fraction[e])  # fmt: skip


@entry
def counterfactuals_all(  # type: ignore[no-untyped-def]
    position, arrival, size, intensity, memory, times, free_at, devices, rates, params, task_means,
    features, cost, masked_cost, device, fraction, next_features, next_masked_cost,
):  # fmt: skip
    """Compute, before a step, the state that every cluster would see after each of its options."""
    next_task_means, realised_cost = np.empty(task_means.shape[1]), np.empty(ACTIONS)
    for e in range(len(position)):
        i = position[e]
        next_task_means[:] = task_means[e]
        _update_task_means(arrival[e, i + 1], times[e, i + 1], devices, rates, params, next_task_means)
        _counterfactuals(device[e], fraction[e], masked_cost[e], memory[e, i], arrival[e, i], times[e, i],
                free_at[e], devices,
                arrival[e, i + 1], size[e, i + 1], intensity[e, i + 1], memory[e, i + 1], True, times[e, i + 1],
                rates, params, next_task_means, realised_cost, next_features[e], next_masked_cost[e])  # fmt: skip


def compiled_entry(function: Any) -> Any:
    """Return one of the entries above, compiled."""
    return compiled(function, _SIGNATURES[function])


_SIGNATURES = {
    describe_one: _describe_signature,
    device_prices: types.void(_row, _vector, _vector, _vector),
    counterfactuals_one: _counterfactuals_signature,
    describe_all: _describe_all_signature,
    step_all: _step_signature,
    counterfactuals_all: _counterfactuals_all_signature,
}


def option_params(
    platform: Platform,
    state: str = "queue",
    actions: str = "split",
    objective: Objective | None = None,
    max_cost_ratio: float = MAX_COST_RATIO,
) -> Floats:
    """Return the parameters that stay fixed in a run.

    Parameters
    ----------
    platform
        The machine whose devices are described.
    state
        Kind of observation, a key of `FEATURES`.
    actions
        Kind of options, one of `ACTION_SETS`.
    objective
        Weights of latency, energy and cost. They are divided by that of latency, so that costs are seconds of
        latency under every objective; without latency they sum to 1. Default: latency alone.
    max_cost_ratio
        Options that cost more than this many times the best one are not considered.

    Raises
    ------
    UnknownNameError
        If `state` or `actions` is not one of the known kinds.
    """
    if state not in FEATURES:
        raise UnknownNameError("state", state, FEATURES)
    if actions not in ACTION_SETS:
        raise UnknownNameError("actions", actions, ACTION_SETS)
    goal = objective or Objective()
    total = goal.latency or goal.energy + goal.cost
    first = int(platform.accelerators[0]) if len(platform.accelerators) else -1
    nodes = float(platform.is_cpu.sum())
    weights = (goal.latency / total, goal.energy / total, goal.cost / total)
    kinds = (state == "task", actions == "placement")
    return np.array([*kinds, *weights, first, nodes, max_cost_ratio], dtype=np.float64)


def new_task_means(*clusters: int) -> NDArray[np.float64]:
    """Return empty running means, for one cluster or for several."""
    return np.zeros((*clusters, _NUM_MEANS))


def restart_clock(task_means: Floats, now: float) -> bool:
    """Count gaps from `now` on if the last task lies after it, as in stored means; return whether it does."""
    later = bool(task_means[_LAST] > now)
    if later:
        task_means[_LAST] = now
    return later


def typical_time(task_means: Floats) -> float:
    """Return the unit of all costs: mean seconds of an isolated task at its best split."""
    return max(float(task_means[_TYPICAL]), 1e-12)
