"""Learned run times of functions, and the rule that decides by them on which device a call runs.

Run times are kept by device class and by the sizes of a call. Sizes that were measured are looked up. Others come
from a regression in logarithms that starts from "time grows with the bytes", shifted by what the nearest measured
call took. Decisions read while one thread learns: everything that they read is replaced whole.

The regression of `learning.duration` serves simulated tasks, live runs and the schedulers of kernels. It cannot
serve programs: importing and compiling it takes 2.4 CPU-seconds of a process that may itself take one, a prediction
5 µs instead of 0.5, for each device of each call, and a task has one size where a call has one for each dimension.

Executors and intercepted library functions decide by the same rule: a call runs where it ends first, apart from
trials that repay themselves. A device is worth a trial if a call could end there first, by the optimistic estimate
for its size. What a trial is expected to lose is bounded by a share of the time that the function has taken so far,
so that a function of short calls is tried on an accelerator only after it has spent enough time to repay that. A
size counts as settled after a few runs: until then they may have been disturbed. Sizes between measured ones are
estimated with their uncertainty.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .task_function import CallSizes

#: Weight of a run in the mean of its size if it was faster than the mean.
_WEIGHT_IF_FASTER = 0.6
#: Weight of any other slower run. Many causes of slow runs are temporary, such as cold caches.
_WEIGHT_IF_SLOWER = 0.2
#: Weight of the newest run in a function's typical seconds.
_WEIGHT_IN_TYPICAL = 0.3
#: A run that takes more than this multiple of the mean counts as disturbed, unless so many in a row take as long.
_DISTURBED_RATIO = 3.0
_CONFIRMED = 3
#: Runs of a size after which its mean is trusted; before, its runs may all have been slower by such a factor.
_SETTLED = 3
_DISTURBANCE = {1: 1000.0, 2: 20.0}
#: Calls whose sizes all lie within this factor (its ln) are about the same size.
NEAR = math.log(2.0)
#: Largest number of sizes that are kept of one kind of call; the regression keeps what it learned from others.
_MAX_SIZES = 256
#: Largest exponent of a size in the run time, as in a product of matrices. Otherwise a first run that was slow for
#: another reason would let the regression expect minutes.
_LARGEST_EXPONENT = 3.0
#: Weight of the newest measurement in the mean overhead of the executor.
_WEIGHT_IN_OVERHEAD = 0.1
#: Largest multiple of the mean overhead that one measurement counts for.
_OUTLIER_RATIO = 3.0
#: Largest factor between the mean overhead and the first assumption.
_MAX_OFF = 10.0
#: Trials of a function may lose this share of its seconds so far, and these seconds in addition.
_SHARE = 0.1
_SECONDS = 1e-3
#: The same for measurements on the CPU beside runs on an accelerator.
_BESIDE_SHARE = 0.5
_BESIDE_SECONDS = 5e-3
#: Seconds that the first run of a function on an accelerator is assumed to take more, for loading and planning.
_LOADING_SECONDS = 2e-3
#: Assumed ratio of CPU to GPU run time for a function that the CPU has not run.
ASSUMED_CPU_SLOWDOWN = 5.0


class DurationEstimate(NamedTuple):
    """Expected run time of a call, with its uncertainty.

    Attributes
    ----------
    seconds : float
        Expected seconds.
    distance : float
        Distance (in ln of the sizes) to the nearest measured call; 0 if this size was measured.
    warm : bool
        False if only a first run was seen, which includes loading and planning.
    most : float
        Cautious estimate: as if time grew with every size of the call at once, up to the time of a larger call.
    least : float
        Optimistic estimate: as if time did not grow beyond that of a smaller call, or the only runs of this size
        were disturbed.
    runs : int
        Measured runs of this size.
    """

    seconds: float
    distance: float
    warm: bool
    most: float
    least: float = 0.0
    runs: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether this size was measured often enough that single disturbed runs do not matter."""
        return self.runs >= _SETTLED

    @property
    def likely(self) -> float:
        """Expected seconds of a size that was not measured, or whose few runs may have been disturbed."""
        return self.seconds if self.is_settled else math.sqrt(self.least * self.seconds)


#: Sizes that were measured, with what is kept of each.
_Measured = list[tuple[tuple[float, ...], tuple[float, int, int]]]


