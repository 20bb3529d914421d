"""State of the duration learner: arrays of the regression and of the placement rule, with their priors and checks.

`hierarchical_regression.py` and `learned_placement.py` compute with these arrays and change them in place.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ...compiled import DEVICE, PRICE_COEFFICIENTS
from ...compiled.device_prices import FIRST_PRICE, LATENCY_WEIGHT
from ...core import Floats, Ints, Platform

#: Features of a task: 1, u, i, m, u², i², log(intensity + 0.5), where u is the log size, i the intensity and m the
#: log memory, all centred. Blocks of task kinds use the first five.
FEATURES = 7
KIND_FEATURES = 5
#: Outcomes per class that corrections look back on.
RECENT = 512
#: Most task kinds with blocks of their own; further ones share the blocks of all kinds.
MAX_KINDS = 64


def _record(names: str, number: type = np.float64) -> np.dtype[Any]:
    """Return the type of a record of numbers, by which compiled code names them."""
    return np.dtype([(name, number) for name in names.split()], align=True)


#: Coordinates and task kinds in use, blocks, first coordinate of task kinds, their length, whether a prior says
#: what a unit of work takes.
_LAYOUT = _record("length kinds blocks top per_kind informed", np.int64)
#: Statistics of a class: mean squared error of the linear model, with the narrow and with the wide correction;
#: outcomes in these; noise variance and its weight; cumulative sums of errors up and down; recent mean absolute log
#: error of the predictions and of the means by kind; the mean over all kinds. Then the jump of the durations at a
#: size, zeros where there is none: the log size, centred; by how many log seconds they are longer above it; the
#: coefficients of 1, u and u² in the smooth curve that corrects the linear model beside it.
_STATS = _record(
    "linear_error narrow_error wide_error scored noise noise_weight up down error mean_error class_mean "
    "threshold jump level slope curve"
)
#: Over the outcomes since the last version: their number, sums of absolute and squared log errors, and of log
#: seconds and their squares.
_SCORES = _record("count absolute squared logs log_squares")
#: An outcome: log size, intensity, MB, the feature of log memory, task kind, log seconds of the whole task,
#: residual, the share of the task that ran.
RECENT_OUTCOME = _record("log_size intensity memory log_memory kind log_seconds residual share")
#: Cost of a part however small, as seconds and as a share of the whole; then the moments of their least squares:
#: unit of time, sums of w, w x, w x², w y, w x y.
_FIXED = _record("seconds share unit w wx wxx wy wxy")
#: Squared standardised errors of uncertain predictions: their sum and number.
_CALIBRATION = _record("squares count")
# Prior of the weights by level: means, and standard deviations around them.
#                     1     u    i     m     u²    i²   log
_MEAN = np.array([-2.0, 1.3, 0.0, 0.0, 0.0, 0.0, 0.0])
_CPU_MEAN = np.array([0.3, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
_ALL_DEVICES = np.array([8.0, 0.7, 0.7, 0.2, 0.05, 0.7, 0.7])
_DEVICE_KIND = np.array([1.0, 0.1, 0.35, 0.05, 0.015, 0.25, 0.25])
_DEVICE_CLASS = np.array([0.8, 0.06, 0.25, 0.03, 0.012, 0.2, 0.2])
_TASK_KIND = np.array([0.7, 0.3, 0.2, 0.06, 0.06])
_TASK_KIND_ON_DEVICE_KIND = np.array([1.2, 0.3, 0.3, 0.1, 0.1])
_TASK_KIND_ON_CLASS = np.array([0.54, 0.108, 0.108, 0.054, 0.0216])
_TRANSFER = 0.65
_TASK_KIND_TRANSFER = 0.5
_FIRST_NOISE = 0.18
_FIRST_NOISE_WEIGHT = 2.4
#: Spread of the first task kind, relative to that of others: it stands for all as long as there is no other.
_FIRST_KIND = 0.3

#: Limits on numbers in stored arrays of the regression, of the rule and of jumps.
_HUGE = 1e15
_HUGE_NUMBER = 1e100
_HUGE_JUMP = 1e3
#: Place of the first statistic of a class that describes its jump.
_FIRST_OF_JUMP = 11
#: Standard deviation of log seconds of a class that was learned from another model's predictions.
_PREDICTED = 0.1
#: Tasks over which the price of accelerator seconds is computed.
WINDOW = 1024

# ------------------------------------------------------------------------------------------ the regression


class LocalFit(NamedTuple):
    """Correction of the linear model by outcomes of about the same size, which is robust to outliers."""

    #: Standard deviation of log seconds around the linear model far from every measurement; 0 for no correction.
    misfit: float = 0.0
    #: Difference of log sizes from which two outcomes say nothing about each other.
    reach: float = 1.0
    #: Number of outcomes that the linear model counts as.
    prior_count: float = 0.25
    #: Log seconds above the level nearby at which an outcome counts half, because something may have disturbed it.
    outlier: float = 0.35
    #: Standard deviation of log seconds, per unit of log size between a task and the nearest outcome.
    beyond: float = 1.0


class ModelState(NamedTuple):
    """Arrays of one model; `layout` says how many coordinates and task kinds are in use."""

    layout: NDArray[Any]  # a record
    outcomes: Ints  # finished parts so far
    weights: Floats
    covariance: Floats
    prior_weights: Floats
    prior_variance: Floats
    device_kind: Ints  # block of each class's kind of device
    device_class: Ints  # block of each class; -1 where it is the only one of its kind of device
    link: Floats  # seconds per MB, by class
    stats: NDArray[Any]  # a record for each class
    fixed: NDArray[Any]  # a record for each class
    recent: NDArray[Any]  # last outcomes of each class
    recent_count: Ints
    observed: Floats  # outcomes by class and task kind
    means: Floats  # mean log seconds at the centre of the sizes, by class and task kind
    errors: Floats  # recent mean absolute log error of predictions, by class and task kind
    scores: NDArray[Any]  # a record
    calibration: NDArray[Any]  # a record
    local: LocalFit
    features: Floats  # scratch: those of a task
    coordinate: Ints  # scratch: coordinates of the last features
    value: Floats  # scratch: their values
    gain: Floats  # scratch


def _record_array(dtype: np.dtype[Any], dimensions: int) -> types.Array:
    return types.Array(from_dtype(dtype), dimensions, "C")


#: Type of `ModelState.recent`.
RECENT_OUTCOMES = _record_array(RECENT_OUTCOME, 2)
_V = types.float64[::1]
_M = types.float64[:, ::1]
_I = types.int64[::1]
STATE = types.NamedTuple(
    (
        _record_array(_LAYOUT, 0), _I, _V, _M, _V, _V, _I, _I, _V, _record_array(_STATS, 1),
        _record_array(_FIXED, 1), RECENT_OUTCOMES, _I, _M, _M, _M, _record_array(_SCORES, 0),
        _record_array(_CALIBRATION, 0), types.NamedUniTuple(types.float64, 5, LocalFit), _V, _I, _V, _V,
    ),
    ModelState,
)  # fmt: skip


def as_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as files have it: with the fields of its records, if it has any, as last dimension."""
    return array if array.dtype.names is None else array[..., None].view(array.dtype[0])


