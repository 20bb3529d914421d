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

Other compiled loops use `covariates`, `predict` and `learn_part`. All state is in flat arrays
(`ModelState` in `learner_state.py`), which compiled functions change in place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiled.jit_cache import allocating, leaf
from .jump_fit import fit_jump
from .learner_state import FEATURES, KIND_FEATURES, RECENT, RECENT_OUTCOME

#: Logarithm of the size at which the features are centred.
_CENTRE = 7.0
#: Outcomes that are kept after drift, and how often residuals are renewed.
_KEPT = 2
_RENEW = 32
_MIN_NOISE = 1e-4
_MAX_NOISE = 1.0
#: Noise above which the first outcomes are learned again, at which numbers of outcomes (powers of two).
_NOISY = 0.13
_FIRST_RELEARNED = 8
_LAST_RELEARNED = 128
#: Outcomes over which the noise level is learned.
_MAX_NOISE_WEIGHT = 60.0
#: A correction is used if it leaves at most this share of the squared error, and after this many outcomes.
_PAYS = 0.85
_MIN_SCORED = 10.0
#: Change detection: limit of one standardised error, slack, and alarm level.
_CAP = 6.0
_SLACK = 1.0
_ALARM = 8.0
#: The limit for measured kernels, where two disturbed runs in a row are no drift: six outcomes do.
_CAP_MEASURED = 2.5
#: Standard deviations to which the effect of one outcome is limited.
_ROBUST = 4.0
#: Calibration of uncertainty: variances of which errors count, outcomes that the prior is worth, most outcomes, and
#: the largest squared error that counts.
_UNCERTAIN = 0.0625
_MAX_CALIBRATED_VARIANCE = 9.0
_CALIBRATED_AFTER = 3.0
_CALIBRATION = 40.0
_MAX_SQUARE = 9.0
#: Fixed cost of a part, as a share of the whole, that is possible before it is known.
_FIXED_PRIOR = 0.15
#: Variance that each outcome adds to the weights of its class.
_DRIFT = 1e-7
#: Exponent of the size in the means by kind, and the share of the newest outcome in them and in recent errors.
_SIZE_EXPONENT = 1.3
_NEWEST = 0.05
#: The means are trusted if their error is at most this share of the predictions' error, and that is not negligible.
_CLEARLY_LESS = 0.7
_NEGLIGIBLE = 0.1


#: Estimates of the residual of a task: none, and the means of recent ones of nearly equal size, and alike.
_LINEAR, _NARROW, _WIDE = range(3)


class Covariates(NamedTuple):
    """What is known about a task before it runs; its features are in the scratch array of the model."""

    kind: int | np.int64
    log_size: float
    intensity: float
    memory: float


@leaf
def covariates(state, size, intensity, memory, kind):  # type: ignore[no-untyped-def]
    """Return the covariates of a task, and write its features, which stay until those of another task."""
    log_size = math.log(size)
    features = state.features
    u = log_size - _CENTRE
    i = intensity - 0.5
    features[0] = 1.0
    features[1] = u
    features[2] = i
    features[3] = math.log(1.0 + memory) - 5.0
    features[4] = u * u
    features[5] = i * i
    features[6] = math.log(intensity + 0.5)
    return Covariates(np.int64(kind), log_size, intensity, memory)


@leaf
def add_kind(state):  # type: ignore[no-untyped-def]
    """Take the next task kind into use and return its number; -1 if there is no space."""
    layout = state.layout[()]
    if layout.kinds == state.observed.shape[1] - 1:
        return -1
    layout.kinds += 1
    layout.length += layout.per_kind
    return layout.kinds - 1


# ------------------------------------------------------------------------------------------ prediction


@leaf
def _expand(state, c, task):  # type: ignore[no-untyped-def]
    """Write the coordinates of one class and task kind; return the number of those of work, and of all."""
    layout = state.layout[()]
    features = state.features
    kind = task.kind
    kind_base = layout.top + kind * layout.per_kind
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
    state.coordinate[n] = layout.blocks * FEATURES + c
    n += 1
    if kind >= 0:
        state.coordinate[n] = kind_base + layout.blocks * KIND_FEATURES + c
        n += 1
    return work, n


@leaf
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


@leaf
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


@leaf
def _weigh(state, n, total, work_share):  # type: ignore[no-untyped-def]
    """Turn the scratch values into the gradient of the log seconds."""
    for a in range(n):
        state.value[a] *= work_share
    for a in range(n, total):
        state.value[a] = 1.0 - work_share


