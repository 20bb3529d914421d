"""Placement by learned durations: device prices, bounded trials, and splits only where durations are known.

The rule is that of `price_index` on predicted seconds, ``exp(mean + variance / 2)``. A class of device whose
duration for a task is uncertain is tried if an optimistic estimate beats the best known placement. Trials are
bounded: one at a time for each class and task kind, a few in all, and only while the seconds that they may lose
stay below a small share of all seconds spent. Small tasks are tried first.

A task that takes longer than expected blocks its device, and the delay of later tasks grows with the square of its
duration. Half the variance of the predicted seconds, times the arrival rate and a weight, is therefore added to the
latency of a placement.

Two rules place every task on simulated queues of their own: this one, and the fallback rule, which takes the
least objective without prices at durations that are trusted (`trusted_log_seconds`). Both queues move by the
trusted durations. The rule with the lower mean cost decides, except for trials and tasks of unknown duration
(`learning/fallback_guard.py`).
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled import beats, best_placement, earliest_free, fitting_share, inner
from ...compiled.device_prices import (
    ACCELERATORS,
    CPUS,
    FIRST_COEFFICIENT,
    FIRST_PRICE,
    LATENCY_WEIGHT,
    find_critical_ratio,
    set_prices,
)
from ...compiled.split_placement import cpu_side
from ...core import Floats, Ints
from ..fallback_guard import ACTIVE, shadow_end, shadow_place, shadow_restart, shadow_return
from .hierarchical_regression import (
    fixed_seconds,
    learn_part,
    predict,
    predicted_seconds,
    task_features,
    trusted_log_seconds,
)
from .learner_state import (
    CRITICAL_RATIO,
    FEATURES,
    GAP,
    INFORMED,
    LAST,
    LOG_SIZES,
    LOG_TIME,
    LOST,
    NOISE,
    SPENT,
    TASKS,
    TRIED,
    TYPICAL_TIME,
    WINDOW,
    PlacementState,
)

#: Number of tasks at which the worth of accelerator seconds counts half; with ten times as many it counts fully.
_FEW_TASKS = 24.0
#: How often the price of accelerator seconds is computed, in tasks; more often among the first ones.
_REFRESH = 64
#: Outcomes of a kind on a class below which it may be far faster than predicted.
_FEW = 2.0
#: Standard deviation of log seconds before anything is known.
_UNKNOWN_DEVIATION = 9.0
#: Largest variance of log seconds of which the risk is computed: beyond it a normal distribution exaggerates.
_RISKY = 1.5
#: Policies of the guard: the learned rule, and the fallback rule.
LEARNED, FALLBACK = 0, 1
#: Share by which the fallback rule must be cheaper to decide. It has no prices, which is costly near capacity.
_LEAD = 0.25
#: Share by which the learned rule may be dearer and decide again: without a queue it is up to 1 % dearer.
_SLACK = 0.01
#: Sides of a task whose parts have ended.
CPU_SIDE, ACCELERATOR_SIDE, BOTH_SIDES = range(3)
#: Largest share of a task that is a probe.
_MAX_PROBE = 0.2
#: Seconds of a placement that is used only if there is no other.
_UNUSABLE_S = 1e30
(
    _UNKNOWN, _TRIALS, _MAX_LOSS_SHARE, _INITIAL_LOSS_BUDGET, _MAX_PESSIMISM_VARIANCE, _GROWTH, _MAX_TRIAL_TIME,
    _MAX_DELAY, _MAX_SPLIT_DEVIATION, _RISK, _PROBE, _KIND_TASKS, _OPTIMISM, _RETRIAL_BONUS,
) = range(14)  # fmt: skip


def set_objective(placement: PlacementState, weight: float, per_device: Floats, class_of: Ints) -> None:
    """Set the weight of latency and the objective's price of a busy second on each device."""
    placement.params[LATENCY_WEIGHT] = weight
    placement.params[FIRST_PRICE + class_of] = per_device
    placement.limits[_MAX_DELAY] = np.inf  # energy or cost may justify any delay


