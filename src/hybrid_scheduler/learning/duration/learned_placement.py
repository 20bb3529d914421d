"""Placement by learned durations: device prices, bounded trials, and splits only where durations are known.

The rule is that of `price_index` on predicted seconds, ``exp(mean + variance / 2)``. With several classes of
accelerators the worth of a second on each lies between its mean speed and the fluid optimum of the last tasks.

A class of device whose duration for a task is uncertain is tried if an optimistic estimate beats the best known
placement at present prices. Trials are bounded: one at a time for each class and task kind, a few in all, and only
while the seconds that they may lose stay below a small share of all seconds spent. Small tasks are tried first.

A task that takes longer than expected blocks its device, and the delay of later tasks grows with the square of its
duration. Half the variance of the predicted seconds, times the arrival rate and a weight, is therefore added to the
latency of a placement.

Two rules place every task on simulated queues of their own: this one, and the fallback rule, which takes the
least objective without prices at durations that are trusted (`trusted_log_seconds`). Both queues move by the
trusted durations. The rule with the lower mean cost decides, except for trials and tasks of unknown duration
(`learning/shadow_guard.py`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ...compiled import beats, best_placement, earliest_free, fitting_share
from ...compiled.device_prices import (
    ACCELERATORS,
    BLOCK,
    CPUS,
    FIRST_PRICE,
    LATENCY_WEIGHT,
    add_values,
    find_critical_ratio,
    first_alike,
    price_rule,
    set_prices,
)
from ...compiled.jit_cache import allocating, leaf
from ...compiled.late_binding import CLASS_EXPONENT, balance_classes
from ...compiled.split_placement import cpu_side
from ...core import Floats, Task
from ..shadow_guard import (
    ACTIVE,
    SHADOW,
    TRIAL,
    ShadowState,
    shadow_end,
    shadow_place,
    shadow_restart,
    shadow_return,
)
from .hierarchical_regression import (
    covariates,
    fixed_seconds,
    learn_part,
    predict,
    predicted_seconds,
    trusted_log_seconds,
)
from .learner_state import DEVICES, PLACEMENT, STATE, WINDOW, ModelState, PlacementState
from .model import ACCELERATOR_SIDE, CPU_SIDE

#: Number of tasks at which the worth of accelerator seconds counts half; with ten times as many it counts fully.
_FEW_TASKS = 24.0
#: How often the price of accelerator seconds is computed, in tasks; more often among the first ones.
_REFRESH = 64
#: Steps towards the fluid optimum whenever the price is computed.
_ROUNDS = 10
#: Outcomes of a kind on a class below which it may be far faster than predicted.
_FEW = 2.0
#: Standard deviation of log seconds before anything is known.
_UNKNOWN_DEVIATION = 9.0
#: Largest variance of log seconds of which the risk is computed: beyond it a normal distribution exaggerates.
_RISKY = 1.5
#: Policies of the guard: the learned rule, and the fallback rule.
LEARNED = 0
FALLBACK = 1
#: Share by which the fallback rule must be cheaper to decide. It has no prices, which is costly near capacity.
_LEAD = 0.25
#: Share by which the learned rule may be dearer and decide again: without a queue it is up to 1 % dearer.
_SLACK = 0.01
#: Largest share of a task that is a probe.
_MAX_PROBE = 0.2
#: Seconds of a placement that is used only if there is no other.
_UNUSABLE_S = 1e30


class LearnerArrays(NamedTuple):
    """What compiled code knows of a learner: its model, its rule, its guard, and the devices."""

    model: ModelState
    placement: PlacementState
    guard: ShadowState
    devices: NDArray[Any]


class LearnedTask(NamedTuple):
    """Task whose durations are predicted; `kind` is the index of its kind in the model."""

    size: float
    intensity: float
    memory: float
    kind: int
    divisible: bool


def learned_task(task: Task, kind: int) -> LearnedTask:
    """Return a task for compiled code, which takes floats for floats."""
    numbers = (float(task.size), float(task.compute_intensity), float(task.memory_required))
    return LearnedTask(*numbers, kind, bool(task.divisible))


class _KnownPlacement(NamedTuple):
    """Placement of a task whose durations were predicted.

    Latency, the same with the risk of uncertain durations, and the value by which placements are compared: that
    one, or on request weighted and with prices. `free` is when the accelerator is free; infinite for a CPU.
    """

    device: int | np.int64
    share: float
    latency: float
    pessimistic: float
    value: float
    free: float


class _Terms(NamedTuple):
    """Terms of a comparison of placements: prices and the fee of a split, if they count, and a limit on latency."""

    prices: Floats
    split_fee: float
    limit: float
    priced: bool


class EndedParts(NamedTuple):
    """Parts of a task that have ended, on one side or on both; the share is that of the device."""

    device: int | np.int64
    share: float
    cpu_time: float
    accelerator_time: float
    sides: int


LEARNER = types.NamedTuple((STATE, PLACEMENT, SHADOW, DEVICES), LearnerArrays)
LEARNED_TASK = types.NamedTuple((*(types.float64,) * 3, types.int64, types.boolean), LearnedTask)
ENDED_PARTS = types.NamedTuple((types.int64, *(types.float64,) * 3, types.int64), EndedParts)


@allocating
def renew_prices(learner, balanced):  # type: ignore[no-untyped-def]
    """Compute the worth of accelerator seconds and the typical seconds of the last tasks, as predicted now.

    The worth of a class is in proportion to its mean speed, and on request also to its load in the fluid optimum.
    Return the number of these tasks: those since the last change.
    """
    placement = learner.placement
    devices = learner.devices
    cpus = placement.params[CPUS]
    accelerators = placement.params[ACCELERATORS]
    scalars = placement.scalars[()]
    filled = min(int(scalars.tasks), WINDOW)
    cpu = np.empty(filled)
    accelerator = np.empty(filled)
    table = np.empty((filled, len(placement.relative_speed)))
    for r in range(filled):
        seconds = table[r]
        predict_window_task(learner, r, seconds)
        cpu_sum = 0.0
        rate = 0.0
        for d in range(len(devices)):
            if devices[d].is_cpu == 1:
                cpu_sum += seconds[devices[d].column]
            else:
                rate += 1.0 / seconds[devices[d].column]
        cpu[r] = cpu_sum / cpus
        accelerator[r] = accelerators / rate
    kept = _tasks_since_change(placement, cpu, accelerator, table)
    if kept < filled:
        newest = (int(scalars.tasks) - kept + np.arange(kept)) % WINDOW
        cpu = cpu[newest]
        accelerator = accelerator[newest]
        table = table[newest]
        filled = kept
    before = placement.relative_speed * scalars.critical_ratio
    placement.relative_speed[:] = 0.0
    for r in range(filled):
        placement.relative_speed[:] += accelerator[r] / table[r] / filled
    # A few tasks of uncertain durations say little about it: at first a second is worth the same on every side.
    evidence = min(1.1 * scalars.tasks / (scalars.tasks + _FEW_TASKS), 1.0)
    ratio = find_critical_ratio(cpu, accelerator, cpus, accelerators, np.empty(2 * filled))
    if balanced and table.shape[1] > 2:
        _balance_prices(placement.relative_speed, before, devices, cpu, table, ratio)
    scalars.critical_ratio = ratio**evidence
    scalars.typical_time = (cpu * accelerator / (cpu + accelerator)).mean()
    return filled


@allocating
def _balance_prices(worth, before, devices, cpu, table, ratio):  # type: ignore[no-untyped-def]
    """Move the relative worth of each class of accelerators halfway to that of the fluid optimum.

    A mean speed says nothing about how many tasks a class is the best for. The coefficients of the prices were
    tuned for mean speeds, so that the geometric mean of both is better than either. `before` is the worth relative
    to a CPU that was computed last, 0 at first; the steps towards the optimum begin there.
    """
    tasks, classes = table.shape
    devices_of = np.zeros(classes + 1)
    for d in range(len(devices)):
        devices_of[classes if devices[d].is_cpu == 1 else devices[d].column] += 1.0
    least = cpu
    for c in range(classes):
        if devices_of[c] > 0.0:
            least = np.minimum(least, table[:, c])
    seconds = np.zeros((tasks, classes + 1))
    power = np.zeros((tasks, classes + 1))
    weight = np.ones(classes + 1)
    seconds[:, classes] = cpu
    power[:, classes] = (least / cpu) ** CLASS_EXPONENT
    for c in range(classes):
        if devices_of[c] > 0.0:
            seconds[:, c] = table[:, c]
            power[:, c] = (least / table[:, c]) ** CLASS_EXPONENT
            weight[c] = max(before[c] if before[c] > 0.0 else worth[c] * ratio, 1e-6) ** -CLASS_EXPONENT
    balance_classes(weight, np.zeros(classes + 1), devices_of, seconds, power, tasks, _ROUNDS)
    for c in range(classes):
        if devices_of[c] > 0.0:
            worth[c] = math.sqrt(worth[c] * weight[c] ** (-1.0 / CLASS_EXPONENT) / ratio)


@leaf
def predict_window_task(learner, r, seconds):  # type: ignore[no-untyped-def]
    """Write the predicted seconds of a task of the window on every class."""
    row = learner.placement.window[r]
    task = covariates(learner.model, row.size, row.intensity, row.memory, row.kind)
    for c in range(len(seconds)):
        noise = min(learner.model.stats[c].noise, learner.placement.limits.max_noise)
        seconds[c] = predicted_seconds(learner.model, c, task) * math.exp(0.5 * noise)


@allocating
def _tasks_since_change(placement, cpu, accelerator, table):  # type: ignore[no-untyped-def]
    """Return how many of the last tasks are like the newest, by predicted seconds."""
    filled, classes = table.shape
    blocks = filled // BLOCK
    seen = int(placement.scalars[()].tasks)
    sums = np.zeros((blocks, classes + 2, 2))
    for k in range(blocks * BLOCK):
        r = (seen - blocks * BLOCK + k) % WINDOW
        add_values(sums[k // BLOCK, classes:], cpu[r], accelerator[r])
        speeds = accelerator[r] / table[r]
        sums[k // BLOCK, :classes, 0] += speeds
        sums[k // BLOCK, :classes, 1] += speeds * speeds
    first = first_alike(sums)
    return (blocks - first) * BLOCK if first > 0 else filled


@leaf
def _set_prices(learner, now, free_at, prices):  # type: ignore[no-untyped-def]
    """Write the price of a second on each class and return the fee of a split, as `price_index` has them."""
    placement = learner.placement
    scalars = learner.placement.scalars[()]
    window = placement.relative_speed, scalars.critical_ratio, scalars.typical_time
    return set_prices(prices, now, free_at, learner.devices, price_rule(placement.params), window, 0.0)


@leaf
def _best_known_placement(learner, now, task, free_at, prices, split_fee):  # type: ignore[no-untyped-def]
    """Return the placement of the least ``weight * finish + prices * busy seconds``.

    An indivisible task runs whole, on a device into which it fits or on a CPU.

    As `best_placement`, with three differences. Latencies include the risk of uncertain durations. Splits need
    durations that are known. Prices may delay a task to a multiple of the least possible latency and of the typical
    task time, and no further: no task waits for a stuck device.
    """
    limits = learner.placement.limits
    terms = _Terms(prices, split_fee, np.inf, False)
    fastest = _least_placement(learner, now, task, free_at, terms)
    stretch = limits.max_delay
    limit = stretch * fastest.pessimistic + stretch * learner.placement.scalars[()].typical_time
    best = _least_placement(learner, now, task, free_at, _Terms(prices, split_fee, limit, True))
    return best if best.value < np.inf else fastest


@leaf
def _least_placement(learner, now, task, free_at, terms):  # type: ignore[no-untyped-def]
    """Return the placement of the least value, an infinite one if none is within the limit."""
    placement = learner.placement
    devices = learner.devices
    best = _KnownPlacement(np.int64(0), 0.0, np.inf, np.inf, np.inf, np.inf)
    first = 0
    while first < len(devices):
        d = earliest_free(free_at, first, devices[first].group_end)
        first = devices[first].group_end
        if devices[d].is_cpu == 1:
            best = _better(best, _on_cpu(learner, now, d, free_at, terms), terms.limit)
            continue
        cap = fitting_share(task.memory, devices[d].memory)
        if not task.divisible and cap < 1.0:
            continue
        best = _better(best, _on_accelerator(learner, now, d, cap, False, free_at, terms), terms.limit)
        if task.divisible and _split_is_known(placement, devices[d].column, devices[devices[d].cpu].column):
            best = _better(best, _on_accelerator(learner, now, d, cap, True, free_at, terms), terms.limit)
    return best


@leaf
def _better(best, other, limit):  # type: ignore[no-untyped-def]
    """Return the other placement if it is within the limit and beats the best one so far."""
    return other if other.pessimistic <= limit and beats(other.value, other.free, best.value, best.free) else best


@leaf
def _on_cpu(learner, now, d, free_at, terms):  # type: ignore[no-untyped-def]
    """Return the placement of the whole task on a CPU."""
    placement = learner.placement
    whole, fixed, price, wait = cpu_side(d, now, placement.times, terms.prices, free_at, learner.devices)
    part = fixed + whole
    latency = wait + part
    pessimistic = latency + placement.risk[learner.devices[d].column]
    value = placement.params[LATENCY_WEIGHT] * pessimistic + price * part if terms.priced else pessimistic
    return _KnownPlacement(np.int64(d), 0.0, latency, pessimistic, value, np.inf)


@leaf
def _on_accelerator(learner, now, d, cap, split, free_at, terms):  # type: ignore[no-untyped-def]
    """Return the placement of a task on an accelerator, up to the share that fits, or balanced with its CPU."""
    placement = learner.placement
    times = placement.times
    risk = placement.risk
    column = learner.devices[d].column
    cpu_column = learner.devices[learner.devices[d].cpu].column
    cpu_whole, cpu_fixed, cpu_price, cpu_wait = cpu_side(d, now, times, terms.prices, free_at, learner.devices)
    whole = times[column, 0]
    fixed = times[column, 1]
    wait = max(0.0, free_at[d] - now)
    share = cap
    if split:
        whole *= _caution(placement, column)
        cpu_whole *= _caution(placement, cpu_column)
        # Both sides end together at the balancing share. Where it is 0 the CPU alone is as good.
        share = (cpu_wait + cpu_fixed + cpu_whole - wait - fixed) / (cpu_whole + whole)
        share = min(max(share, 0.0), cap)
    part = fixed + share * whole
    rest = cpu_fixed + (1.0 - share) * cpu_whole
    latency = wait + part if share == 1.0 else max(wait + part, cpu_wait + rest)
    pessimistic = share * share * risk[column] + (1.0 - share) ** 2 * risk[cpu_column]
    pessimistic += latency
    value = pessimistic
    if terms.priced:
        value = placement.params[LATENCY_WEIGHT] * pessimistic + terms.prices[column] * part
        if share != 1.0:
            value = value + cpu_price * rest + terms.split_fee
    return _KnownPlacement(np.int64(d), share, latency, pessimistic, value, free_at[d])


@leaf
def _split_is_known(placement, column, cpu_column):  # type: ignore[no-untyped-def]
    """Return whether one side of a split is known, and the other at least roughly."""
    one = placement.deviation[column]
    other = placement.deviation[cpu_column]
    limits = placement.limits
    return min(one, other) < limits.unknown and max(one, other) < limits.max_split_deviation


@leaf
def _caution(placement, column):  # type: ignore[no-untyped-def]
    """Return by how much slower than predicted a class counts in a split: one known roughly gets a small share."""
    deviation = placement.deviation[column]
    return math.exp(deviation) if deviation >= placement.limits.unknown else 1.0


@leaf
def _may_be_tried(learner, c, kind):  # type: ignore[no-untyped-def]
    """Return whether the duration of a kind on a class is unknown, no outcome is awaited, and few were seen."""
    placement = learner.placement
    limits = learner.placement.limits
    if placement.deviation[c] <= limits.unknown or placement.pending[c, kind] > 0:
        return False
    observed = learner.model.observed
    every = 0.0
    for other in range(len(observed)):
        every += observed[other, kind]
    return observed[c, kind] < limits.trials and (observed[c, kind] < _FEW or every < limits.kind_tasks)


@leaf
def _range(values):  # type: ignore[no-untyped-def]
    """Return the smallest and the largest of some numbers; array methods would need reference counts."""
    least = values[0]
    most = values[0]
    for i in range(1, len(values)):
        least = min(least, values[i])
        most = max(most, values[i])
    return least, most


@leaf
def add_latency(placement, latency):  # type: ignore[no-untyped-def]
    """Add a task's predicted latency and shortest duration to what limits trials."""
    scalars = placement.scalars[()]
    scalars.spent += latency
    shortest, _ = _range(placement.mean)
    scalars.log_time += (shortest - scalars.log_time) / min(scalars.tasks, 200.0)