@leaf
def _jump_at(stats, u):  # type: ignore[no-untyped-def]
    """Return the jump of a class that lies below a centred log size, and the curve beside it, in log seconds."""
    return stats.jump if u > stats.threshold else 0.0, stats.level + (stats.slope + stats.curve * u) * u


@leaf
def predicted_seconds(state, c, task):  # type: ignore[no-untyped-def]
    """Return the median seconds of the whole task on a class."""
    n, every = _expand(state, c, task)
    g, transfer = _work_and_transfer(state, n, every, c, task.memory)
    seconds = math.exp(g) + transfer
    if state.stats[c].jump != 0.0:
        jump, curve = _jump_at(state.stats[c], state.features[1])
        seconds *= math.exp(jump + curve)
    return seconds


@leaf
def _corrections(state, c, task):  # type: ignore[no-untyped-def]
    """Return the mean residual of recent tasks of the kind, shrunk towards 0: of nearly equal size, and alike."""
    recent = state.recent[c]
    narrow_sum = 0.0
    narrow_weight = 0.0
    wide_sum = 0.0
    wide_weight = 0.0
    for r in range(min(state.recent_count[c], RECENT)):
        if recent[r].kind == task.kind:
            distance = abs(recent[r].log_size - task.log_size)
            if distance < 0.4:
                near = max(0.0, 1.0 - distance * 10.0)
                narrow_sum += near * recent[r].residual
                narrow_weight += near
                near = 1.0 - distance * 2.5
                near *= max(0.0, 1.0 - 3.0 * abs(recent[r].intensity - task.intensity))
                near *= max(0.0, 1.0 - 0.5 * abs(recent[r].log_memory - state.features[3]))
                wide_sum += near * recent[r].residual
                wide_weight += near
    return narrow_sum / (narrow_weight + 0.7), wide_sum / (wide_weight + 0.7)


@leaf
def _local_correction(state, c, task, variance):  # type: ignore[no-untyped-def]
    """Return the level of the residuals of the kind nearby, shrunk towards 0, and the variance that is left.

    Disturbances make runs longer, never shorter. So the level starts at the smallest residual, and what lies far
    above it counts little. Variance grows with the distance to the nearest outcome: there the model extrapolates.
    """
    local = state.local
    recent = state.recent[c]
    level = np.inf
    nearest = np.inf
    total = 0.0
    weighted = 0.0
    count = min(state.recent_count[c], RECENT) if task.kind >= 0 else 0  # kinds without a number are not alike
    for sweep in range(4):
        total = 0.0
        weighted = 0.0
        for r in range(count):
            if recent[r].kind == task.kind:
                distance = abs(recent[r].log_size - task.log_size)
                nearest = min(nearest, distance)
                near = max(0.0, 1.0 - distance / local.reach)
                near *= max(0.0, 1.0 - 3.0 * abs(recent[r].intensity - task.intensity))
                if near > 0.0:
                    residual = recent[r].residual
                    if sweep == 0:
                        level = min(level, residual)
                    near /= 1.0 + (max(0.0, residual - level) / local.outlier) ** 2
                    total += near
                    weighted += near * residual
        if total == 0.0:
            break
        if sweep > 0:
            level = weighted / total
    prior_count = local.prior_count
    variance = (variance + local.misfit**2) * prior_count / (total + prior_count)
    if nearest < np.inf:
        variance += (local.beyond * nearest) ** 2
    return weighted / (total + prior_count), variance


@leaf
def _best_correction(stats):  # type: ignore[no-untyped-def]
    """Return the correction of the linear model that is used now."""
    best = _LINEAR
    least = _PAYS * stats.linear_error
    if stats.scored >= _MIN_SCORED:
        if stats.narrow_error < least:
            best = _NARROW
            least = stats.narrow_error
        if stats.wide_error < least:
            best = _WIDE
    return best


@leaf
def _calibrated(state, variance):  # type: ignore[no-untyped-def]
    """Return a variance, scaled by how far uncertain predictions have been off so far."""
    calibration = state.calibration[()]
    return variance * (_CALIBRATED_AFTER + calibration.squares) / (_CALIBRATED_AFTER + calibration.count)