def set_max_pessimism_variance(placement: PlacementState, variance: float) -> None:
    """Set the largest variance of log seconds that makes an uncertain duration longer."""
    placement.limits[_MAX_PESSIMISM_VARIANCE] = variance


def restart_clock(placement: PlacementState, now: float) -> bool:
    """Count arrivals from `now` on if the last one lies after it, as in a stored rule; return whether it does."""
    later = bool(placement.scalars[LAST] > now)
    if later:
        placement.scalars[LAST] = now
    return later


@inner
def renew_prices(state, placement, devices):  # type: ignore[no-untyped-def]
    """Compute the worth of accelerator seconds and the typical seconds of the last tasks, as predicted now."""
    cpus, accelerators = placement.params[CPUS], placement.params[ACCELERATORS]
    filled = min(int(placement.scalars[TASKS]), WINDOW)
    features = np.empty(FEATURES)
    cpu, accelerator = np.empty(filled), np.empty(filled)
    seconds = np.empty(len(placement.relative_speed))
    placement.relative_speed[:] = 0.0
    for r in range(filled):
        memory = placement.window[r, 2]
        task_features(placement.window[r, 0], placement.window[r, 1], memory, features)
        for c in range(len(seconds)):
            seconds[c] = predicted_seconds(state, features, c, int(placement.window[r, 3]), memory)
        cpu_sum, rate = 0.0, 0.0
        for d in range(len(devices)):
            if devices[d].is_cpu == 1:
                cpu_sum += seconds[devices[d].column]
            else:
                rate += 1.0 / seconds[devices[d].column]
        cpu[r], accelerator[r] = cpu_sum / cpus, accelerators / rate
        for c in range(len(seconds)):
            placement.relative_speed[c] += accelerator[r] / seconds[c] / filled
    # A few tasks of uncertain durations say little about it: at first a second is worth the same on every side.
    evidence = min(1.1 * placement.scalars[TASKS] / (placement.scalars[TASKS] + _FEW_TASKS), 1.0)
    placement.scalars[CRITICAL_RATIO] = (
        find_critical_ratio(cpu, accelerator, cpus, accelerators, np.empty(2 * filled)) ** evidence
    )
    placement.scalars[TYPICAL_TIME] = (cpu * accelerator / (cpu + accelerator)).mean()


@inner
def _set_prices(placement, now, free_at, devices, prices):  # type: ignore[no-untyped-def]
    """Write the price of a second on each class and return the split_fee of a split, as `price_index` has them."""
    params, scalars = placement.params, placement.scalars
    return set_prices(
        prices, now, free_at, devices, params[CPUS], params[ACCELERATORS], params[FIRST_COEFFICIENT:LATENCY_WEIGHT],
        params[LATENCY_WEIGHT], params[FIRST_PRICE:], placement.relative_speed, scalars[CRITICAL_RATIO],
        scalars[TYPICAL_TIME], 0.0,
    )  # fmt: skip