@leaf
def device_to_try(learner, now, task, latency, value, free_at):  # type: ignore[no-untyped-def]
    """Return the device on which a task should be tried, or -1; note what it may lose and what was put off.

    `latency` and `value` are those of the best known placement. The value includes the present prices: behind a
    long queue seconds of work count for more than the wait, which is about the same everywhere.
    """
    placement = learner.placement
    devices = learner.devices
    limits = learner.placement.limits
    scalars = placement.scalars[()]
    kind = task.kind
    weight = placement.params[LATENCY_WEIGHT]
    classes = len(placement.relative_speed)
    allowed = limits.max_loss_share * scalars.spent + limits.initial_loss_budget * scalars.typical_time * classes
    gain = 0.0
    trial = -1
    loss = 0.0
    loss_free_seconds = 0.0
    first = 0
    while first < len(devices):
        d = earliest_free(free_at, first, devices[first].group_end)
        first = devices[first].group_end
        c = devices[d].column
        if not _may_be_tried(learner, c, kind) or task.memory > devices[d].memory:
            continue
        wait = max(0.0, free_at[d] - now)
        bonus = placement.deviation[c]
        if learner.model.observed[c, kind] == 0.0:
            bonus *= limits.optimism
        elif learner.model.observed[c, kind] < _FEW:
            bonus += limits.retrial_bonus
        optimistic = math.exp(placement.mean[c] - bonus)
        saved = value - weight * (wait + optimistic) - placement.prices[c] * optimistic
        if saved <= gain:
            continue
        possible_loss = max(0.0, wait + placement.times[c, 0] + placement.times[c, 1] - latency)
        slow = placement.mean[c] + 2.0 * placement.deviation[c]
        small = placement.mean[c] <= scalars.log_time + limits.growth * placement.deferred_trials[c, kind]
        short = slow <= math.log(limits.max_trial_time * scalars.typical_time)
        if scalars.lost + possible_loss <= allowed and (small or short):
            gain = saved
            trial = d
            loss = possible_loss
            loss_free_seconds = latency - wait
        else:
            placement.deferred_trials[c, kind] += 1.0
    if trial >= 0:
        c = devices[trial].column
        placement.reserved_loss[c, kind] = loss
        placement.loss_free_seconds[c, kind] = loss_free_seconds
        scalars.lost += loss
    return trial