@leaf
def _calibrate(state, error, variance, noise):  # type: ignore[no-untyped-def]
    """Add the error of an uncertain prediction to the calibration."""
    if _UNCERTAIN < variance < _MAX_CALIBRATED_VARIANCE:
        calibration = state.calibration[()]
        calibration.squares += min(error * error / (variance + noise), _MAX_SQUARE)
        calibration.count += 1.0
        if calibration.count > _CALIBRATION:
            factor = _CALIBRATION / calibration.count
            calibration.squares *= factor
            calibration.count *= factor


@leaf
def predict(state, c, task):  # type: ignore[no-untyped-def]
    """Return the mean log seconds of the whole task on a class, and the variance of that mean."""
    n, every = _expand(state, c, task)
    g, transfer = _work_and_transfer(state, n, every, c, task.memory)
    work = math.exp(g)
    seconds = work + transfer
    _weigh(state, n, every, work / seconds)
    variance = _variance(state, every)
    variance = _calibrated(state, variance)
    mean = math.log(seconds)
    if state.local.misfit > 0.0:
        level, variance = _local_correction(state, c, task, variance)
        return mean + level, variance
    if state.stats[c].jump != 0.0:
        jump, curve = _jump_at(state.stats[c], state.features[1])
        mean += jump + curve
    used = _best_correction(state.stats[c])
    if used != _LINEAR:
        narrow, wide = _corrections(state, c, task)
        mean += narrow if used == _NARROW else wide
    return mean, variance


@leaf
def _mean_log_seconds(state, c, kind, log_size):  # type: ignore[no-untyped-def]
    """Return the log seconds of a task by the mean of its kind on a class that has been observed."""
    level = state.means[c, kind] if state.observed[c, kind] > 0.0 else state.stats[c].class_mean
    return level + _SIZE_EXPONENT * (log_size - _CENTRE)


@leaf
def trusted_log_seconds(state, c, kind, log_size, predicted):  # type: ignore[no-untyped-def]
    """Return the predicted log seconds, or those by the mean of the kind where that has clearly erred less."""
    limit = _CLEARLY_LESS * state.stats[c].error
    if state.recent_count[c] > 0 and limit > _NEGLIGIBLE and state.stats[c].mean_error < limit:
        return _mean_log_seconds(state, c, kind, log_size)
    return predicted


# ------------------------------------------------------------------------------------------ fixed cost of parts


@leaf
def fixed_seconds(state, c, whole):  # type: ignore[no-untyped-def]
    """Return the learned seconds that a part of such a task costs however small it is."""
    return min(state.fixed[c].seconds + state.fixed[c].share * whole, 0.9 * whole)


@leaf
def _whole_seconds(state, c, share, seconds):  # type: ignore[no-untyped-def]
    """Return the seconds of the whole task by those of a part."""
    rest = 1.0 - share
    fixed = min(state.fixed[c].seconds * rest, 0.9 * seconds)
    return (seconds - fixed) / (share + state.fixed[c].share * rest)


@leaf
def _learn_fixed(state, c, share, seconds, whole, uncertainty):  # type: ignore[no-untyped-def]
    """Fit the cost of parts beyond their share, relative to the whole, as a constant plus a / whole."""
    moments = state.fixed[c]
    if moments.unit == 0.0:
        moments.unit = whole
    rest = 1.0 - share
    x = min(moments.unit / whole, 100.0)
    y = min(max((seconds / whole - share) / rest, -0.5), 1.0)
    w = rest * rest * 0.01 / (0.01 + uncertainty)  # a wrong whole says nothing about its parts
    moments.w = 0.998 * moments.w + w
    moments.wx = 0.998 * moments.wx + w * x
    moments.wxx = 0.998 * moments.wxx + w * x * x
    moments.wy = 0.998 * moments.wy + w * y
    moments.wxy = 0.998 * moments.wxy + w * x * y
    a = moments.w + 2.0
    b = moments.wx
    d = moments.wxx + 2.0
    determinant = a * d - b * b
    constant = (d * moments.wy - b * moments.wxy) / determinant
    slope = (a * moments.wxy - b * moments.wy) / determinant
    if slope < 0.0:
        constant = moments.wy / a
        slope = 0.0
    if constant < 0.0:
        constant = 0.0
        slope = max(0.0, moments.wxy / d)
    moments.share = min(max(constant, 0.0), 0.9)
    moments.seconds = slope * moments.unit


# ------------------------------------------------------------------------------------------ learning