class DurationPrior(NamedTuple):
    """Prior of the weights, learned on other machines: means and standard deviations.

    Kinds of device that are not in it, and task kinds, have the general prior.
    """

    all_devices: Floats  # rows: mean, deviation
    device_kinds: dict[str, Floats]
    device_class: Floats  # deviation
    transfer: Floats  # mean, deviation


#: The correction for kernels that are measured on a real machine.
MEASURED_FIT = LocalFit(misfit=0.3)


def new_state(
    platform: Platform,
    kinds: int = 1,
    prior: DurationPrior | None = None,
    local: LocalFit | None = None,
) -> ModelState:
    """Return a model that has seen nothing.

    Parameters
    ----------
    platform
        Devices; durations are learned per class.
    kinds
        Number of task kinds to make space for.
    prior
        Weights learned on other machines.
    local
        Correction by outcomes of about the same size; none if left out.
    """
    classes = platform.classes
    blocks = _block_layout(platform)
    weights, deviation = _prior_weights(blocks, len(classes), kinds, prior)
    layout = np.array((blocks.top, 0, blocks.num_blocks, blocks.top, blocks.per_kind, prior is not None), _LAYOUT)
    stats = np.zeros(len(classes), _STATS)
    stats["noise"] = _FIRST_NOISE**2
    stats["noise_weight"] = _FIRST_NOISE_WEIGHT
    max_features = 3 * (FEATURES + KIND_FEATURES) + 2
    return ModelState(
        layout=layout,
        outcomes=np.zeros(1, np.int64),
        weights=weights,
        covariance=np.diag(deviation**2),
        prior_weights=weights.copy(),
        prior_variance=deviation**2,
        device_kind=np.array([1 + kind for kind in blocks.kind_of], np.int64),
        device_class=blocks.device_class,
        link=np.array([0.0 if d.is_cpu or math.isinf(d.bandwidth) else 1.0 / d.bandwidth for d in classes]),
        stats=stats,
        fixed=np.zeros(len(classes), _FIXED),
        recent=np.zeros((len(classes), RECENT), RECENT_OUTCOME),
        recent_count=np.zeros(len(classes), np.int64),
        observed=np.zeros((len(classes), kinds + 1)),
        means=np.zeros((len(classes), kinds + 1)),
        errors=np.zeros((len(classes), kinds + 1)),
        scores=np.zeros((), _SCORES),
        calibration=np.zeros((), _CALIBRATION),
        local=LocalFit(*map(float, local or LocalFit())),
        features=np.zeros(FEATURES),
        coordinate=np.zeros(max_features, np.int64),
        value=np.zeros(max_features),
        gain=np.zeros(len(weights)),
    )


