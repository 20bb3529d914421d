"""Options of a placement decision, with their known costs and the features that an agent observes.

Everything is measured in typical task times, and backlogs are those of one node, sorted: the same network therefore
serves fast and slow machines, one GPU or four, one node or a thousand.

The options give the accelerator none, half, exactly, half-way beyond, or the largest part that fits, of the
balancing share. With the balancing share CPU and accelerator finish together; the accelerator is the one on which
the balanced task would finish first. An option that does not fit into memory costs infinity, and so does a split of
a task that is indivisible.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..cluster.arrival_loop import CLIP, ClusterArrays, place
from ..compiled import DEVICE_TABLE, beats, compiled, device_table, earliest_free, entry, fitting_share, inner
from ..core import Floats, Floats32, Ints, Objective, Platform
from ..physics import Tariff, dollars_per_second

ACTIONS = 5
#: Length of the observation.
FEATURES = 21

# task_means: running means over the tasks seen. The last nine are the payoff matrix: row = goal whose isolated
# optimum is taken (time, energy, cost), column = what it makes of (time, energy, cost).
_SEEN, _TYPICAL, _RATIO, _GAP, _LAST, _PAYOFF = range(6)
_NUM_MEANS = _PAYOFF + 9
_SLOWEST_BLEND = 0.005


class OptionSetting(NamedTuple):
    """What is fixed for a run: the devices, and the weights of latency, energy and cost."""

    devices: NDArray[Any]
    rates: Floats  # watts and dollars per second of each device
    latency: float
    energy: float
    cost: float
    first_accelerator: int  # -1 if there is none
    nodes: float


class _ArrivingTask(NamedTuple):
    """Task whose options are described; `times` are its (whole, fixed) seconds by class of device."""

    now: float
    memory: float
    divisible: bool
    times: Floats


class Options(NamedTuple):
    """Options of a task as an agent sees them; arrays of several clusters have these as first dimension.

    `cost` is the cost of an option in typical task times: infinity if it does not fit.
    """

    features: Floats32
    cost: Floats
    device: Ints
    fraction: Floats


class Episodes(NamedTuple):
    """Streams of tasks of several clusters, and where each of them stands."""

    arrival: Floats
    memory: Floats
    times: Floats
    position: Ints
    free_at: Floats
    task_means: Floats


def new_options(clusters: int) -> Options:
    """Return space for the options of one task in each of several clusters."""
    cost, fraction = np.zeros((2, clusters, ACTIONS))
    features = np.zeros((clusters, FEATURES), np.float32)
    return Options(features, cost, np.zeros((clusters, ACTIONS), np.int64), fraction)


def option_setting(platform: Platform, columns: Ints, objective: Objective | None = None) -> OptionSetting:
    """Return what stays fixed in a run.

    Parameters
    ----------
    platform
        The machine whose devices are described.
    columns
        Column of each device in tables of durations.
    objective
        Weights of latency, energy and cost. They are divided by that of latency, so that costs are seconds of
        latency under every objective; without latency they sum to 1. Default: latency alone.
    """
    goal = objective or Objective()
    total = goal.latency or goal.energy + goal.cost
    return OptionSetting(
        device_table(platform, columns),
        np.stack([platform.column("watts"), dollars_per_second(platform, Tariff())]),
        goal.latency / total, goal.energy / total, goal.cost / total,
        int(platform.accelerators[0]) if len(platform.accelerators) else -1,
        float(platform.is_cpu.sum()),
    )  # fmt: skip


@inner
def _cost_of(setting, d, share, task, free_at, price):  # type: ignore[no-untyped-def]
    """Return the weighted latency and busy seconds of one option, in seconds."""
    devices = setting.devices
    times = task.times
    now = task.now
    cpu = devices[d].cpu
    rest = 0.0
    part = 0.0
    end = 0.0
    if share < 1.0:
        column = devices[cpu].column
        rest = times[column, 1] + (1.0 - share) * times[column, 0]
        end = max(0.0, free_at[cpu] - now) + rest
    if share > 0.0:
        column = devices[d].column
        part = times[column, 1] + share * times[column, 0]
        end = max(end, max(0.0, free_at[d] - now) + part)
    return setting.latency * end + price[cpu] * rest + price[d] * part


@inner
def _balancing(d, task, free_at, devices):  # type: ignore[no-untyped-def]
    """Return the share at which both sides finish together, the largest that fits, and the earliest finish."""
    times = task.times
    cpu = devices[d].cpu
    whole = times[devices[d].column, 0]
    fixed = times[devices[d].column, 1]
    cpu_whole = times[devices[cpu].column, 0]
    cpu_fixed = times[devices[cpu].column, 1]
    wait = max(0.0, free_at[d] - task.now)
    cpu_wait = max(0.0, free_at[cpu] - task.now)
    most = fitting_share(task.memory, devices[d].memory)
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
def _best_accelerator(task, free_at, devices):  # type: ignore[no-untyped-def]
    """Return the accelerator on which the balanced task finishes first; a CPU only where its node has no other.

    An indivisible task is not balanced but runs whole.
    """
    best = 0
    best_end = np.inf
    best_free = np.inf
    first = 0
    while first < len(devices):
        d = earliest_free(free_at, first, devices[first].group_end)
        first = devices[first].group_end
        free = np.inf if devices[d].is_cpu == 1 else free_at[d]
        _, most, end = _balancing(d, task, free_at, devices)
        if not task.divisible and devices[d].is_cpu == 0:
            whole = task.times[devices[d].column, 0] + task.times[devices[d].column, 1]
            end = max(0.0, free_at[d] - task.now) + whole if most == 1.0 else np.inf
        if beats(end, free, best_end, best_free):
            best = d
            best_end = end
            best_free = free
    return best


@inner
def _update_task_means(setting, task, task_means):  # type: ignore[no-untyped-def]
    """Add one task to the running means: once per task, before its options are described."""
    devices = setting.devices
    rates = setting.rates
    times = task.times
    now = task.now
    accelerator = setting.first_accelerator
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
            cpu_busy = both
            busy = both
            time = both
        elif rates[goal - 1, max(accelerator, 0)] * on_accelerator < rates[goal - 1, host] * on_cpu:
            cpu_busy = 0.0
            busy = on_accelerator
            time = on_accelerator
        else:
            cpu_busy = on_cpu
            busy = 0.0
            time = on_cpu
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
def _device_prices(setting, task_means, price):  # type: ignore[no-untyped-def]
    """Write the objective's price of a busy second on each device, in seconds of latency."""
    price[:] = 0.0
    if setting.energy > 0.0 or setting.cost > 0.0:
        unit = _payoff_range(task_means, 0)
        energy = setting.energy * unit / _payoff_range(task_means, 1)
        money = setting.cost * unit / _payoff_range(task_means, 2)
        for d in range(len(price)):
            price[d] = energy * setting.rates[0, d] + money * setting.rates[1, d]