class _Calls:
    """Runs of one function on one device class, with one signature."""

    __slots__ = ("disturbed", "means")

    def __init__(self) -> None:
        #: By sizes: mean of ln seconds, number of runs (0: a first run only), and bytes.
        self.means: dict[tuple[float, ...], tuple[float, int, int]] = {}
        #: Sizes whose newest runs took far longer than the ones before, and how many did.
        self.disturbed: dict[tuple[float, ...], int] = {}

    def add(self, call: CallSizes, seconds: float, *, first: bool) -> None:
        found = self.means.get(call.sizes)
        log = math.log(seconds)
        if first:
            if found is None:
                self._keep(call.sizes, (log, 0, call.nbytes))
            return
        if found is None or found[1] == 0:
            self._keep(call.sizes, (log, 1, call.nbytes))
            return
        if log > found[0] + math.log(_DISTURBED_RATIO):
            # Or a kernel was loaded, which each size may need once.
            slow = self.disturbed[call.sizes] = self.disturbed.get(call.sizes, 0) + 1
            if slow < _CONFIRMED:
                return
            found = (log, 0, call.nbytes)  # slower from now on, which further runs must settle
        self.disturbed.pop(call.sizes, None)
        weight = _WEIGHT_IF_FASTER if log < found[0] else _WEIGHT_IF_SLOWER
        if found[1] < _SETTLED:  # the slower runs may have been disturbed
            weight = float(log < found[0])
        self.means[call.sizes] = found[0] + weight * (log - found[0]), found[1] + 1, call.nbytes

    def _keep(self, sizes: tuple[float, ...], mean: tuple[float, int, int]) -> None:
        if sizes not in self.means and len(self.means) >= _MAX_SIZES:
            oldest = next(iter(self.means))
            self.disturbed.pop(oldest, None)
            self.means = {known: mean for known, mean in self.means.items() if known != oldest}
        self.means[sizes] = mean

    def at(self, call: CallSizes) -> DurationEstimate | None:
        found = self.means.get(call.sizes)
        if found is not None and found[1] >= _SETTLED:
            seconds = math.exp(found[0])
            return DurationEstimate(seconds, 0.0, True, seconds, seconds, found[1])
        warm = [(sizes, mean) for sizes, mean in list(self.means.items()) if mean[1] > 0]
        if not warm:
            cold = next(iter(list(self.means.items())), None)
            if cold is None:
                return None
            seconds = math.exp(cold[1][0])
            return DurationEstimate(seconds, _distance(call.sizes, cold[0]), False, seconds, seconds)
        least, most = _bounds(call.sizes, warm)
        if found is not None and found[1] > 0:
            log = min(found[0], most)
            least = min(log, max(found[0] - math.log(_DISTURBANCE[found[1]]), least))
            return DurationEstimate(math.exp(log), 0.0, True, math.exp(log), math.exp(least), found[1])
        nearest, (log, runs, nbytes) = min(warm, key=lambda one: _distance(call.sizes, one[0]))
        grown = sum(max(0.0, a - b) for a, b in zip(call.sizes, nearest, strict=True))
        fitted = log + _slope(warm) * (
            math.log1p(call.nbytes) - math.log1p(nbytes) or sum(call.sizes) - sum(nearest)
        )
        fitted = min(max(fitted, least), max(least, most))
        disturbed = math.log(_DISTURBANCE.get(runs, 1.0))
        least = max(least, log - disturbed - _LARGEST_EXPONENT * _growth(call.sizes, nearest))
        seconds, least, most = (
            math.exp(min(max(one, -25.0), 15.0)) for one in (fitted, least, min(most, log + grown))
        )
        distance = _distance(call.sizes, nearest)
        return DurationEstimate(seconds, distance, True, max(seconds, most), min(seconds, least))


def _slope(warm: _Measured) -> float:
    """Return the power of the bytes, or of all sizes, with which time grows: 1 until two sizes were measured."""
    points = [(math.log1p(nbytes) or sum(sizes), log) for sizes, (log, _, nbytes) in warm]
    (low, start) = min(points)
    (high, end) = max(points)
    return (end - start + 0.3) / (high - low + 0.3) if high > low else 1.0


def _bounds(sizes: tuple[float, ...], warm: _Measured) -> tuple[float, float]:
    """Return ln of the least and most seconds of a call, by what was measured of other sizes.

    Time does not fall when a size grows, and grows with no more than its largest power. Sizes that are not settled
    may have been disturbed, which says nothing about the least seconds.
    """
    others = [(other, log, runs) for other, (log, runs, _) in warm if other != sizes]
    least = (log - _LARGEST_EXPONENT * _growth(sizes, other) for other, log, runs in others if runs >= _SETTLED)
    most = (log + _LARGEST_EXPONENT * _growth(other, sizes) for other, log, _ in others)
    return max(least, default=-math.inf), min(most, default=math.inf)


