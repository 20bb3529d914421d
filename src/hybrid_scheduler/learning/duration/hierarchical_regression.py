"""Hierarchical Bayesian regression of durations, with one rank-one update for each finished part.

A whole task takes ``exp(g) + link * MB * exp(v)`` seconds on a class of device. The first term is work: ``g`` is
linear in features of the task. The second is the transfer over the declared link, with an efficiency ``v`` per
class. The weights of ``g`` are sums of blocks: one for all devices, one for the device's kind (cpu, gpu, ...), one
for its class, and the same three again for the task's kind. Every block has a Gaussian prior, tighter further down.
A new task kind therefore starts from the average over kinds, and a new class from that over its kind of device.

Where the durations of a class jump at a size, as with caches, the jump is learned (`fit_jump`), and the linear
model learns durations without it. The mean residual of nearby tasks of the same kind then corrects the linear
model, if that has reduced the error so far. On a real machine runs are also disturbed, which makes them longer.
There the lower level of the residuals nearby corrects it, and far from every measured size a duration is uncertain
(`LocalFit`).

A share s of a task takes ``fixed + s * (whole - fixed)`` seconds; ``fixed`` is learned per class from split tasks.
The noise level is learned per class. A cumulative sum per class detects abrupt changes and widens its posterior.

A mean per class and task kind, corrected for size alone, is kept beside the regression, with the errors of both. It
is the estimate of last resort: `trusted_log_seconds` returns it for a class where it errs less.

Other compiled loops use `task_features`, `predict_classes` and `learn_part`. All state is in flat arrays
(`ModelState` in `learner_state.py`), which compiled functions change in place.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inner
from .jump_fit import fit_jump
from .learner_state import (
    ABSOLUTE,
    BEYOND,
    BLOCKS,
    CLASS_MEAN,
    CURVE,
    DOWN,
    ERROR,
    FEATURES,
    INTENSITY,
    JUMP,
    KIND,
    KIND_FEATURES,
    KINDS,
    LEVEL,
    LINEAR_ERROR,
    LINEAR_PRIOR_COUNT,
    LINEAR_SCORED,
    LOG_MEMORY,
    LOG_SECONDS,
    LOG_SIZE,
    LOG_SQUARES,
    LOGS,
    MEAN_ERROR,
    MEMORY,
    MISFIT,
    NARROW_ERROR,
    NOISE,
    NOISE_WEIGHT,
    OUTLIER,
    PER_KIND,
    REACH,
    RECENT,
    RESIDUAL,
    SCORED,
    SHARE,
    SIZE,
    SLOPE,
    SQUARED,
    THRESHOLD,
    TOP,
    UP,
    WIDE_ERROR,
)

#: Logarithm of the size at which the features are centred.
_CENTRE = 7.0
#: Outcomes that are kept after drift, and how often residuals are renewed.
_KEPT, _RENEW = 2, 32
# Columns of `fixed`: cost of a part however small, as seconds and as a share of the whole; then the moments of
# their least squares: unit of time, sums of w, w x, w x², w y, w x y.
_FIXED_SECONDS, _FIXED_SHARE, _UNIT, _W, _WX, _WXX, _WY, _WXY = range(8)

_MIN_NOISE, _MAX_NOISE = 1e-4, 1.0
#: A correction is used if it leaves at most this share of the squared error, and after this many outcomes.
_PAYS, _MIN_SCORED = 0.85, 10.0
#: Change detection: limit of one standardised error, slack, and alarm level.
_CAP, _SLACK, _ALARM = 6.0, 1.0, 8.0
#: The limit for measured kernels, where two disturbed runs in a row are no drift: six outcomes do.
_CAP_MEASURED = 2.5
#: Standard deviations to which the effect of one outcome is limited.
_ROBUST = 4.0
#: Calibration of uncertainty: variances of which errors count, outcomes that the prior is worth, most outcomes, and
#: the largest squared error that counts.
_UNCERTAIN, _MAX_CALIBRATED_VARIANCE, _CALIBRATED_AFTER, _CALIBRATION, _MAX_SQUARE = 0.0625, 9.0, 3.0, 40.0, 9.0
#: Fixed cost of a part, as a share of the whole, that is possible before it is known.
_FIXED_PRIOR = 0.15
#: Variance that each outcome adds to the weights of its class.
_DRIFT = 1e-7
#: Exponent of the size in the means by kind, and the share of the newest outcome in them and in recent errors.
_SIZE_EXPONENT, _NEWEST = 1.3, 0.05
#: The means are trusted if their error is at most this share of the predictions' error, and that is not negligible.
_CLEARLY_LESS, _NEGLIGIBLE = 0.7, 0.1


@inner
def add_kind(state):  # type: ignore[no-untyped-def]
    """Take the next task kind into use and return its number; -1 if there is no space."""
    if state.layout[KINDS] == state.observed.shape[1] - 1:
        return -1
    state.layout[KINDS] += 1
    state.layout[SIZE] += state.layout[PER_KIND]
    return state.layout[KINDS] - 1


# ------------------------------------------------------------------------------------------ prediction


@inner
def task_features(size, intensity, memory, features):  # type: ignore[no-untyped-def]
    """Write the features of a task."""
    u = math.log(size) - _CENTRE
    i = intensity - 0.5
    features[0] = 1.0
    features[1] = u
    features[2] = i
    features[3] = math.log(1.0 + memory) - 5.0
    features[4] = u * u
    features[5] = i * i
    features[6] = math.log(intensity + 0.5)


@inner
def _expand(state, features, c, kind):  # type: ignore[no-untyped-def]
    """Write the coordinates of one class and task kind; return the number of those of work, and of all."""
    kind_base = state.layout[TOP] + kind * state.layout[PER_KIND]
    n = 0
    for level in range(3):
        block = 0 if level == 0 else state.device_kind[c] if level == 1 else state.device_class[c]
        if block >= 0:
            for j in range(FEATURES):
                state.coordinate[n] = block * FEATURES + j
                state.value[n] = features[j]
                n += 1
            if kind >= 0:
                for j in range(KIND_FEATURES):
                    state.coordinate[n] = kind_base + block * KIND_FEATURES + j
                    state.value[n] = features[j]
                    n += 1
    work = n
    state.coordinate[n] = state.layout[BLOCKS] * FEATURES + c
    n += 1
    if kind >= 0:
        state.coordinate[n] = kind_base + state.layout[BLOCKS] * KIND_FEATURES + c
        n += 1
    return work, n


@inner
def _variance(state, n):  # type: ignore[no-untyped-def]
    """Return the variance of the linear form in the scratch arrays."""
    total = 0.0
    for a in range(n):
        row = state.coordinate[a]
        half = 0.5 * state.value[a] * state.covariance[row, row]
        for b in range(a):
            half += state.value[b] * state.covariance[row, state.coordinate[b]]
        total += 2.0 * state.value[a] * half
    return max(total, 0.0)


@inner
def _work_and_transfer(state, n, total, c, memory):  # type: ignore[no-untyped-def]
    """Return the log seconds of work and the seconds on the link, by the scratch arrays."""
    g = 0.0
    for a in range(n):
        g += state.weights[state.coordinate[a]] * state.value[a]
    g = min(max(g, -40.0), 40.0)
    transfer = 0.0
    if state.link[c] > 0.0:
        v = 0.0
        for a in range(n, total):
            v += state.weights[state.coordinate[a]]
        transfer = state.link[c] * memory * math.exp(min(max(v, -9.0), 2.0))
    return g, transfer


@inner
def _weigh(state, n, total, work_share):  # type: ignore[no-untyped-def]
    """Turn the scratch values into the gradient of the log seconds."""
    for a in range(n):
        state.value[a] *= work_share
    for a in range(n, total):
        state.value[a] = 1.0 - work_share


@inner
def _jump_at(stats, u):  # type: ignore[no-untyped-def]
    """Return the jump of a class that lies below a centred log size, and the curve beside it, in log seconds."""
    return stats[JUMP] if u > stats[THRESHOLD] else 0.0, stats[LEVEL] + (stats[SLOPE] + stats[CURVE] * u) * u


@inner
def predicted_seconds(state, features, c, kind, memory):  # type: ignore[no-untyped-def]
    """Return the median seconds of the whole task on a class."""
    n, every = _expand(state, features, c, kind)
    g, transfer = _work_and_transfer(state, n, every, c, memory)
    seconds = math.exp(g) + transfer
    if state.stats[c, JUMP] != 0.0:
        jump, curve = _jump_at(state.stats[c], features[1])
        seconds *= math.exp(jump + curve)
    return seconds


@inner
def _corrections(state, c, kind, log_size, intensity, log_memory):  # type: ignore[no-untyped-def]
    """Return the mean residual of recent tasks of the kind, shrunk towards 0: of nearly equal size, and alike."""
    recent = state.recent[c]
    narrow_sum, narrow_weight, wide_sum, wide_weight = 0.0, 0.0, 0.0, 0.0
    for r in range(min(state.recent_count[c], RECENT)):
        if recent[r, KIND] == kind:
            distance = abs(recent[r, LOG_SIZE] - log_size)
            if distance < 0.4:
                near = max(0.0, 1.0 - distance * 10.0)
                narrow_sum += near * recent[r, RESIDUAL]
                narrow_weight += near
                near = 1.0 - distance * 2.5
                near *= max(0.0, 1.0 - 3.0 * abs(recent[r, INTENSITY] - intensity))
                near *= max(0.0, 1.0 - 0.5 * abs(recent[r, LOG_MEMORY] - log_memory))
                wide_sum += near * recent[r, RESIDUAL]
                wide_weight += near
    return narrow_sum / (narrow_weight + 0.7), wide_sum / (wide_weight + 0.7)


@inner
def _local_correction(state, c, kind, log_size, intensity, variance):  # type: ignore[no-untyped-def]
    """Return the level of the residuals of the kind nearby, shrunk towards 0, and the variance that is left.

    Disturbances make runs longer, never shorter. So the level starts at the smallest residual, and what lies far
    above it counts little. Variance grows with the distance to the nearest outcome: there the model extrapolates.
    """
    local, recent = state.local, state.recent[c]
    level, nearest, total, weighted = np.inf, np.inf, 0.0, 0.0
    count = min(state.recent_count[c], RECENT) if kind >= 0 else 0  # kinds without a number are not alike
    for sweep in range(4):
        total, weighted = 0.0, 0.0
        for r in range(count):
            if recent[r, KIND] == kind:
                distance = abs(recent[r, LOG_SIZE] - log_size)
                nearest = min(nearest, distance)
                near = max(0.0, 1.0 - distance / local[REACH])
                near *= max(0.0, 1.0 - 3.0 * abs(recent[r, INTENSITY] - intensity))
                if near > 0.0:
                    residual = recent[r, RESIDUAL]
                    if sweep == 0:
                        level = min(level, residual)
                    near /= 1.0 + (max(0.0, residual - level) / local[OUTLIER]) ** 2
                    total += near
                    weighted += near * residual
        if total == 0.0:
            break
        if sweep > 0:
            level = weighted / total
    prior_count = local[LINEAR_PRIOR_COUNT]
    variance = (variance + local[MISFIT] ** 2) * prior_count / (total + prior_count)
    if nearest < np.inf:
        variance += (local[BEYOND] * nearest) ** 2
    return weighted / (total + prior_count), variance


@inner
def _error_column(state, c):  # type: ignore[no-untyped-def]
    """Return the column of `stats` with the error of the linear model or of the correction that is used now."""
    best, least = LINEAR_ERROR, _PAYS * state.stats[c, LINEAR_ERROR]
    if state.stats[c, LINEAR_SCORED] >= _MIN_SCORED:
        for column in (NARROW_ERROR, WIDE_ERROR):
            if state.stats[c, column] < least:
                best, least = column, state.stats[c, column]
    return best


@inner
def _calibrated(state, variance):  # type: ignore[no-untyped-def]
    """Return a variance, scaled by how far uncertain predictions have been off so far."""
    return variance * (_CALIBRATED_AFTER + state.calibration[0]) / (_CALIBRATED_AFTER + state.calibration[1])


@inner
def _calibrate(state, error, variance, noise):  # type: ignore[no-untyped-def]
    """Add the error of an uncertain prediction to the calibration."""
    if _UNCERTAIN < variance < _MAX_CALIBRATED_VARIANCE:
        state.calibration[0] += min(error * error / (variance + noise), _MAX_SQUARE)
        state.calibration[1] += 1.0
        if state.calibration[1] > _CALIBRATION:
            state.calibration[:] *= _CALIBRATION / state.calibration[1]


@inner
def predict(state, features, c, kind, log_size, intensity, memory):  # type: ignore[no-untyped-def]
    """Return the mean log seconds of the whole task on a class, and the variance of that mean."""
    n, every = _expand(state, features, c, kind)
    g, transfer = _work_and_transfer(state, n, every, c, memory)
    work = math.exp(g)
    seconds = work + transfer
    _weigh(state, n, every, work / seconds)
    variance = _variance(state, every)
    variance = _calibrated(state, variance)
    mean = math.log(seconds)
    if state.local[MISFIT] > 0.0:
        level, variance = _local_correction(state, c, kind, log_size, intensity, variance)
        return mean + level, variance
    if state.stats[c, JUMP] != 0.0:
        jump, curve = _jump_at(state.stats[c], features[1])
        mean += jump + curve
    column = _error_column(state, c)
    if column != LINEAR_ERROR:
        narrow, wide = _corrections(state, c, kind, log_size, intensity, features[3])
        mean += narrow if column == NARROW_ERROR else wide
    return mean, variance


@inner
def predict_classes(state, size, intensity, memory, kind, mean, deviation, fixed):  # type: ignore[no-untyped-def]
    """Write mean and standard deviation of a task's log seconds and a part's fixed seconds, for every class."""
    features = np.empty(FEATURES)
    task_features(size, intensity, memory, features)
    for c in range(len(mean)):
        mean[c], variance = predict(state, features, c, kind, math.log(size), intensity, memory)
        deviation[c] = math.sqrt(variance)
        fixed[c] = fixed_seconds(state, c, math.exp(mean[c]))


@inner
def _mean_log_seconds(state, c, kind, log_size):  # type: ignore[no-untyped-def]
    """Return the log seconds of a task by the mean of its kind on a class that has been observed."""
    level = state.means[c, kind] if state.observed[c, kind] > 0.0 else state.stats[c, CLASS_MEAN]
    return level + _SIZE_EXPONENT * (log_size - _CENTRE)


@inner
def trusted_log_seconds(state, c, kind, log_size, predicted):  # type: ignore[no-untyped-def]
    """Return the predicted log seconds, or those by the mean of the kind where that has clearly erred less."""
    limit = _CLEARLY_LESS * state.stats[c, ERROR]
    if state.recent_count[c] > 0 and limit > _NEGLIGIBLE and state.stats[c, MEAN_ERROR] < limit:
        return _mean_log_seconds(state, c, kind, log_size)
    return predicted


# ------------------------------------------------------------------------------------------ fixed cost of parts


@inner
def fixed_seconds(state, c, whole):  # type: ignore[no-untyped-def]
    """Return the learned seconds that a part of such a task costs however small it is."""
    return min(state.fixed[c, _FIXED_SECONDS] + state.fixed[c, _FIXED_SHARE] * whole, 0.9 * whole)


@inner
def _whole_seconds(state, c, share, seconds):  # type: ignore[no-untyped-def]
    """Return the seconds of the whole task by those of a part."""
    rest = 1.0 - share
    fixed = min(state.fixed[c, _FIXED_SECONDS] * rest, 0.9 * seconds)
    return (seconds - fixed) / (share + state.fixed[c, _FIXED_SHARE] * rest)


@inner
def _learn_fixed(state, c, share, seconds, whole, uncertainty):  # type: ignore[no-untyped-def]
    """Fit the cost of parts beyond their share, relative to the whole, as a constant plus a / whole."""
    moments = state.fixed[c]
    if moments[_UNIT] == 0.0:
        moments[_UNIT] = whole
    rest = 1.0 - share
    x = min(moments[_UNIT] / whole, 100.0)
    y = min(max((seconds / whole - share) / rest, -0.5), 1.0)
    w = rest * rest * 0.01 / (0.01 + uncertainty)  # a wrong whole says nothing about its parts
    for at in (_W, _WX, _WXX, _WY, _WXY):
        moments[at] *= 0.998
    moments[_W] += w
    moments[_WX] += w * x
    moments[_WXX] += w * x * x
    moments[_WY] += w * y
    moments[_WXY] += w * x * y
    a, b, d = moments[_W] + 2.0, moments[_WX], moments[_WXX] + 2.0
    determinant = a * d - b * b
    constant = (d * moments[_WY] - b * moments[_WXY]) / determinant
    slope = (a * moments[_WXY] - b * moments[_WY]) / determinant
    if slope < 0.0:
        constant, slope = moments[_WY] / a, 0.0
    if constant < 0.0:
        constant, slope = 0.0, max(0.0, moments[_WXY] / d)
    moments[_FIXED_SHARE] = min(max(constant, 0.0), 0.9)
    moments[_FIXED_SECONDS] = slope * moments[_UNIT]


# ------------------------------------------------------------------------------------------ learning


@inner
def condition(state, n, innovation, noise):  # type: ignore[no-untyped-def]
    """Condition the weights on one observation of the linear form in the scratch arrays."""
    size = state.layout[SIZE]
    for row in range(size):
        state.gain[row] = 0.0
    for a in range(n):
        column, value = state.coordinate[a], state.value[a]
        for row in range(size):
            state.gain[row] += state.covariance[column, row] * value
    total = noise
    for a in range(n):
        total += state.value[a] * state.gain[state.coordinate[a]]
    for row in range(size):
        scaled = state.gain[row] / total
        state.weights[row] += scaled * innovation
        if scaled != 0.0:
            for column in range(size):
                state.covariance[row, column] -= scaled * state.gain[column]


@inner
def _own_block(state, c):  # type: ignore[no-untyped-def]
    return state.device_class[c] if state.device_class[c] >= 0 else state.device_kind[c]


@inner
def _renew_residuals(state, c, every):  # type: ignore[no-untyped-def]
    """Compute the residuals of a class's recent outcomes from the present weights, and the size where they jump.

    Without `every` they are stored only if there is such a size.
    """
    recent, stats, count = state.recent[c], state.stats[c], min(state.recent_count[c], RECENT)
    features, u, left = np.empty(FEATURES), np.empty(count), np.empty(count)
    known = stats[JUMP]
    stats[JUMP] = 0.0  # residuals of the linear model alone
    for r in range(count):
        memory = recent[r, MEMORY]
        task_features(math.exp(recent[r, LOG_SIZE]), recent[r, INTENSITY], memory, features)
        seconds = predicted_seconds(state, features, c, int(recent[r, KIND]), memory)
        u[r], left[r] = features[1], recent[r, LOG_SECONDS] - math.log(seconds)
    stats[JUMP] = known
    if state.local[MISFIT] == 0.0:
        fit_jump(u, recent[:count, SHARE], left, stats)
    if every or known != 0.0 or stats[JUMP] != 0.0:
        for r in range(count):
            jump, curve = _jump_at(stats, u[r])
            recent[r, RESIDUAL] = left[r] - (jump + curve)


@inner
def _score(state, c, error, correction, narrow, wide, variance):  # type: ignore[no-untyped-def]
    """Add the error of one prediction to the class's statistics; return whether they detect drift."""
    stats = state.stats[c]
    used = _error_column(state, c)
    corrected = error - correction
    total = variance + stats[NOISE]
    largest = 9.0 * max(total, stats[LINEAR_ERROR])
    blend = max(1.0 / (stats[LINEAR_SCORED] + 1.0), 0.02)
    for column, left in ((LINEAR_ERROR, error), (NARROW_ERROR, error - narrow), (WIDE_ERROR, error - wide)):
        stats[column] += blend * (min(left * left, largest) - stats[column])
    stats[LINEAR_SCORED] += 1.0
    if stats[LINEAR_SCORED] <= _MIN_SCORED:
        return False
    cap = _CAP_MEASURED if state.local[MISFIT] > 0.0 else _CAP
    x = min(max(corrected / max(math.sqrt(variance + stats[used]), 0.05), -cap), cap)
    stats[UP] = max(0.0, stats[UP] + x - _SLACK)
    stats[DOWN] = max(0.0, stats[DOWN] - x - _SLACK)
    return max(stats[UP], stats[DOWN]) > _ALARM