@leaf
def with_probe(learner, now, task, device, share, free_at):  # type: ignore[no-untyped-def]
    """Return (device, share) with a small part of a whole task on the other side, if its duration there is unknown.

    Where a whole task may not be tried, a part still tells much and risks little: at two standard deviations it
    ends with the rest of the task.
    """
    placement = learner.placement
    devices = learner.devices
    limits = learner.placement.limits
    cpu = devices[device].cpu
    if share == 1.0:
        other = cpu
        known = devices[device].column
        end = max(0.0, free_at[device] - now)
    else:
        other = -1
        known = devices[cpu].column
        end = max(0.0, free_at[cpu] - now)
        first = 0
        while first < len(devices):
            d = earliest_free(free_at, first, devices[first].group_end)
            first = devices[first].group_end
            unknown = placement.deviation[devices[d].column] > limits.unknown
            if devices[d].is_cpu == 0 and devices[d].cpu == cpu and unknown:
                other = d
        if other < 0:
            return device, share
    c = devices[other].column
    if not _may_be_tried(learner, c, task.kind):
        return device, share
    end += placement.times[known, 0] + placement.times[known, 1] - max(0.0, free_at[other] - now)
    part = min(end / math.exp(placement.mean[c] + 2.0 * placement.deviation[c]), _MAX_PROBE)
    if share < 1.0:
        part = min(part, fitting_share(task.memory, devices[other].memory))
    if part < limits.probe:
        return device, share
    return (device, 1.0 - part) if share == 1.0 else (other, part)