def _growth(sizes: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return by how much (in ln) the other sizes are larger, at most."""
    return max((max(0.0, b - a) for a, b in zip(sizes, other, strict=True)), default=0.0)


def _distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)


class FunctionDurations:
    """Learned run times of all functions, or of the kernels of an executor.

    Examples
    --------
    >>> from hybrid_scheduler.runtime.function_durations import FunctionDurations
    >>> from hybrid_scheduler.runtime.task_function import CallSizes
    >>> durations = FunctionDurations()
    >>> call = CallSizes(("int",), (1.0,), 0)
    >>> durations.learn("f", "cpu", call, 0.5)
    >>> durations.predict("f", "cpu", call).seconds
    0.5
    """

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], dict[tuple[Any, ...], _Calls]] = {}
        self._typical: dict[tuple[str, str], float] = {}
        #: What was measured here, as opposed to what another program measured.
        self._own: set[tuple[str, str, tuple[Any, ...], tuple[float, ...]]] = set()

    def learn(
        self, function: str, device_class: str, call: CallSizes, seconds: float, *, first: bool = False
    ) -> None:
        """Add a measured run.

        Parameters
        ----------
        function, device_class : str
            What ran, and where.
        call : CallSizes
            Sizes of the call.
        seconds : float
            Measured seconds; ignored unless finite and > 0.
        first : bool, optional
            Whether it is the function's first run there, which includes loading and planning.
        """
        if not (math.isfinite(seconds) and seconds > 0):
            return
        self._add(function, device_class, call, seconds, first=first)
        self._own.add((function, device_class, call.signature, call.sizes))

    def _add(
        self, function: str, device_class: str, call: CallSizes, seconds: float, *, first: bool = False
    ) -> _Calls:
        by_signature = self._calls.setdefault((function, device_class), {})
        calls = by_signature.get(call.signature)
        if calls is None:
            calls = by_signature[call.signature] = _Calls()
        calls.add(call, seconds, first=first)
        before = self._typical.get((function, device_class), seconds)
        self._typical[function, device_class] = before + _WEIGHT_IN_TYPICAL * (seconds - before)
        return calls

    def predict(self, function: str, device_class: str, call: CallSizes) -> DurationEstimate | None:
        """Return the expected run time; None if the function has not run there with such arguments."""
        by_signature = self._calls.get((function, device_class))
        calls = by_signature.get(call.signature) if by_signature else None
        return calls.at(call) if calls is not None else None

    def typical(self, function: str, device_class: str) -> float | None:
        """Return the seconds of the function's latest runs there, whatever their sizes."""
        return self._typical.get((function, device_class))

    # ---------------------------------------------------------------- as a document

    def rows(self) -> Iterator[tuple[str, str, CallSizes, float, int]]:
        """Yield (function, device class, sizes, mean seconds, runs) of everything that was measured."""
        for (function, device_class), by_signature in list(self._calls.items()):
            for signature, calls in list(by_signature.items()):
                for sizes, (log, runs, nbytes) in list(calls.means.items()):
                    yield function, device_class, CallSizes(signature, sizes, nbytes), math.exp(log), runs

    def state(self) -> list[list[Any]]:
        """Return what was measured here as JSON values; first runs are left out."""
        return [
            [function, device_class, json.dumps(call.signature), list(call.sizes), call.nbytes, seconds, runs]
            for function, device_class, call, seconds, runs in self.rows()
            if runs > 0 and (function, device_class, call.signature, call.sizes) in self._own
        ]

    def restore(self, rows: list[list[Any]]) -> None:
        """Learn what another program measured, for calls that were not measured here."""
        for function, device_class, signature, sizes, nbytes, seconds, runs in rows:
            call = CallSizes(_tuples(json.loads(signature)), tuple(map(float, sizes)), int(nbytes))
            known = self.predict(function, device_class, call)
            if known is None or known.distance > 0:
                calls = self._add(function, device_class, call, float(seconds))
                calls.means[call.sizes] = math.log(seconds), max(1, int(runs)), call.nbytes


class MeasuredOverhead:
    """Mean seconds that a part of the executor's own work takes, from what was measured.

    Parameters
    ----------
    seconds : float
        What it is taken for at first.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._least = seconds / _MAX_OFF
        self._most = seconds * _MAX_OFF

    def note(self, seconds: float) -> None:
        """Add a measurement; one that was disturbed counts for a few times the mean only."""
        sample = min(max(seconds, self._least), _OUTLIER_RATIO * self.seconds, self._most)
        self.seconds += _WEIGHT_IN_OVERHEAD * (sample - self.seconds)


# ------------------------------------------------------------------------------------------ the rule


class DeviceOption(NamedTuple):
    """A device for a call; the first option is the CPU.

    Attributes
    ----------
    estimate : DurationEstimate or None
        Its run time there, as far as known.
    fixed : float
        Seconds that it takes there beside its run, if nothing else runs.
    end : float
        Seconds until it would end, with what waits there.
    may_try : bool
        Whether it may run there as a trial.
    """

    estimate: DurationEstimate | None
    fixed: float
    end: float
    may_try: bool = True

    def could_win(self, best: float) -> bool:
        """Return whether a call could end here before `best` seconds, which has not been settled."""
        if self.estimate is None or not self.estimate.warm:
            return self.fixed < best
        return not self.estimate.is_settled and self.fixed + self.estimate.least < best


class RuleChoice(NamedTuple):
    """Chosen option.

    Attributes
    ----------
    option : int
        Its place.
    best : float
        Seconds of the call on the best device, if nothing else runs.
    ahead : sequence of int
        Other options that are to be tried for such a call.
    is_trial : bool
        Whether the call is a trial.
    """

    option: int
    best: float
    ahead: Sequence[int] = ()
    is_trial: bool = False


@dataclass(slots=True)
class TrialAccount:
    """Seconds that a function has taken, and those that its trials were expected to lose.

    Attributes
    ----------
    seconds, trial_seconds : float
        The seconds.
    calls : int
        Number of calls so far.
    tried_at : float
        Number of calls when a trial was made last.
    every : int
        Apart from second trials of a size, one of so many calls is a trial.
    beside_seconds : float
        Seconds of measurements on the CPU beside runs on an accelerator, for which the program does not wait.
    """

    seconds: float = 0.0
    trial_seconds: float = 0.0
    beside_seconds: float = 0.0
    calls: int = 0
    tried_at: float = -math.inf
    every: int = 5

    def may_lose(self, seconds: float, best: float) -> bool:
        """Return whether enough time was spent to lose so much by a trial, or one call takes longer; note it."""
        if seconds > max(best, _SECONDS + _SHARE * self.seconds - self.trial_seconds):
            return False
        self.trial_seconds += max(0.0, seconds)
        self.tried_at = self.calls
        return True

    def may_measure_beside(self, estimate: DurationEstimate | None, best: float) -> bool:
        """Return whether a measurement on the CPU, beside the program, may take as long as it is expected to."""
        expected = ASSUMED_CPU_SLOWDOWN * best if estimate is None else estimate.likely
        return expected <= max(best, _BESIDE_SECONDS + _BESIDE_SHARE * self.seconds - self.beside_seconds)

    def allows_trial(self, option: DeviceOption, best: float, *, on_cpu: bool) -> bool:
        """Return whether a call is tried on a device now, which is noted; `best`: its seconds on the best one."""
        estimate = option.estimate
        repeats = estimate is not None and (not estimate.warm or estimate.runs == 1)
        if not repeats and self.calls - self.tried_at < self.every:
            return False
        return self.may_lose(_loss_of_trial(option, best, on_cpu=on_cpu), best)


def _loss_of_trial(option: DeviceOption, best: float, *, on_cpu: bool) -> float:
    """Return the seconds that a trial is expected to lose."""
    estimate = option.estimate
    if on_cpu and estimate is None:
        return (ASSUMED_CPU_SLOWDOWN - 1.0) * best
    if estimate is None:
        return option.fixed + _LOADING_SECONDS
    if not estimate.warm:
        return option.fixed
    # Few things disturb a run on the CPU by factors, as loading does on a GPU.
    return max(0.0, option.fixed + (estimate.seconds if on_cpu else estimate.likely) - best)


def choose_device(options: Sequence[DeviceOption], account: TrialAccount) -> RuleChoice | None:
    """Return the device of a call; None if none has been measured yet.

    Parameters
    ----------
    options : sequence of DeviceOption
        The devices.
    account : TrialAccount
        What the function has taken; trials are noted there.
    """
    measured = [index for index, option in enumerate(options) if option.estimate is not None]
    warm = {index: option.fixed + option.estimate.seconds for index, option in enumerate(options)
            if option.estimate is not None and option.estimate.warm}  # fmt: skip
    if not warm:
        return None
    near = [index for index in warm if options[index].estimate.distance <= NEAR]  # type: ignore[union-attr]
    first = min(near or warm, key=warm.__getitem__)
    best = warm[first]
    ahead = [index for index, option in enumerate(options) if index != first and option.could_win(best)]
    for index in ahead:
        option = options[index]
        if option.may_try and account.allows_trial(option, best, on_cpu=index == 0):
            return RuleChoice(index, best, ahead, is_trial=True)
    # A device that has never run the function is not chosen by a guess.
    return RuleChoice(min(measured, key=lambda index: options[index].end), best, ahead)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