@inner
def _score_prediction(state, c, kind, log_size, log_seconds, error):  # type: ignore[no-untyped-def]
    """Add the errors of a prediction and of the mean of the kind, and then the outcome to that mean."""
    stats = state.stats[c]
    level = log_seconds - _SIZE_EXPONENT * (log_size - _CENTRE)
    blend = max(1.0 / (state.recent_count[c] + 1.0), _NEWEST)
    if state.recent_count[c] > 0:
        by_mean = log_seconds - _mean_log_seconds(state, c, kind, log_size)
        stats[ERROR] += blend * (abs(error) - stats[ERROR])
        stats[MEAN_ERROR] += blend * (abs(by_mean) - stats[MEAN_ERROR])
    stats[CLASS_MEAN] += blend * (level - stats[CLASS_MEAN])
    blend = max(1.0 / (state.observed[c, kind] + 1.0), _NEWEST)
    state.means[c, kind] += blend * (level - state.means[c, kind])
    state.errors[c, kind] += blend * (abs(error) - state.errors[c, kind])
    scores = state.scores
    scores[SCORED] += 1.0
    scores[ABSOLUTE] += abs(error)
    scores[SQUARED] += error * error
    scores[LOGS] += log_seconds
    scores[LOG_SQUARES] += log_seconds * log_seconds