@leaf
def _end_trial(placement, c, kind, seconds):  # type: ignore[no-untyped-def]
    """Replace the loss that was reserved for a trial by its actual loss."""
    if placement.reserved_loss[c, kind] > 0.0:
        lost = max(0.0, seconds - placement.loss_free_seconds[c, kind])
        placement.scalars[()].lost += lost - placement.reserved_loss[c, kind]
        placement.reserved_loss[c, kind] = 0.0


@leaf
def _arrival_rate(placement, now, devices):  # type: ignore[no-untyped-def]
    """Return the tasks that arrive per second, at most as many as the devices can serve; note this arrival."""
    scalars = placement.scalars[()]
    if scalars.tasks > 0.0:
        scalars.gap += (now - scalars.last_arrival - scalars.gap) / min(scalars.tasks, 200.0)
    scalars.last_arrival = now
    least = scalars.typical_time / devices
    return 1.0 / max(scalars.gap, least) if least > 0.0 else 0.0


@leaf
def trust_durations(learner, task):  # type: ignore[no-untyped-def]
    """Write the durations that the guard trusts for the task whose durations were predicted last."""
    placement = learner.placement
    trusted = learner.placement.trusted
    log_size = math.log(task.size)
    for c in range(len(trusted)):
        predicted = math.log(placement.times[c, 0] + placement.times[c, 1])
        log_seconds = trusted_log_seconds(learner.model, c, task.kind, log_size, predicted)
        if log_seconds == predicted:
            trusted[c, 0] = placement.times[c, 0]
            trusted[c, 1] = placement.times[c, 1]
        else:
            seconds = math.exp(log_seconds)
            trusted[c, 1] = fixed_seconds(learner.model, c, seconds)
            trusted[c, 0] = seconds - trusted[c, 1]