@inner
def _set_options(best, share, most, divisible, devices, out):  # type: ignore[no-untyped-def]
    """Write devices and shares of the options; their cost is 0 if they fit, else infinity."""
    device = out.device
    fraction = out.fraction
    cost = out.cost
    for a in range(ACTIONS):
        device[a] = devices[best].cpu
        fraction[a] = 0.0
        cost[a] = 0.0 if a == 0 else np.inf
    if devices[best].is_cpu == 0:
        for a in range(1, ACTIONS):
            device[a] = best
            cost[a] = 0.0
        fraction[1] = 0.5 * share
        fraction[2] = share
        fraction[3] = 0.5 * (share + most)
        fraction[4] = most
        if not divisible:
            for a in range(1, ACTIONS):
                cost[a] = 0.0 if fraction[a] == 1.0 else np.inf


@inner
def _set_costs(setting, task, free_at, task_means, out):  # type: ignore[no-untyped-def]
    """Write the costs of the options that fit, in typical task times, and return the least."""
    typical = max(task_means[_TYPICAL], 1e-12)
    cost = out.cost
    price = np.empty(len(setting.devices))
    _device_prices(setting, task_means, price)
    least = np.inf
    for a in range(ACTIONS):
        if cost[a] == 0.0:
            cost[a] = _cost_of(setting, out.device[a], out.fraction[a], task, free_at, price) / typical
            least = min(least, cost[a])
    return least


@inner
def _describe_queues(best, now, typical, free_at, devices, features):  # type: ignore[no-untyped-def]
    """Write the features of the queues of a device's node."""
    cpu = devices[best].cpu
    begin = best
    end = best + 1
    while begin > 0 and devices[begin - 1].node == devices[best].node:
        begin -= 1
    while end < len(devices) and devices[end].node == devices[best].node:
        end += 1
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