@leaf
def condition(state, n, innovation, noise):  # type: ignore[no-untyped-def]
    """Condition the weights on one observation of the linear form in the scratch arrays."""
    size = state.layout[()].length
    for row in range(size):
        state.gain[row] = 0.0
    for a in range(n):
        column = state.coordinate[a]
        value = state.value[a]
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


@leaf
def _own_block(state, c):  # type: ignore[no-untyped-def]
    return state.device_class[c] if state.device_class[c] >= 0 else state.device_kind[c]


@allocating
def _renew_residuals(state, c, every):  # type: ignore[no-untyped-def]
    """Compute the residuals of a class's recent outcomes from the present weights, and the size where they jump.

    Without `every` they are stored only if there is such a size.
    """
    recent = state.recent[c]
    stats = state.stats[c]
    count = min(state.recent_count[c], RECENT)
    u = np.empty(count)
    share = np.empty(count)
    left = np.empty(count)
    known = stats.jump
    stats.jump = 0.0  # residuals of the linear model alone
    for r in range(count):
        outcome = recent[r]
        task = covariates(state, math.exp(outcome.log_size), outcome.intensity, outcome.memory, outcome.kind)
        u[r] = state.features[1]
        share[r] = outcome.share
        left[r] = outcome.log_seconds - math.log(predicted_seconds(state, c, task))
    stats.jump = known
    if state.local.misfit == 0.0:
        fit_jump(u, share, left, stats)
    if every or known != 0.0 or stats.jump != 0.0:
        for r in range(count):
            jump, curve = _jump_at(stats, u[r])
            recent[r].residual = left[r] - (jump + curve)


@leaf
def _renew_if_due(state, c):  # type: ignore[no-untyped-def]
    """Renew the residuals of a class every few outcomes, more often among the first ones."""
    count = state.recent_count[c]
    local = state.local.misfit > 0.0
    due = count % _RENEW == 0 or (count < 64 and count % 8 == 0) or (local and (count < 128 or count % 8 == 0))
    if due or (count < 64 and not local):
        _renew_residuals(state, c, due)


@leaf
def _score(state, c, error, correction, narrow, wide, variance):  # type: ignore[no-untyped-def]
    """Add the error of one prediction to the class's statistics; return whether they detect drift."""
    stats = state.stats[c]
    used = _best_correction(stats)
    largest = 9.0 * max(variance + stats.noise, stats.linear_error)
    blend = max(1.0 / (stats.scored + 1.0), 0.02)
    stats.linear_error += blend * (min(error**2, largest) - stats.linear_error)
    stats.narrow_error += blend * (min((error - narrow) ** 2, largest) - stats.narrow_error)
    stats.wide_error += blend * (min((error - wide) ** 2, largest) - stats.wide_error)
    stats.scored += 1.0
    if stats.scored <= _MIN_SCORED:
        return False
    usual = stats.narrow_error if used == _NARROW else stats.wide_error if used == _WIDE else stats.linear_error
    cap = _CAP_MEASURED if state.local.misfit > 0.0 else _CAP
    x = min(max((error - correction) / max(math.sqrt(variance + usual), 0.05), -cap), cap)
    stats.up = max(0.0, stats.up + x - _SLACK)
    stats.down = max(0.0, stats.down - x - _SLACK)
    return max(stats.up, stats.down) > _ALARM


@leaf
def _score_prediction(state, c, task, log_seconds, error):  # type: ignore[no-untyped-def]
    """Add the errors of a prediction and of the mean of the kind, and then the outcome to that mean."""
    stats = state.stats[c]
    kind = task.kind
    level = log_seconds - _SIZE_EXPONENT * (task.log_size - _CENTRE)
    blend = max(1.0 / (state.recent_count[c] + 1.0), _NEWEST)
    if state.recent_count[c] > 0:
        by_mean = log_seconds - _mean_log_seconds(state, c, kind, task.log_size)
        stats.error += blend * (abs(error) - stats.error)
        stats.mean_error += blend * (abs(by_mean) - stats.mean_error)
    stats.class_mean += blend * (level - stats.class_mean)
    blend = max(1.0 / (state.observed[c, kind] + 1.0), _NEWEST)
    state.means[c, kind] += blend * (level - state.means[c, kind])
    state.errors[c, kind] += blend * (abs(error) - state.errors[c, kind])
    scores = state.scores[()]
    scores.count += 1.0
    scores.absolute += abs(error)
    scores.squared += error * error
    scores.logs += log_seconds
    scores.log_squares += log_seconds * log_seconds