class _Blocks(NamedTuple):
    """Blocks of weights: all devices, each kind of device, and each class that is not the only one of its kind."""

    device_kinds: list[str]
    kind_of: list[int]  # kind of each class
    siblings: list[int]  # classes of each kind
    device_class: Ints  # block of each class; -1 where it is the only one of its kind
    num_blocks: int
    top: int  # first coordinate of task kinds
    per_kind: int  # coordinates of a task kind


def _block_layout(platform: Platform) -> _Blocks:
    classes = platform.classes
    names = list(dict.fromkeys(device.kind for device in classes))
    kind_of = [names.index(device.kind) for device in classes]
    siblings = [kind_of.count(kind) for kind in range(len(names))]
    device_class = np.full(len(classes), -1, np.int64)
    count = 1 + len(names)
    for c, kind in enumerate(kind_of):
        if siblings[kind] > 1:
            device_class[c] = count
            count += 1
    top = count * FEATURES + len(classes)
    per_kind = count * KIND_FEATURES + len(classes)
    return _Blocks(names, kind_of, siblings, device_class, count, top, per_kind)


def _prior_weights(layout: _Blocks, classes: int, kinds: int, prior: DurationPrior | None) -> tuple[Floats, Floats]:
    """Return means and standard deviations of the weights before the first outcome."""
    names = layout.device_kinds
    siblings = layout.siblings
    blocks = layout.num_blocks
    top = layout.top
    per_kind = layout.per_kind
    size = top + kinds * per_kind
    weights = np.zeros(size)
    deviation = np.zeros(size)
    weights[:FEATURES] = _MEAN if prior is None else prior.all_devices[0]
    all_devices = _ALL_DEVICES
    device_class_spread = _DEVICE_CLASS
    if prior is not None:
        all_devices = prior.all_devices[1]
        device_class_spread = prior.device_class
    for block in range(blocks):
        own = deviation[block * FEATURES : (block + 1) * FEATURES]
        if block == 0:
            own[:] = all_devices
            by_kind = _TASK_KIND
        elif block > len(names):
            own[:] = device_class_spread
            by_kind = _TASK_KIND_ON_CLASS
        else:
            own[:] = _DEVICE_KIND
            by_kind = _TASK_KIND_ON_DEVICE_KIND
            mean = weights[block * FEATURES : (block + 1) * FEATURES]
            if prior is not None and names[block - 1] in prior.device_kinds:
                mean[:], own[:] = prior.device_kinds[names[block - 1]]
            elif names[block - 1] == "cpu":
                mean[:] = _CPU_MEAN
            if siblings[block - 1] == 1:  # its only class has no block of its own
                own[:] = np.hypot(own, device_class_spread)
                by_kind = np.hypot(by_kind, _TASK_KIND_ON_CLASS)
        for kind in range(kinds):
            at = top + kind * per_kind + block * KIND_FEATURES
            deviation[at : at + KIND_FEATURES] = (_FIRST_KIND if kind == 0 else 1.0) * by_kind
    deviation[blocks * FEATURES : top] = _TRANSFER if prior is None else prior.transfer[1]
    weights[blocks * FEATURES : top] = 0.0 if prior is None else prior.transfer[0]
    for kind in range(kinds):
        at = top + kind * per_kind + blocks * KIND_FEATURES
        deviation[at : at + classes] = _TASK_KIND_TRANSFER
    return weights, deviation