@inner
def _best_known_placement(  # type: ignore[no-untyped-def]
    placement, now, memory, divisible, free_at, devices, prices, split_fee
):
    """Return device, share and latency of the least ``weight * finish + prices * busy seconds``.

    An indivisible task runs whole, on a device into which it fits or on a CPU.

    As `best_placement`, with three differences. Latencies include the risk of uncertain durations. Splits need
    durations that are known. Prices may delay a task to a multiple of the least possible latency and of the typical
    task time, and no further: no task waits for a stuck device.
    """
    times, deviation, risk = placement.times, placement.deviation, placement.risk
    weight, unknown = placement.params[LATENCY_WEIGHT], placement.limits[_UNKNOWN]
    max_split_deviation = placement.limits[_MAX_SPLIT_DEVIATION]
    stretch = placement.limits[_MAX_DELAY]
    slack = stretch * placement.scalars[TYPICAL_TIME]
    best, best_share, best_latency, least, limit = 0, 0.0, np.inf, np.inf, np.inf
    for sweep in range(2):
        best_value, best_free = np.inf, np.inf
        if sweep == 1:
            limit = stretch * least + slack
        first = 0
        while first < len(devices):
            d = earliest_free(free_at, first, devices[first].group_end)
            first = devices[first].group_end
            cpu_column, column = devices[devices[d].cpu].column, devices[d].column
            cpu_whole, cpu_fixed, cpu_price, cpu_wait = cpu_side(d, now, times, prices, free_at, devices)
            if devices[d].is_cpu == 1:
                part = cpu_fixed + cpu_whole
                latency = cpu_wait + part
                pessimistic = latency + risk[cpu_column]
                value = pessimistic if sweep == 0 else weight * pessimistic + cpu_price * part
                if pessimistic <= limit and beats(value, np.inf, best_value, best_free):
                    best, best_share, best_value, best_free, best_latency = d, 0.0, value, np.inf, latency
                    if sweep == 0:
                        least = pessimistic
                continue
            whole, fixed, price = times[column, 0], times[column, 1], prices[column]
            free = free_at[d]
            wait = max(0.0, free - now)
            cap = fitting_share(memory, devices[d].memory)
            # A split needs one side that is known. A side that is known roughly counts as slower than predicted, so
            # that its share is small.
            known = min(deviation[column], deviation[cpu_column]) < unknown
            known = known and max(deviation[column], deviation[cpu_column]) < max_split_deviation
            known = known and divisible
            if not divisible and cap < 1.0:
                continue
            for whole_task in (True, False):
                share = cap
                if not whole_task:
                    if not known:
                        continue
                    if deviation[column] >= unknown:
                        whole *= math.exp(deviation[column])
                    if deviation[cpu_column] >= unknown:
                        cpu_whole *= math.exp(deviation[cpu_column])
                    # Both sides end together at the balancing share. Where it is 0 the CPU alone is as good.
                    share = (cpu_wait + cpu_fixed + cpu_whole - wait - fixed) / (cpu_whole + whole)
                    share = min(max(share, 0.0), cap)
                part, rest = fixed + share * whole, cpu_fixed + (1.0 - share) * cpu_whole
                pessimistic = share * share * risk[column] + (1.0 - share) ** 2 * risk[cpu_column]
                if share == 1.0:
                    latency = wait + part
                    pessimistic += latency
                    value = weight * pessimistic + price * part
                else:
                    latency = max(wait + part, cpu_wait + rest)
                    pessimistic += latency
                    value = weight * pessimistic + price * part + cpu_price * rest + split_fee
                if sweep == 0:
                    value = pessimistic
                if pessimistic <= limit and beats(value, free, best_value, best_free):
                    best, best_share, best_value, best_free, best_latency = d, share, value, free, latency
                    if sweep == 0:
                        least = pessimistic
    return best, best_share, best_latency


@inner
def _may_be_tried(state, placement, c, kind):  # type: ignore[no-untyped-def]
    """Return whether the duration of a kind on a class is unknown, no outcome is awaited, and few were seen."""
    limits = placement.limits
    if placement.deviation[c] <= limits[_UNKNOWN] or placement.pending[c, kind] > 0:
        return False
    outcomes = state.observed[:, kind]
    return outcomes[c] < limits[_TRIALS] and (outcomes[c] < _FEW or outcomes.sum() < limits[_KIND_TASKS])


@inner
def add_latency(placement, latency):  # type: ignore[no-untyped-def]
    """Add a task's predicted latency and shortest duration to what limits trials."""
    scalars = placement.scalars
    scalars[SPENT] += latency
    shortest = placement.mean.min()
    scalars[LOG_TIME] += (shortest - scalars[LOG_TIME]) / min(scalars[TASKS], 200.0)


@inner
def try_device(state, placement, now, memory, kind, latency, free_at, devices):  # type: ignore[no-untyped-def]
    """Return the device on which a task should be tried, or -1; note what it may lose and what was put off."""
    add_latency(placement, latency)
    return _device_to_try(state, placement, now, memory, kind, latency, free_at, devices)