@inner
def _describe_options(setting, task, free_at, task_means, out):  # type: ignore[no-untyped-def]
    """Write the five options with their costs, and the features."""
    devices = setting.devices
    features = out.features
    typical = max(task_means[_TYPICAL], 1e-12)
    best = _best_accelerator(task, free_at, devices)
    share, most, _ = _balancing(best, task, free_at, devices)
    _set_options(best, share, most, task.divisible, devices, out)
    least = _set_costs(setting, task, free_at, task_means, out)
    cpu_column = devices[devices[best].cpu].column
    column = devices[best].column
    on_cpu = max(task.times[cpu_column, 0] + task.times[cpu_column, 1], 1e-12)
    on_best = max(task.times[column, 0] + task.times[column, 1], 1e-12)
    features[0] = 0.5 * math.log(on_cpu / typical)
    features[1] = 0.5 * math.log(on_best / typical)
    features[2] = math.log(on_cpu / on_best) - task_means[_RATIO]
    features[3] = task_means[_RATIO]
    features[4] = share
    features[5] = most
    _describe_queues(best, task.now, typical, free_at, devices, features)
    gap = max(task_means[_GAP] * setting.nodes, 1e-12)
    features[14] = min(max(0.5 * math.log(typical / gap), -2.0), 2.0) if task_means[_SEEN] > 1.0 else 0.0
    features[15] = math.log1p(least)
    for a in range(ACTIONS):
        over = out.cost[a] / max(least, 1e-12)
        features[16 + a] = min(math.log(over), 2.0) if over < np.inf else 2.0


@inner
def _observe_task(setting, task, free_at, task_means, out):  # type: ignore[no-untyped-def]
    """Add an arriving task to the running means and describe its options."""
    _update_task_means(setting, task, task_means)
    _describe_options(setting, task, free_at, task_means, out)


@inner
def _task_of(episodes, e, i):  # type: ignore[no-untyped-def]
    return _ArrivingTask(episodes.arrival[e, i], episodes.memory[e, i], True, episodes.times[e, i])


@inner
def _options_of(options, e):  # type: ignore[no-untyped-def]
    return Options(options.features[e], options.cost[e], options.device[e], options.fraction[e])


@inner
def _observe_current(setting, episodes, options, e):  # type: ignore[no-untyped-def]
    task = _task_of(episodes, e, episodes.position[e])
    _observe_task(setting, task, episodes.free_at[e], episodes.task_means[e], _options_of(options, e))


@entry
def describe_all(setting, episodes, options, which):  # type: ignore[no-untyped-def]
    """Describe the options of the current task in every marked cluster."""
    for e in range(len(which)):
        if which[e]:
            _observe_current(setting, episodes, options, e)


@entry
def step_all(setting, episodes, options, actions):  # type: ignore[no-untyped-def]
    """Place every cluster's task as its action says and describe the next one; a negative action waits."""
    busy = np.zeros(len(setting.devices))
    for e in range(len(actions)):
        a = actions[e]
        if a < 0:
            continue
        task = _task_of(episodes, e, episodes.position[e])
        cluster = ClusterArrays(setting.devices, episodes.free_at[e], busy, 0.0, 0, CLIP)
        place(options.device[e, a], options.fraction[e, a], 0, task.memory, task.now, task.times, cluster)
        episodes.position[e] += 1
        _observe_current(setting, episodes, options, e)


_MATRIX = types.float64[:, ::1]
_INTS = types.int64[::1]
_SETTING = types.NamedTuple(
    (DEVICE_TABLE, _MATRIX, *(types.float64,) * 3, types.int64, types.float64), OptionSetting
)
_OPTION_ROWS = types.NamedTuple((types.float32[:, ::1], _MATRIX, types.int64[:, ::1], _MATRIX), Options)
_EPISODES = types.NamedTuple((_MATRIX, _MATRIX, types.float64[:, :, :, ::1], _INTS, _MATRIX, _MATRIX), Episodes)
_SIGNATURES = {
    describe_all: types.void(_SETTING, _EPISODES, _OPTION_ROWS, types.boolean[::1]),
    step_all: types.void(_SETTING, _EPISODES, _OPTION_ROWS, _INTS),
}


def compiled_entry(function: Any) -> Any:
    """Return one of the entries above, compiled."""
    return compiled(function, _SIGNATURES[function])


def new_task_means(clusters: int) -> Floats:
    """Return empty running means for several clusters."""
    return np.zeros((clusters, _NUM_MEANS))


def typical_time(task_means: Floats) -> float:
    """Return the unit of all costs: mean seconds of an isolated task at its best split."""
    return max(float(task_means[_TYPICAL]), 1e-12)