@leaf
def set_objective_prices(placement):  # type: ignore[no-untyped-def]
    """Write the price of a second by class without a backlog."""
    for c in range(len(placement.prices)):
        placement.prices[c] = placement.params[FIRST_PRICE + c]


@leaf
def place_by_rules(learner, now, task):  # type: ignore[no-untyped-def]
    """Let both rules place the task on their simulated queues, which move by the trusted durations."""
    placement = learner.placement
    guard = learner.guard
    weight = placement.params[LATENCY_WEIGHT]
    objective = placement.params[FIRST_PRICE:]
    prices = placement.prices
    set_objective_prices(placement)
    split_fee = 0.0
    free_at = guard.free_at[LEARNED]
    if placement.params[ACCELERATORS] > 0.0:
        split_fee = _set_prices(learner, now, free_at, prices)
    known = _best_known_placement(learner, now, task, free_at, prices, split_fee)
    shadow_place(guard, LEARNED, now, known.device, known.share, placement.trusted, weight, objective)
    device, share = fallback_placement(learner, now, task, guard.free_at[FALLBACK])
    shadow_place(guard, FALLBACK, now, device, share, placement.trusted, weight, objective)


@leaf
def shadow_rules(learner, now, task):  # type: ignore[no-untyped-def]
    """Let both rules place the task on their simulated queues, and the cheaper one decide."""
    trust_durations(learner, task)
    place_by_rules(learner, now, task)
    acts = learner.guard.counters[ACTIVE] == LEARNED
    shadow_end(learner.guard, _LEAD if acts else 1.0)
    if not acts:
        shadow_return(learner.guard, LEARNED, _SLACK)
        shadow_restart(learner.guard)