@inner
def _device_to_try(state, placement, now, memory, kind, latency, free_at, devices):  # type: ignore[no-untyped-def]
    scalars, limits = placement.scalars, placement.limits
    classes = len(placement.relative_speed)
    allowed = (
        limits[_MAX_LOSS_SHARE] * scalars[SPENT] + limits[_INITIAL_LOSS_BUDGET] * scalars[TYPICAL_TIME] * classes
    )
    gain, trial, loss, loss_free_seconds = 0.0, -1, 0.0, 0.0
    first = 0
    while first < len(devices):
        d = earliest_free(free_at, first, devices[first].group_end)
        first = devices[first].group_end
        c = devices[d].column
        if not _may_be_tried(state, placement, c, kind) or memory > devices[d].memory:
            continue
        wait = max(0.0, free_at[d] - now)
        bonus = placement.deviation[c]
        if state.observed[c, kind] == 0.0:
            bonus *= limits[_OPTIMISM]
        elif state.observed[c, kind] < _FEW:
            bonus += limits[_RETRIAL_BONUS]
        optimistic = wait + math.exp(placement.mean[c] - bonus)
        if latency - optimistic <= gain:
            continue
        possible_loss = max(0.0, wait + placement.times[c, 0] + placement.times[c, 1] - latency)
        slow = placement.mean[c] + 2.0 * placement.deviation[c]
        small = placement.mean[c] <= scalars[LOG_TIME] + limits[_GROWTH] * placement.deferred_trials[c, kind]
        short = slow <= math.log(limits[_MAX_TRIAL_TIME] * scalars[TYPICAL_TIME])
        if scalars[LOST] + possible_loss <= allowed and (small or short):
            gain, trial, loss, loss_free_seconds = latency - optimistic, d, possible_loss, latency - wait
        else:
            placement.deferred_trials[c, kind] += 1.0
    if trial >= 0:
        c = devices[trial].column
        placement.reserved_loss[c, kind], placement.loss_free_seconds[c, kind] = loss, loss_free_seconds
        scalars[LOST] += loss
    return trial


@inner
def with_probe(state, placement, now, memory, kind, device, share, free_at, devices):  # type: ignore[no-untyped-def]
    """Return (device, share) with a small part of a whole task on the other side, if its duration there is unknown.

    Where a whole task may not be tried, a part still tells much and risks little: at two standard deviations it
    ends with the rest of the task.
    """
    limits = placement.limits
    cpu = devices[device].cpu
    if share == 1.0:
        other, known = cpu, devices[device].column
        end = max(0.0, free_at[device] - now)
    else:
        other, known = -1, devices[cpu].column
        end = max(0.0, free_at[cpu] - now)
        first = 0
        while first < len(devices):
            d = earliest_free(free_at, first, devices[first].group_end)
            first = devices[first].group_end
            unknown = placement.deviation[devices[d].column] > limits[_UNKNOWN]
            if devices[d].is_cpu == 0 and devices[d].cpu == cpu and unknown:
                other = d
        if other < 0:
            return device, share
    c = devices[other].column
    if not _may_be_tried(state, placement, c, kind):
        return device, share
    end += placement.times[known, 0] + placement.times[known, 1] - max(0.0, free_at[other] - now)
    part = min(end / math.exp(placement.mean[c] + 2.0 * placement.deviation[c]), _MAX_PROBE)
    if share < 1.0:
        part = min(part, fitting_share(memory, devices[other].memory))
    if part < limits[_PROBE]:
        return device, share
    return (device, 1.0 - part) if share == 1.0 else (other, part)


@inner
def _end_trial(placement, c, kind, seconds):  # type: ignore[no-untyped-def]
    """Replace the loss that was reserved for a trial by its actual loss."""
    if placement.reserved_loss[c, kind] > 0.0:
        lost = max(0.0, seconds - placement.loss_free_seconds[c, kind])
        placement.scalars[LOST] += lost - placement.reserved_loss[c, kind]
        placement.reserved_loss[c, kind] = 0.0