def resize_model(
    state: ModelState, platform: Platform, kinds: int, prior: DurationPrior | None = None
) -> ModelState:
    """Return the same model with space for more task kinds."""
    wider = new_state(platform, kinds, prior, state.local)
    size = len(state.weights)
    wider.weights[:size] = state.weights
    wider.covariance[:size, :size] = state.covariance
    for name in ("layout", "outcomes", "stats", "fixed", "recent", "recent_count", "scores", "calibration"):
        getattr(wider, name)[...] = getattr(state, name)
    for name in ("observed", "means", "errors"):
        old = getattr(state, name)
        getattr(wider, name)[:, : old.shape[1]] = old
    return wider


def widen_after_pretraining(state: ModelState, stats: NDArray[Any], known: NDArray[np.bool_]) -> None:
    """Make a model that learned from predictions uncertain enough for outcomes to correct it.

    Parameters
    ----------
    state
        The model.
    stats
        Its statistics before: the noise of predictions says nothing about that of outcomes.
    known
        Whether each class was predicted by a model of its own; others are as uncertain as new ones.
    """
    for name in ("noise", "noise_weight", "up", "down"):
        state.stats[name] = stats[name]
    state.scores[...] = 0
    state.calibration[...] = 0
    for c, own in enumerate(known):
        block = state.device_class[c] if state.device_class[c] >= 0 else state.device_kind[c]
        at = block * FEATURES
        state.covariance[at, at] += _PREDICTED**2 if own else state.prior_variance[at]
        if not own:
            state.observed[c] = 0.0
            state.recent_count[c] = 0
            as_numbers(state.stats)[c, _FIRST_OF_JUMP:] = 0.0


def _in_kinds(indices: Floats, kinds: int) -> bool:
    """Return whether all indices are those of task kinds in use, or -1."""
    return bool(((indices >= -1.0) & (indices < kinds) & (indices == np.floor(indices))).all())


def model_state_error(state: ModelState, kinds: int) -> str | None:
    """Return the reason why stored arrays cannot be used by compiled code; None if they can."""
    size, used, blocks, top, per_kind, informed = state.layout.item()
    expected = (len(state.prior_variance) - kind_capacity(state) * per_kind, kinds)
    fits = (top, used) == expected and size == top + kinds * per_kind and informed in (0, 1)
    if not fits or blocks * FEATURES + len(state.link) != top or (len(state.weights) - top) % per_kind:
        return "model.layout does not match the sizes of the arrays"
    stored = (state.weights, state.covariance, state.stats, state.fixed, state.recent, state.observed, state.means)
    arrays = (*stored, state.errors, state.scores, state.calibration)
    finite = all((np.abs(as_numbers(array)) < _HUGE).all() for array in arrays)
    if not finite or not (np.abs(as_numbers(state.stats)[:, _FIRST_OF_JUMP:]) < _HUGE_JUMP).all():
        return "the model has numbers that are not finite or out of range"
    if (np.diag(state.covariance) < -1e-6).any() or (state.observed < 0.0).any() or state.outcomes[0] < 0:
        return "the model has negative variances or counts"
    if (as_numbers(state.calibration) < 0.0).any():
        return "the model has negative variances or counts"
    if not (state.stats["noise"] > 0.0).all() or (state.recent_count < 0).any():
        return "a noise level must be positive and a count not negative"
    for c, count in enumerate(np.minimum(state.recent_count, RECENT).tolist()):
        rows = state.recent[c, :count]
        known = _in_kinds(rows["kind"], kinds)
        if not (known and (rows["memory"] >= 0.0).all() and (rows["share"] > 0.0).all()):
            return "recent tasks have unknown task kinds, a negative memory or an empty part"
    return None