@leaf
def fallback_placement(learner, now, task, free_at):  # type: ignore[no-untyped-def]
    """Return (device, share) of the least objective at trusted durations; prices may be wrong and do not count."""
    placement = learner.placement
    devices = learner.devices
    weight = placement.params[LATENCY_WEIGHT]
    objective = placement.params[FIRST_PRICE:]
    split_fee = 0.0 if task.divisible else np.inf
    return best_placement(
        now, task.memory, placement.trusted, free_at, devices, 0, len(devices), weight, objective, split_fee
    )


@leaf
def estimate(learner, now, rate, task):  # type: ignore[no-untyped-def]
    """Predict the durations of a task on every class into the scratch arrays; False if nothing is known yet.

    `rate` is the number of tasks per second that a longer duration than expected would delay. A part that already
    runs longer than predicted is evidence before it ends: others of its class and kind take as much longer, unless
    their duration is known and it may be noise.
    """
    model = learner.model
    placement = learner.placement
    if model.outcomes[0] == 0 and model.layout[()].informed == 0:
        placement.times[:, 0] = 1e-9
        placement.times[:, 1] = 0.0
        placement.mean[:] = 0.0
        placement.deviation[:] = _UNKNOWN_DEVIATION
        return False
    known = covariates(model, task.size, task.intensity, task.memory, task.kind)
    limits = placement.limits
    for c in range(len(placement.relative_speed)):
        mean, variance = predict(model, c, known)
        noise = model.stats[c].noise
        mean += _overrun(placement, now, c, task.kind) * variance / (variance + noise)
        placement.mean[c] = mean
        placement.deviation[c] = math.sqrt(variance)
        variance = min(variance, limits.max_pessimism_variance) + min(noise, limits.max_noise)
        seconds = math.exp(mean + 0.5 * variance)
        spread = seconds * seconds * (math.exp(min(variance, _RISKY)) - 1.0)
        placement.risk[c] = 0.5 * limits.risk * rate * spread
        fixed = fixed_seconds(model, c, seconds)
        placement.times[c, 0] = seconds - fixed
        placement.times[c, 1] = fixed
    return True