@inner
def _arrival_rate(placement, now, devices):  # type: ignore[no-untyped-def]
    """Return the tasks that arrive per second, at most as many as the devices can serve; note this arrival."""
    scalars = placement.scalars
    if scalars[TASKS] > 0.0:
        scalars[GAP] += (now - scalars[LAST] - scalars[GAP]) / min(scalars[TASKS], 200.0)
    scalars[LAST] = now
    least = scalars[TYPICAL_TIME] / devices
    return 1.0 / max(scalars[GAP], least) if least > 0.0 else 0.0


@inner
def shadow_rules(state, placement, guard, now, log_size, memory, kind, divisible, devices):  # type: ignore[no-untyped-def]
    """Let both rules place the task on their simulated queues."""
    weight, objective = placement.params[LATENCY_WEIGHT], placement.params[FIRST_PRICE:]
    trusted = placement.trusted
    for c in range(len(trusted)):
        predicted = math.log(placement.times[c, 0] + placement.times[c, 1])
        log_seconds = trusted_log_seconds(state, c, kind, log_size, predicted)
        if log_seconds == predicted:
            trusted[c] = placement.times[c]
        else:
            seconds = math.exp(log_seconds)
            trusted[c, 1] = fixed_seconds(state, c, seconds)
            trusted[c, 0] = seconds - trusted[c, 1]
    prices = objective.copy()
    split_fee = 0.0
    free_at = guard.free_at[LEARNED]
    if placement.params[ACCELERATORS] > 0.0:
        split_fee = _set_prices(placement, now, free_at, devices, prices)
    device, share, _ = _best_known_placement(placement, now, memory, divisible, free_at, devices, prices, split_fee)
    shadow_place(guard, LEARNED, now, device, share, trusted, weight, objective)
    device, share = fallback_placement(placement, now, memory, divisible, guard.free_at[FALLBACK], devices)
    shadow_place(guard, FALLBACK, now, device, share, trusted, weight, objective)
    acts = guard.counters[ACTIVE] == LEARNED
    shadow_end(guard, np.ones(2, np.bool_), _LEAD if acts else 1.0)
    if not acts:
        shadow_return(guard, LEARNED, _SLACK)
        shadow_restart(guard)


@inner
def fallback_placement(placement, now, memory, divisible, free_at, devices):  # type: ignore[no-untyped-def]
    """Return (device, share) of the least objective at trusted durations; prices may be wrong and do not count."""
    weight, objective = placement.params[LATENCY_WEIGHT], placement.params[FIRST_PRICE:]
    split_fee = 0.0 if divisible else np.inf
    return best_placement(
        now, memory, placement.trusted, free_at, devices, 0, len(devices), weight, objective, split_fee
    )


@inner
def estimate(state, placement, now, rate, size, intensity, memory, kind):  # type: ignore[no-untyped-def]
    """Predict the durations of a task on every class into the scratch arrays; False if nothing is known yet.

    `rate` is the number of tasks per second that a longer duration than expected would delay. A part that already
    runs longer than predicted is evidence before it ends: others of its class and kind take as much longer, unless
    their duration is known and it may be noise.
    """
    if state.outcomes[0] == 0 and state.layout[INFORMED] == 0:
        placement.times[:, 0], placement.times[:, 1] = 1e-9, 0.0
        placement.mean[:], placement.deviation[:] = 0.0, _UNKNOWN_DEVIATION
        return False
    features = np.empty(FEATURES)
    task_features(size, intensity, memory, features)
    log_size, limits = math.log(size), placement.limits
    for c in range(len(placement.relative_speed)):
        mean, variance = predict(state, features, c, kind, log_size, intensity, memory)
        mean += _overrun(placement, now, c, kind) * variance / (variance + state.stats[c, NOISE])
        placement.mean[c], placement.deviation[c] = mean, math.sqrt(variance)
        variance = min(variance + min(state.stats[c, NOISE], 0.2), limits[_MAX_PESSIMISM_VARIANCE])
        seconds = math.exp(mean + 0.5 * variance)
        spread = seconds * seconds * (math.exp(min(variance, _RISKY)) - 1.0)
        placement.risk[c] = 0.5 * limits[_RISK] * rate * spread
        fixed = fixed_seconds(state, c, seconds)
        placement.times[c, 0], placement.times[c, 1] = seconds - fixed, fixed
    return True