@inner
def _forget_class(state, c):  # type: ignore[no-untyped-def]
    """After drift, widen the posterior of a class and drop all but its newest outcomes.

    Transfers may have changed as well as work: with a link that is thought to be known, a slower device would be
    fitted wrongly for good.
    """
    for j in range(FEATURES):
        at = _own_block(state, c) * FEATURES + j
        state.covariance[at, at] += state.prior_variance[at] * (1.0 if j == 0 else 0.05)
    at = state.layout[BLOCKS] * FEATURES + c
    state.covariance[at, at] += state.prior_variance[at]
    count = state.recent_count[c]
    kept = min(_KEPT, count)
    newest = np.empty((kept, state.recent.shape[2]))
    for r in range(kept):
        newest[r] = state.recent[c, (count - kept + r) % RECENT]
    state.recent[c, :kept] = newest
    state.recent_count[c] = kept
    for column in (
        LINEAR_ERROR,
        NARROW_ERROR,
        WIDE_ERROR,
        LINEAR_SCORED,
        UP,
        DOWN,
        THRESHOLD,
        JUMP,
        LEVEL,
        SLOPE,
        CURVE,
    ):
        state.stats[c, column] = 0.0


@inner
def learn_part(  # type: ignore[no-untyped-def]
    state, features, c, kind, log_size, intensity, memory, share, seconds
):
    """Learn that a share of a task took so many seconds; return whether that detected drift."""
    n, every = _expand(state, features, c, kind)
    g, transfer = _work_and_transfer(state, n, every, c, memory)
    predicted = math.exp(g) + transfer
    jump, curve = _jump_at(state.stats[c], features[1])
    seconds *= math.exp(-jump)
    whole = _whole_seconds(state, c, share, seconds)
    # Until its fixed cost is known, a small part says little about the whole.
    unsure = math.log(1.0 + _FIXED_PRIOR * (1.0 - share) / share) ** 2 * 8.0 / (8.0 + state.recent_count[c])
    noise = state.stats[c, NOISE]
    if transfer > 0.98 * whole:
        # The transfer cannot take longer than the whole: that bounds its efficiency, but for noise.
        excess = math.log(transfer / (0.98 * whole)) - 3.0 * math.sqrt(min(noise, 0.1))
        if excess > 0.0:
            state.weights[state.layout[BLOCKS] * FEATURES + c] -= excess
            transfer *= math.exp(-excess)
    work = max(whole - transfer, 0.1 * whole)
    work_share = work / whole
    innovation = work_share * (math.log(work) - g)
    if transfer > 0.9 * whole:
        innovation += math.log(0.9 * whole / transfer)
    _weigh(state, n, every, work_share)
    variance = _variance(state, every)
    if share < 0.95 and kind >= 0 and state.observed[c, kind] >= 5.0:
        _learn_fixed(state, c, share, seconds, predicted * math.exp(curve), variance + noise)

    spread, local = 0.0, state.local[MISFIT] > 0.0
    if local:
        correction, left = _local_correction(state, c, kind, log_size, intensity, variance)
        spread = left - variance
        narrow, wide = correction, correction
    else:
        narrow, wide = _corrections(state, c, kind, log_size, intensity, features[3])
        used = _error_column(state, c)
        correction = narrow if used == NARROW_ERROR else wide if used == WIDE_ERROR else 0.0
    error = math.log(whole / predicted) - curve
    log_seconds = math.log(whole) + jump
    _calibrate(state, error - correction, variance, noise + unsure + spread)
    _score_prediction(state, c, kind, log_size, log_seconds, error - correction)
    drifted = _score(state, c, error, correction, narrow, wide, variance)
    row = state.recent[c, state.recent_count[c] % RECENT]
    row[LOG_SIZE], row[INTENSITY], row[MEMORY], row[LOG_MEMORY] = log_size, intensity, memory, features[3]
    row[KIND], row[LOG_SECONDS], row[SHARE] = kind, log_seconds, share
    state.recent_count[c] += 1
    if drifted:
        _forget_class(state, c)
        variance = _variance(state, every)

    # The noise level: e² * noise / total has the noise's expectation once that is right.
    total = variance + noise + unsure
    bound = _ROBUST * math.sqrt(total)
    limited = min(max(innovation, -bound), bound)
    if not drifted:
        weight = state.stats[c, NOISE_WEIGHT]
        renewed = noise + (limited * limited * noise / total - noise) / (weight + 1.0)
        state.stats[c, NOISE] = min(max(renewed, _MIN_NOISE), _MAX_NOISE)
        state.stats[c, NOISE_WEIGHT] = min(weight + 1.0, 60.0)
    condition(state, every, limited, noise + unsure)
    for j in range(FEATURES):
        at = _own_block(state, c) * FEATURES + j
        state.covariance[at, at] += _DRIFT
    state.observed[c, kind] += 1.0
    state.outcomes[0] += 1
    count = state.recent_count[c]
    seconds_now = predicted_seconds(state, features, c, kind, memory)
    state.recent[c, (count - 1) % RECENT, RESIDUAL] = log_seconds - math.log(seconds_now)
    due = count % _RENEW == 0 or (count < 64 and count % 8 == 0) or (local and (count < 128 or count % 8 == 0))
    if due or (count < 64 and not local):
        _renew_residuals(state, c, due)
    return drifted
