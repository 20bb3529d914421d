"""Regime of a stream of tasks on a machine, and a policy that sets the coefficients of late binding by it.

The regime is nine features, estimated from the tasks that have come so far: load, spread and skew of the priced
work, burstiness of the arrivals, length of the queue, number of accelerators, and level, spread over tasks and
spread over devices of their speed-up. All are means over about the last 500 tasks, so that they follow a stream
that changes.

A policy is a linear map from the standardised features to the logarithms of twelve multipliers: of the first eleven
coefficients of late binding, and of the boost. Features and logarithms are limited, so that no stream leads far
away from what the policy was trained on. A map of zeros leaves the coefficients as they are.

The state holds, in this order: tasks, newest release, mean gap, mean work, mean square of the work, mean logarithm
of the work, begin of the block of 20 tasks, mean and mean square of the blocks' seconds, mean logarithm of the
speed-up and of its square, mean spread over devices, tasks that started under multipliers, the features, and the
logarithms of the multipliers.
"""

from __future__ import annotations

import math

from .jit_cache import inner

FEATURES = (
    "load", "spread_of_work", "skew_of_work", "burstiness", "queue", "accelerators", "speed_up",
    "spread_of_speed_up", "spread_of_devices",
)  # fmt: skip
#: Numbers that a policy multiplies.
MULTIPLIED = 12
#: Limits of a standardised feature and of the logarithm of a multiplier.
MAX_FEATURE = 2.5
MAX_LOG = 1.5
#: Tasks of the means, of a block of arrivals, and between two updates of the multipliers.
_MEMORY = 500.0
_BLOCK = 20
_EVERY = 10
#: Number of tasks after which the multipliers have half of their strength.
_FEW = 50.0
_MAX_LOAD = 1.5
_TINY = 1e-12
(
    _TASKS, _NEWEST, _GAP, _WORK, _WORK_SQUARE, _LOG_WORK, _BLOCK_BEGIN, _BLOCK_TIME, _BLOCK_SQUARE, _SPEED_UP,
    _SPEED_UP_SQUARE, _DEVICES, STARTED,
) = range(13)  # fmt: skip
FIRST_FEATURE = 13
FIRST_LOG = FIRST_FEATURE + len(FEATURES)
STATE_LENGTH = FIRST_LOG + MULTIPLIED
#: Layout of a policy after the twelve numbers that are multiplied: mean and standard deviation of each feature; for
#: each number a constant and a weight of each feature.
INPUTS = 1 + len(FEATURES)
_MEAN = MULTIPLIED
_DEVIATION = _MEAN + len(FEATURES)
_LINEAR = _DEVIATION + len(FEATURES)


@inner
def note_task(state, release, work, times, devices):  # type: ignore[no-untyped-def]
    """Add a task that was released, with its priced work and its seconds on each column, to the means."""
    state[_TASKS] += 1.0
    tasks = state[_TASKS]
    rate = 1.0 / min(tasks, _MEMORY)
    if tasks == 1.0:
        state[_NEWEST] = release
        state[_BLOCK_BEGIN] = release
    else:
        gap = max(release - state[_NEWEST], 0.0)
        state[_GAP] += (gap - state[_GAP]) / min(tasks - 1.0, _MEMORY)
        state[_NEWEST] = max(release, state[_NEWEST])
        blocks = (int(tasks) - 1) // _BLOCK
        if blocks * _BLOCK == int(tasks) - 1:
            seconds = state[_NEWEST] - state[_BLOCK_BEGIN]
            of_block = 1.0 / min(float(blocks), _MEMORY / _BLOCK)
            state[_BLOCK_TIME] += (seconds - state[_BLOCK_TIME]) * of_block
            state[_BLOCK_SQUARE] += (seconds * seconds - state[_BLOCK_SQUARE]) * of_block
            state[_BLOCK_BEGIN] = state[_NEWEST]
    state[_WORK] += (work - state[_WORK]) * rate
    state[_WORK_SQUARE] += (work * work - state[_WORK_SQUARE]) * rate
    state[_LOG_WORK] += (math.log(work) - state[_LOG_WORK]) * rate
    cpus = 0.0
    accelerators = 0.0
    cpu_seconds = 0.0
    speed = 0.0
    square = 0.0
    for d in range(len(devices)):
        seconds = max(times[devices[d].column, 0] + times[devices[d].column, 1], _TINY)
        if devices[d].is_cpu == 1:
            cpus += 1.0
            cpu_seconds += seconds
        else:
            accelerators += 1.0
            speed += 1.0 / seconds
            square += 1.0 / (seconds * seconds)
    if accelerators > 0.0:
        speed /= accelerators
        log_speed_up = math.log(cpu_seconds / cpus * speed)
        spread = math.sqrt(max(square / accelerators / (speed * speed) - 1.0, 0.0))
        state[_SPEED_UP] += (log_speed_up - state[_SPEED_UP]) * rate
        state[_SPEED_UP_SQUARE] += (log_speed_up * log_speed_up - state[_SPEED_UP_SQUARE]) * rate
        state[_DEVICES] += (spread - state[_DEVICES]) * rate


@inner
def set_features(state, mean_queue, accelerators):  # type: ignore[no-untyped-def]
    """Compute the features from the means; `mean_queue` is the mean priced work that waits."""
    work = max(state[_WORK], 1e-300)
    variance = max(state[_WORK_SQUARE] / (work * work) - 1.0, 1e-4)
    block = max(state[_BLOCK_TIME], _TINY)
    burst = max(state[_BLOCK_SQUARE] / (block * block) - 1.0, 1e-4)
    speed_up = state[_SPEED_UP]
    features = state[FIRST_FEATURE:]
    features[0] = min(work / max(state[_GAP], _TINY * work), _MAX_LOAD)
    features[1] = 0.5 * math.log(variance)
    features[2] = math.log(work) - state[_LOG_WORK]
    features[3] = 0.5 * math.log(burst) if state[_TASKS] > 4 * _BLOCK else -0.5 * math.log(float(_BLOCK))
    features[4] = math.log(1.0 + mean_queue / work)
    features[5] = math.log(max(accelerators, 1.0))
    features[6] = speed_up
    features[7] = math.sqrt(max(state[_SPEED_UP_SQUARE] - speed_up * speed_up, 0.0))
    features[8] = state[_DEVICES]


@inner
def set_multipliers(state, policy):  # type: ignore[no-untyped-def]
    """Compute the logarithms of the multipliers from the features; few tasks say little, and weaken them."""
    confidence = state[_TASKS] / (state[_TASKS] + _FEW)
    for k in range(MULTIPLIED):
        row = _LINEAR + k * INPUTS
        total = policy[row]
        for f in range(len(FEATURES)):
            value = (state[FIRST_FEATURE + f] - policy[_MEAN + f]) / policy[_DEVIATION + f]
            total += policy[row + 1 + f] * min(max(value, -MAX_FEATURE), MAX_FEATURE)
        state[FIRST_LOG + k] = confidence * min(max(total, -MAX_LOG), MAX_LOG)


@inner
def renewal_is_due(state):  # type: ignore[no-untyped-def]
    """Return whether the multipliers are due to be renewed."""
    return (int(state[_TASKS]) - 1) % _EVERY == 0