@inner
def add_task(placement, size, intensity, memory, kind):  # type: ignore[no-untyped-def]
    """Add a task to the window; return whether the prices are due to be renewed."""
    scalars = placement.scalars
    seen = int(scalars[TASKS])
    row = placement.window[seen % WINDOW]
    row[0], row[1], row[2], row[3] = size, intensity, memory, kind
    scalars[TASKS] += 1.0
    refresh = 4 if seen < _REFRESH else 16 if seen < 3 * _REFRESH else _REFRESH
    return scalars[CRITICAL_RATIO] == 0.0 or seen % refresh == 0


@inner
def critical_ratio_and_typical_time(placement):  # type: ignore[no-untyped-def]
    """Return the worth of an accelerator second and the typical task time."""
    return placement.scalars[CRITICAL_RATIO], placement.scalars[TYPICAL_TIME]


@inner
def may_split(placement):  # type: ignore[no-untyped-def]
    """Return whether durations are known well enough to split a task: all roughly, and one well."""
    deviation, limits = placement.deviation, placement.limits
    return deviation.min() < limits[_UNKNOWN] and deviation.max() < limits[_MAX_SPLIT_DEVIATION]


@inner
def begin_parts(placement, kind, device, share, devices):  # type: ignore[no-untyped-def]
    """Note that the parts of a decision are under way."""
    if share > 0.0:
        placement.pending[devices[device].column, kind] += 1
    if share < 1.0:
        placement.pending[devices[devices[device].cpu].column, kind] += 1


@inner
def await_parts(placement, now, kind, device, share, free_at, devices):  # type: ignore[no-untyped-def]
    """Note start and predicted duration of parts that will be the only ones of their class and kind under way."""
    cpu = devices[device].cpu
    if share < 1.0:
        _await_part(placement, kind, devices[cpu].column, max(now, free_at[cpu]), 1.0 - share)
    if share > 0.0:
        _await_part(placement, kind, devices[device].column, max(now, free_at[device]), share)


@inner
def _await_part(placement, kind, c, start, share):  # type: ignore[no-untyped-def]
    if placement.pending[c, kind] == 0:
        placement.started[c, kind] = start
        placement.expected[c, kind] = math.log(placement.times[c, 1] + share * placement.times[c, 0])


@inner
def _overrun(placement, now, c, kind):  # type: ignore[no-untyped-def]
    """Return by how much a part of a class and kind that still runs exceeds its predicted log seconds."""
    elapsed = now - placement.started[c, kind]
    return max(0.0, math.log(elapsed) - placement.expected[c, kind]) if elapsed > 0.0 else 0.0


@inner
def begin_trial(placement, kind, device, devices):  # type: ignore[no-untyped-def]
    """Note that a task is tried on a device; return its share."""
    placement.deferred_trials[devices[device].column, kind] = 0.0
    placement.scalars[TRIED] += 1.0
    return 0.0 if devices[device].is_cpu == 1 else 1.0