@leaf
def add_task(placement, task):  # type: ignore[no-untyped-def]
    """Add a task to the window; return whether the prices are due to be renewed."""
    scalars = placement.scalars[()]
    seen = int(scalars.tasks)
    row = placement.window[seen % WINDOW]
    row.size = task.size
    row.intensity = task.intensity
    row.memory = task.memory
    row.kind = task.kind
    scalars.tasks += 1.0
    refresh = 4 if seen < _REFRESH else 16 if seen < 3 * _REFRESH else _REFRESH
    return scalars.critical_ratio == 0.0 or seen % refresh == 0


@leaf
def may_split(placement):  # type: ignore[no-untyped-def]
    """Return whether durations are known well enough to split a task: all roughly, and one well."""
    deviation = placement.deviation
    limits = placement.limits
    least, most = _range(deviation)
    return least < limits.unknown and most < limits.max_split_deviation


@leaf
def begin_parts(placement, kind, device, share, devices):  # type: ignore[no-untyped-def]
    """Note that the parts of a decision are under way."""
    if share > 0.0:
        placement.pending[devices[device].column, kind] += 1
    if share < 1.0:
        placement.pending[devices[devices[device].cpu].column, kind] += 1


@leaf
def await_parts(placement, now, kind, device, share, free_at, devices):  # type: ignore[no-untyped-def]
    """Note start and predicted duration of parts that will be the only ones of their class and kind under way."""
    cpu = devices[device].cpu
    if share < 1.0:
        _await_part(placement, kind, devices[cpu].column, max(now, free_at[cpu]), 1.0 - share)
    if share > 0.0:
        _await_part(placement, kind, devices[device].column, max(now, free_at[device]), share)


@leaf
def _await_part(placement, kind, c, start, share):  # type: ignore[no-untyped-def]
    if placement.pending[c, kind] == 0:
        placement.started[c, kind] = start
        placement.expected[c, kind] = math.log(placement.times[c, 1] + share * placement.times[c, 0])


@leaf
def _overrun(placement, now, c, kind):  # type: ignore[no-untyped-def]
    """Return by how much a part of a class and kind that still runs exceeds its predicted log seconds."""
    elapsed = now - placement.started[c, kind]
    return max(0.0, math.log(elapsed) - placement.expected[c, kind]) if elapsed > 0.0 else 0.0


@leaf
def begin_trial(placement, kind, device, devices):  # type: ignore[no-untyped-def]
    """Note that a task is tried on a device; return its share."""
    placement.deferred_trials[devices[device].column, kind] = 0.0
    placement.scalars[()].trials += 1.0
    return 0.0 if devices[device].is_cpu == 1 else 1.0


@leaf
def explore(learner, now, task, placed, free_at, splits_too):  # type: ignore[no-untyped-def]
    """Try a device of unknown speed with a small part of a task, or with all of it, if that may pay.

    `placed` is the policy that decided, its placement, its predicted latency, and its value with prices. Return the
    policy and the placement. `splits_too` says whether a task that was split may be tried whole.
    """
    placement = learner.placement
    policy, device, share, latency, value = placed
    whole = share == 0.0 or share == 1.0
    if task.divisible and whole:
        device, share = with_probe(learner, now, task, device, share, free_at)
    add_latency(placement, latency)
    if (splits_too and not whole) or not 0.0 < share < 1.0:
        trial = device_to_try(learner, now, task, latency, value, free_at)
        if trial >= 0 and trial != device:
            policy = TRIAL
            device = trial
            share = begin_trial(placement, task.kind, trial, learner.devices)
    return policy, device, share