def kind_capacity(state: ModelState) -> int:
    """Return the number of task kinds that the arrays have space for."""
    return state.observed.shape[1] - 1


# ------------------------------------------------------------------------------------------ the placement rule


class ExplorationLimits(NamedTuple):
    """Limits on exploration: trials of devices whose durations are unknown, and pessimism about such durations."""

    #: Standard deviation of log seconds from which a duration counts as unknown.
    unknown: float = 0.25
    #: Outcomes of a class and task kind after which it is no longer tried.
    trials: float = 3.0
    #: Share of all seconds spent that trials may lose.
    max_loss_share: float = 0.04
    #: Seconds that trials may lose before any time is spent, in typical task times for each class.
    initial_loss_budget: float = 2.2
    #: Largest variance of log seconds that makes an uncertain duration longer.
    max_pessimism_variance: float = 1.0
    #: Largest variance of the noise that makes the mean longer than the median.
    max_noise: float = 1.0
    #: Log seconds by which the largest task to be tried grows with every trial that was put off.
    growth: float = 0.5
    #: Longest trial, at two standard deviations, in typical task times.
    max_trial_time: float = 4.0
    #: Largest delay that prices may cause: a multiple of the least latency, and of the typical task time.
    max_delay: float = 3.5
    #: Standard deviation up to which one side of a split may be uncertain.
    max_split_deviation: float = 1.0
    #: Weight of the delay that a longer duration than expected causes to later tasks.
    risk: float = 0.02
    #: Smallest share of a task that is worth a probe on a device of unknown duration.
    probe: float = 0.01
    #: Outcomes of a task kind, on all classes, after which no class is tried that ran it twice.
    kind_tasks: float = math.inf
    #: Standard deviations by which a class that has not run a kind may be faster than predicted, in the estimate
    #: that decides on a trial.
    optimism: float = 1.0
    #: Log seconds by which a class that ran one task of a kind may be faster than predicted, in that estimate: a
    #: first run may have been disturbed.
    retrial_bonus: float = 0.0


#: More exploration, for kernels on a real machine: a trial delays only its caller, and its result is used for long.
#: They may double the time that is spent, and end after the first tasks of a kind. Whole tasks are tried: a small
#: part pays for its start, which says little about the whole. A device whose first run was disturbed looks slow for
#: every kind, so that estimates are optimistic for kinds that it has run once or not at all. Splits need durations
#: that are known well.
MEASURED_LIMITS = ExplorationLimits(
    unknown=0.12, trials=math.inf, max_loss_share=1.0, initial_loss_budget=100.0, max_noise=0.2,
    max_trial_time=math.inf, max_split_deviation=0.4, probe=1.0, kind_tasks=25.0, optimism=2.0, retrial_bonus=3.0,
)  # fmt: skip


#: Tasks seen, critical ratio of CPU to accelerator time, typical seconds, seconds spent, seconds lost by trials,
#: trials, mean log seconds on the best class, sum of log sizes before the first outcome, last arrival, mean gap.
_SCALARS = _record("tasks critical_ratio typical_time spent lost trials log_time log_sizes last_arrival gap")
#: A task of the window.
_WINDOW_TASK = _record("size intensity memory kind")


class PlacementState(NamedTuple):
    """Arrays of the placement rule; compiled functions change them in place."""

    params: Floats  # see `compiled/device_prices.py`
    limits: ExplorationLimits
    scalars: NDArray[Any]  # a record
    window: NDArray[Any]  # the last tasks
    relative_speed: Floats  # worth of a second by class, relative to the average accelerator
    pending: Ints  # parts that run or wait, by class and task kind
    deferred_trials: Floats  # trials put off, by class and task kind
    reserved_loss: Floats  # seconds that a running trial may lose, by class and task kind
    loss_free_seconds: Floats  # seconds within which it loses nothing
    started: Floats  # start of the part that is awaited, by class and task kind; infinite if there is none
    expected: Floats  # its predicted log seconds
    times: Floats  # scratch: (whole, fixed) seconds by class
    mean: Floats  # scratch: mean log seconds by class
    deviation: Floats  # scratch: standard deviation of log seconds by class
    risk: Floats  # scratch: seconds of delay that the uncertain duration of a task causes to others, by class
    prices: Floats  # scratch: price of a second by class
    trusted: Floats  # scratch: (whole, fixed) seconds by class, as the guard trusts them

    @property
    def trials(self) -> int:
        """Number of trials so far."""
        return int(self.scalars["trials"])

    @property
    def objective_prices(self) -> tuple[float, Floats]:
        """Weight of a second of latency, and the objective's price of a busy second by class of device."""
        return float(self.params[LATENCY_WEIGHT]), self.params[FIRST_PRICE:]