@inner
def choose(  # type: ignore[no-untyped-def]
    state, placement, guard, now, size, intensity, memory, kind, divisible, free_at, earliest_start, devices
):
    """Return (device, share) for one task, and note it in the rule's state.

    It can start at `earliest_start`, later than `free_at` where its data must be moved; prices follow the queues.
    Without queues in `guard` there is no fallback rule.
    """
    log_size = math.log(size)
    scalars, limits = placement.scalars, placement.limits
    rate = _arrival_rate(placement, now, len(devices))
    informed = estimate(state, placement, now, rate, size, intensity, memory, kind)
    if not informed:
        # Not even the unit of time is known: the device that is free first, and accelerators for tasks that are
        # larger than the average so far.
        scalars[LOG_SIZES] += log_size
        if placement.params[ACCELERATORS] > 0.0 and log_size * (scalars[TASKS] + 1.0) >= scalars[LOG_SIZES]:
            for d in range(len(devices)):
                if devices[d].is_cpu == 1:
                    placement.times[devices[d].column, 0] = _UNUSABLE_S
    due = add_task(placement, size, intensity, memory, kind)
    prices = placement.params[FIRST_PRICE:].copy()
    split_fee = 0.0
    if placement.params[ACCELERATORS] > 0.0 and informed:
        if due:
            renew_prices(state, placement, devices)
        split_fee = _set_prices(placement, now, free_at, devices, prices)
    device, share, latency = _best_known_placement(
        placement, now, memory, divisible, earliest_start, devices, prices, split_fee
    )
    if informed:
        # While durations are unknown, pessimism and trials are right, and costs on simulated queues say nothing.
        if len(guard.means) > 0 and placement.deviation.max() < limits[_UNKNOWN]:
            shadow_rules(state, placement, guard, now, log_size, memory, kind, divisible, devices)
            if guard.counters[ACTIVE] == FALLBACK:
                device, share = fallback_placement(placement, now, memory, divisible, earliest_start, devices)
        if divisible and (share == 1.0 or share == 0.0):
            device, share = with_probe(state, placement, now, memory, kind, device, share, earliest_start, devices)
        add_latency(placement, latency)
        if not 0.0 < share < 1.0:
            trial = _device_to_try(state, placement, now, memory, kind, latency, earliest_start, devices)
            if trial >= 0 and trial != device:
                device, share = trial, begin_trial(placement, kind, trial, devices)
    if devices[device].is_cpu == 1:
        share = 0.0
    if informed:
        await_parts(placement, now, kind, device, share, earliest_start, devices)
    begin_parts(placement, kind, device, share, devices)
    return device, share


@inner
def end_part(placement, kind, c, share, seconds):  # type: ignore[no-untyped-def]
    """Note that a part on a class no longer runs."""
    placement.pending[c, kind] = max(0, placement.pending[c, kind] - 1)
    placement.started[c, kind] = np.inf
    if share == 1.0:
        _end_trial(placement, c, kind, seconds)


@inner
def end_parts(placement, kind, device, share, cpu_time, accelerator_time, sides, devices):  # type: ignore[no-untyped-def]
    """Note that the parts of a decision on the given sides no longer run."""
    if share < 1.0 and sides != ACCELERATOR_SIDE:
        end_part(placement, kind, devices[devices[device].cpu].column, 1.0 - share, cpu_time)
    if share > 0.0 and devices[device].is_cpu == 0 and sides != CPU_SIDE:
        end_part(placement, kind, devices[device].column, share, accelerator_time)


@inner
def learn_outcome(  # type: ignore[no-untyped-def]
    state, size, intensity, memory, kind, device, share, cpu_time, accelerator_time, sides, devices
):
    """Learn from the parts of a task that have ended; return whether that detected drift."""
    features = np.empty(FEATURES)
    task_features(size, intensity, memory, features)
    log_size = math.log(size)
    drifted = False
    if 0.0 < cpu_time < np.inf and share < 1.0 and sides != ACCELERATOR_SIDE:
        c = devices[devices[device].cpu].column
        drifted |= learn_part(state, features, c, kind, log_size, intensity, memory, 1.0 - share, cpu_time)
    if 0.0 < accelerator_time < np.inf and share > 0.0 and sides != CPU_SIDE:
        c = devices[device].column
        drifted |= learn_part(state, features, c, kind, log_size, intensity, memory, share, accelerator_time)
    return drifted