@leaf
def choose(learner, now, task, free_at, earliest_start):  # type: ignore[no-untyped-def]
    """Return (device, share) for one task, and note it in the rule's state.

    It can start at `earliest_start`, later than `free_at` where its data must be moved; prices follow the queues.
    Without queues in the guard there is no fallback rule.
    """
    placement = learner.placement
    guard = learner.guard
    devices = learner.devices
    rate = _arrival_rate(placement, now, len(devices))
    informed = estimate(learner, now, rate, task)
    if not informed:
        _assume_by_size(placement, task, devices)
    due = add_task(placement, task)
    prices = placement.prices
    set_objective_prices(placement)
    split_fee = 0.0
    if placement.params[ACCELERATORS] > 0.0 and informed:
        if due:
            renew_prices(learner, True)
        split_fee = _set_prices(learner, now, free_at, prices)
    known = _best_known_placement(learner, now, task, earliest_start, prices, split_fee)
    device = known.device
    share = known.share
    policy = LEARNED
    if informed:
        # While durations are unknown, pessimism and trials are right, and costs on simulated queues say nothing.
        _, most_uncertain = _range(placement.deviation)
        if len(guard.means) > 0 and most_uncertain < placement.limits.unknown:
            shadow_rules(learner, now, task)
            if guard.counters[ACTIVE] == FALLBACK:
                policy = FALLBACK
                device, share = fallback_placement(learner, now, task, earliest_start)
        placed = (policy, device, share, known.latency, known.value)
        policy, device, share = explore(learner, now, task, placed, earliest_start, False)
    guard.decided[policy] += 1
    if devices[device].is_cpu == 1:
        share = 0.0
    if informed:
        await_parts(placement, now, task.kind, device, share, earliest_start, devices)
    begin_parts(placement, task.kind, device, share, devices)
    return device, share


@leaf
def _assume_by_size(placement, task, devices):  # type: ignore[no-untyped-def]
    """Leave a task to the device that is free first, and to accelerators if it is larger than the average so far.

    Not even the unit of time is known yet.
    """
    scalars = placement.scalars[()]
    log_size = math.log(task.size)
    scalars.log_sizes += log_size
    if placement.params[ACCELERATORS] > 0.0 and log_size * (scalars.tasks + 1.0) >= scalars.log_sizes:
        for d in range(len(devices)):
            if devices[d].is_cpu == 1:
                placement.times[devices[d].column, 0] = _UNUSABLE_S


@leaf
def _end_part(placement, kind, c, share, seconds):  # type: ignore[no-untyped-def]
    """Note that a part on a class no longer runs."""
    placement.pending[c, kind] = max(0, placement.pending[c, kind] - 1)
    placement.started[c, kind] = np.inf
    if share == 1.0:
        _end_trial(placement, c, kind, seconds)


@leaf
def end_parts(placement, kind, ended, devices):  # type: ignore[no-untyped-def]
    """Note that parts of a decision no longer run."""
    device = ended.device
    share = ended.share
    if share < 1.0 and ended.sides != ACCELERATOR_SIDE:
        _end_part(placement, kind, devices[devices[device].cpu].column, 1.0 - share, ended.cpu_time)
    if share > 0.0 and devices[device].is_cpu == 0 and ended.sides != CPU_SIDE:
        _end_part(placement, kind, devices[device].column, share, ended.accelerator_time)


@leaf
def learn_outcome(model, task, ended, devices):  # type: ignore[no-untyped-def]
    """Learn from the parts of a task that have ended; return whether that detected drift."""
    device = ended.device
    share = ended.share
    drifted = False
    if 0.0 < ended.cpu_time < np.inf and share < 1.0 and ended.sides != ACCELERATOR_SIDE:
        drifted |= _learn_side(model, task, devices[devices[device].cpu].column, 1.0 - share, ended.cpu_time)
    if 0.0 < ended.accelerator_time < np.inf and share > 0.0 and ended.sides != CPU_SIDE:
        drifted |= _learn_side(model, task, devices[device].column, share, ended.accelerator_time)
    return drifted


@leaf
def _learn_side(model, task, c, share, seconds):  # type: ignore[no-untyped-def]
    known = covariates(model, task.size, task.intensity, task.memory, task.kind)
    return learn_part(model, c, known, share, seconds)