@allocating
def _forget_class(state, c):  # type: ignore[no-untyped-def]
    """After drift, widen the posterior of a class and drop all but its newest outcomes.

    Transfers may have changed as well as work: with a link that is thought to be known, a slower device would be
    fitted wrongly for good.
    """
    for j in range(FEATURES):
        at = _own_block(state, c) * FEATURES + j
        state.covariance[at, at] += state.prior_variance[at] * (1.0 if j == 0 else 0.05)
    at = state.layout[()].blocks * FEATURES + c
    state.covariance[at, at] += state.prior_variance[at]
    count = state.recent_count[c]
    kept = min(_KEPT, count)
    newest = np.empty(kept, RECENT_OUTCOME)
    for r in range(kept):
        newest[r] = state.recent[c, (count - kept + r) % RECENT]
    state.recent[c, :kept] = newest
    state.recent_count[c] = kept
    stats = state.stats[c]
    stats.linear_error = stats.narrow_error = stats.wide_error = stats.scored = 0.0
    stats.up = stats.down = 0.0
    stats.threshold = stats.jump = stats.level = stats.slope = stats.curve = 0.0


@leaf
def _work_and_innovation(state, c, g, transfer, whole):  # type: ignore[no-untyped-def]
    """Return the share of work in a whole task's seconds, and by how many log seconds work was off."""
    if transfer > 0.98 * whole:
        # The transfer cannot take longer than the whole: that bounds its efficiency, but for noise.
        excess = math.log(transfer / (0.98 * whole)) - 3.0 * math.sqrt(min(state.stats[c].noise, 0.1))
        if excess > 0.0:
            state.weights[state.layout[()].blocks * FEATURES + c] -= excess
            transfer *= math.exp(-excess)
    work = max(whole - transfer, 0.1 * whole)
    work_share = work / whole
    innovation = work_share * (math.log(work) - g)
    if transfer > 0.9 * whole:
        innovation += math.log(0.9 * whole / transfer)
    return work_share, innovation


@leaf
def _remember(state, c, task, log_seconds, share):  # type: ignore[no-untyped-def]
    """Add an outcome to the recent ones of its class, without its residual."""
    row = state.recent[c, state.recent_count[c] % RECENT]
    row.log_size = task.log_size
    row.intensity = task.intensity
    row.memory = task.memory
    row.log_memory = state.features[3]
    row.kind = task.kind
    row.log_seconds = log_seconds
    row.share = share
    state.recent_count[c] += 1


@leaf
def _learn_noise(stats, limited, total):  # type: ignore[no-untyped-def]
    """Learn the noise level: e² * noise / total has the noise's expectation once that is right."""
    weight = stats.noise_weight
    noise = stats.noise
    renewed = noise + (limited * limited * noise / total - noise) / (weight + 1.0)
    stats.noise = min(max(renewed, _MIN_NOISE), _MAX_NOISE)
    stats.noise_weight = min(weight + 1.0, _MAX_NOISE_WEIGHT)


@leaf
def _widen(state, n, factor):  # type: ignore[no-untyped-def]
    """Widen the posterior of the weights in the scratch arrays, up to their prior.

    Outcomes count by the noise that is known when they come. Where there turns out to be more of it, the first
    ones have counted too much, and without this no later one would correct them.
    """
    for a in range(n):
        at = state.coordinate[a]
        scale = math.sqrt(min(factor, state.prior_variance[at] / state.covariance[at, at]))
        if scale > 1.0:
            for other in range(state.layout[()].length):
                state.covariance[at, other] *= scale
                state.covariance[other, at] *= scale


@leaf
def _limited(innovation, total):  # type: ignore[no-untyped-def]
    """Return an innovation within a few standard deviations: an outlier must not move the weights far."""
    bound = _ROBUST * math.sqrt(total)
    return min(max(innovation, -bound), bound)


@leaf
def _part_variance(share, outcomes):  # type: ignore[no-untyped-def]
    """Return the variance of the log seconds of a whole that are computed from those of a part."""
    return math.log(1.0 + _FIXED_PRIOR * (1.0 - share) / share) ** 2 * 8.0 / (8.0 + outcomes)