PLACEMENT = types.NamedTuple(
    (
        _V, types.NamedUniTuple(types.float64, 15, ExplorationLimits), _record_array(_SCALARS, 0),
        _record_array(_WINDOW_TASK, 1), _V, types.int64[:, ::1], *(_M,) * 6, *(_V,) * 4, _M,
    ),
    PlacementState,
)  # fmt: skip
DEVICES = from_dtype(DEVICE)[::1]


def new_placement(
    platform: Platform, *, prices: bool = True, limits: ExplorationLimits | None = None
) -> PlacementState:
    """Return a rule that has seen no task, with space for one task kind.

    Parameters
    ----------
    platform
        Devices.
    prices
        Whether device time has prices.
    limits
        Limits on exploration.
    """
    classes = len(platform.classes)
    counts = [platform.is_cpu.sum(), len(platform.accelerators)]
    coefficients = PRICE_COEFFICIENTS if prices else np.zeros(len(PRICE_COEFFICIENTS))
    return PlacementState(
        params=np.concatenate([counts, coefficients, [1.0], np.zeros(classes)]).astype(np.float64),
        limits=ExplorationLimits(*map(float, limits or ExplorationLimits())),
        scalars=np.zeros((), _SCALARS),
        window=np.zeros(WINDOW, _WINDOW_TASK),
        relative_speed=np.zeros(classes),
        pending=np.zeros((classes, 2), np.int64),
        deferred_trials=np.zeros((classes, 2)),
        reserved_loss=np.zeros((classes, 2)),
        loss_free_seconds=np.zeros((classes, 2)),
        started=np.full((classes, 2), np.inf),
        expected=np.zeros((classes, 2)),
        times=np.zeros((classes, 2)),
        mean=np.zeros(classes),
        deviation=np.zeros(classes),
        risk=np.zeros(classes),
        prices=np.zeros(classes),
        trusted=np.zeros((classes, 2)),
    )


def resize_placement(placement: PlacementState, kinds: int) -> PlacementState:
    """Return the same rule with space for more task kinds."""
    wider: dict[str, Any] = {}
    for name in ("pending", "deferred_trials", "reserved_loss", "loss_free_seconds", "started", "expected"):
        old = getattr(placement, name)
        wider[name] = np.full((len(old), kinds + 1), np.inf if name == "started" else 0, old.dtype)
        wider[name][:, : old.shape[1]] = old
    return placement._replace(**wider)


def recent_window(placement: PlacementState) -> Floats:
    """Return size, intensity, memory and kind of the last tasks, the newest last."""
    seen = int(placement.scalars["tasks"])
    return np.roll(as_numbers(placement.window), -(seen % WINDOW), axis=0)[max(0, WINDOW - seen) :]


def placement_state_error(placement: PlacementState, kinds: int) -> str | None:
    """Return the reason why stored arrays cannot be used by compiled code; None if they can."""
    stored = (placement.scalars, placement.window, placement.relative_speed, placement.deferred_trials)
    seen = float(placement.scalars["tasks"])
    if not all((np.abs(as_numbers(array)) < _HUGE_NUMBER).all() for array in stored) or seen < 0.0:
        return "the placement rule has numbers that are out of range"
    filled = placement.window[: int(min(seen, WINDOW))]
    known = _in_kinds(filled["kind"], kinds)
    if not ((filled["size"] > 0.0).all() and (filled["memory"] >= 0.0).all() and known):
        return "tasks of the window have unknown task kinds, a size of 0 or a negative memory"
    return None