@leaf
def _is_noisier_than_assumed(state):  # type: ignore[no-untyped-def]
    """Return whether the first outcomes are to be learned again, a few times while there are few."""
    outcomes = state.outcomes[0]
    if outcomes < _FIRST_RELEARNED or outcomes > _LAST_RELEARNED or outcomes & (outcomes - 1) != 0:
        return False
    noise = 0.0
    for c in range(len(state.stats)):
        noise = max(noise, state.stats[c].noise)
    return noise > _NOISY and state.local.misfit == 0.0


@leaf
def _relearn(state):  # type: ignore[no-untyped-def]
    """Start from the prior and learn the kept outcomes again, with the noise that is known by now.

    The first outcomes count as nearly exact until noise has been seen. They then outweigh the prior, which a wider
    covariance does not bring back.
    """
    size = len(state.weights)
    for row in range(size):
        state.weights[row] = state.prior_weights[row]
        for column in range(size):
            state.covariance[row, column] = 0.0
        state.covariance[row, row] = state.prior_variance[row]
    for c in range(len(state.recent_count)):
        noise = state.stats[c].noise
        for r in range(min(state.recent_count[c], RECENT)):
            outcome = state.recent[c, r]
            task = covariates(state, math.exp(outcome.log_size), outcome.intensity, outcome.memory, outcome.kind)
            n, every = _expand(state, c, task)
            g, transfer = _work_and_transfer(state, n, every, c, task.memory)
            jump, _ = _jump_at(state.stats[c], state.features[1])
            whole = math.exp(outcome.log_seconds - jump)
            work_share, innovation = _work_and_innovation(state, c, g, transfer, whole)
            _weigh(state, n, every, work_share)
            unsure = _part_variance(outcome.share, r)
            limited = _limited(innovation, _variance(state, every) + noise + unsure)
            condition(state, every, limited, noise + unsure)
    for c in range(len(state.recent_count)):
        _renew_residuals(state, c, True)


@leaf
def learn_part(state, c, task, share, seconds):  # type: ignore[no-untyped-def]
    """Learn that a share of a task took so many seconds; return whether that detected drift."""
    kind = task.kind
    stats = state.stats[c]
    n, every = _expand(state, c, task)
    g, transfer = _work_and_transfer(state, n, every, c, task.memory)
    predicted = math.exp(g) + transfer
    jump, curve = _jump_at(stats, state.features[1])
    seconds *= math.exp(-jump)
    whole = _whole_seconds(state, c, share, seconds)
    # Until its fixed cost is known, a small part says little about the whole.
    unsure = _part_variance(share, state.recent_count[c])
    noise = stats.noise
    work_share, innovation = _work_and_innovation(state, c, g, transfer, whole)
    _weigh(state, n, every, work_share)
    variance = _variance(state, every)
    if share < 0.95 and kind >= 0 and state.observed[c, kind] >= 5.0:
        _learn_fixed(state, c, share, seconds, predicted * math.exp(curve), variance + noise)

    spread = 0.0
    if state.local.misfit > 0.0:
        correction, left = _local_correction(state, c, task, variance)
        spread = left - variance
        narrow = correction
        wide = correction
    else:
        narrow, wide = _corrections(state, c, task)
        used = _best_correction(stats)
        correction = narrow if used == _NARROW else wide if used == _WIDE else 0.0
    error = math.log(whole / predicted) - curve
    log_seconds = math.log(whole) + jump
    _calibrate(state, error - correction, variance, noise + unsure + spread)
    _score_prediction(state, c, task, log_seconds, error - correction)
    drifted = _score(state, c, error, correction, narrow, wide, variance)
    _remember(state, c, task, log_seconds, share)
    if drifted:
        _forget_class(state, c)
        variance = _variance(state, every)

    total = variance + noise + unsure
    limited = _limited(innovation, total)
    if not drifted:
        _learn_noise(stats, limited, total)
        if stats.noise > noise and stats.noise_weight < _MAX_NOISE_WEIGHT and state.local.misfit == 0.0:
            _widen(state, every, stats.noise / noise)
    condition(state, every, limited, noise + unsure)
    for j in range(FEATURES):
        at = _own_block(state, c) * FEATURES + j
        state.covariance[at, at] += _DRIFT
    state.observed[c, kind] += 1.0
    state.outcomes[0] += 1
    newest = state.recent[c, (state.recent_count[c] - 1) % RECENT]
    newest.residual = log_seconds - math.log(predicted_seconds(state, c, task))
    if _is_noisier_than_assumed(state):
        _relearn(state)
    _renew_if_due(state, c)
    return drifted
