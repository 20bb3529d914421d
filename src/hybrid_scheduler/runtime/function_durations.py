"""Learned run times of functions, by device class and by the sizes of a call.

Sizes that were measured are looked up. Others come from a regression in logarithms that starts from "time grows
with the bytes", shifted by what the nearest measured call took. Decisions read while one thread learns: everything
that they read is replaced whole.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .task_function import CallSizes

#: Weight of a run in the mean of its size if it was faster than the mean, or confirms that runs became far slower.
_WEIGHT_IF_FASTER = 0.6
#: Weight of any other slower run. Many causes of slow runs are temporary, such as cold caches.
_WEIGHT_IF_SLOWER = 0.2
#: Weight of the newest run in a function's typical seconds.
_WEIGHT_IN_TYPICAL = 0.3
#: A run that takes more than this multiple of the mean counts as disturbed, unless the next one takes as long.
_DISTURBED_RATIO = 3.0
#: Calls whose sizes all lie within this factor (its ln) are about the same size.
NEAR = math.log(2.0)
#: Largest number of sizes that are kept of one kind of call; the regression keeps what it learned from others.
_MAX_SIZES = 256
#: Distance (in ln of the sizes) over which the shift of the nearest measured call decays to 1/e.
_SHIFT_DISTANCE = 1.0
#: Largest exponent of a size in the run time, as in a product of matrices. Otherwise a first run that was slow for
#: another reason would let the regression expect minutes.
_LARGEST_EXPONENT = 3.0
#: Weight of the prior "time grows with the bytes", as a number of runs.
_PRIOR_RUNS = 0.3
#: Weight of the newest measurement in the mean overhead of the executor.
_WEIGHT_IN_OVERHEAD = 0.1
#: Largest multiple of the mean overhead that one measurement counts for.
_OUTLIER_RATIO = 3.0
#: Largest factor between the mean overhead and the first assumption.
_MAX_OFF = 10.0


class DurationEstimate(NamedTuple):
    """Expected run time of a call.

    Attributes
    ----------
    seconds : float
        Expected seconds.
    distance : float
        Distance (in ln of the sizes) to the nearest measured call; 0 if this size was measured.
    warm : bool
        False if only a first run was seen, which includes loading and planning.
    most : float
        Cautious estimate: as if time grew with every size of the call at once.
    least : float
        Optimistic estimate: as if a larger call took no longer than the nearest one that was measured.
    """

    seconds: float
    distance: float
    warm: bool
    most: float
    least: float = 0.0


class _Calls:
    """Runs of one function on one device class, with one signature."""

    __slots__ = ("_matrix", "_vector", "disturbed", "means", "weights")

    def __init__(self, dimensions: int) -> None:
        #: By sizes: mean of ln seconds, number of runs (0: a first run only), and bytes.
        self.means: dict[tuple[float, ...], tuple[float, int, int]] = {}
        self._matrix = np.eye(dimensions + 1) * _PRIOR_RUNS
        self._matrix[0, 0] = 1e-3  # nothing is assumed about the speed itself
        self._vector = np.zeros(dimensions + 1)
        self.weights: tuple[float, ...] = ()
        #: Sizes whose newest run took far longer than the ones before.
        self.disturbed: set[tuple[float, ...]] = set()

    def add(self, call: CallSizes, seconds: float, *, first: bool) -> None:
        found, log = self.means.get(call.sizes), math.log(seconds)
        if first:
            if found is None:
                self._keep(call.sizes, (log, 0, call.nbytes))
            return
        if found is None or found[1] == 0:
            self._keep(call.sizes, (log, 1, call.nbytes))
        else:
            confirmed = call.sizes in self.disturbed
            if log > found[0] + math.log(_DISTURBED_RATIO) and not confirmed:
                self.disturbed.add(call.sizes)  # or a kernel was loaded, which each size may need once
                return
            self.disturbed.discard(call.sizes)
            weight = _WEIGHT_IF_FASTER if log < found[0] or confirmed else _WEIGHT_IF_SLOWER
            self.means[call.sizes] = found[0] + weight * (log - found[0]), found[1] + 1, call.nbytes
            if found[1] > 8:  # the regression has enough samples of this size
                return
        row = np.array((1.0, *call.sizes))
        self._matrix += np.outer(row, row)
        self._vector += row * (log - math.log1p(call.nbytes))
        self.weights = tuple(np.linalg.solve(self._matrix, self._vector).tolist())

    def _keep(self, sizes: tuple[float, ...], mean: tuple[float, int, int]) -> None:
        if sizes not in self.means and len(self.means) >= _MAX_SIZES:
            means = dict(self.means)
            self.disturbed.discard(oldest := next(iter(means)))
            means.pop(oldest)
            self.means = means
        self.means[sizes] = mean

    def at(self, call: CallSizes) -> DurationEstimate | None:
        found = self.means.get(call.sizes)
        if found is not None:
            seconds = math.exp(found[0])
            return DurationEstimate(seconds, 0.0, found[1] > 0, seconds, seconds)
        warm = [(sizes, mean) for sizes, mean in list(self.means.items()) if mean[1] > 0]
        if not warm or not self.weights:
            cold = next(iter(list(self.means.items())), None)
            if cold is None:
                return None
            seconds = math.exp(cold[1][0])
            return DurationEstimate(seconds, _distance(call.sizes, cold[0]), False, seconds, seconds)
        nearest, (log, _, nbytes) = min(warm, key=lambda one: _distance(call.sizes, one[0]))
        distance = _distance(call.sizes, nearest)
        shift = log - self._fitted(nearest, nbytes)
        fitted = self._fitted(call.sizes, call.nbytes) + shift * math.exp(-distance / _SHIFT_DISTANCE)
        grown = [max(0.0, a - b) for a, b in zip(call.sizes, nearest, strict=True)]
        growth, fitted = sum(grown), min(fitted, log + _LARGEST_EXPONENT * max(grown, default=0.0))
        seconds, most = math.exp(min(max(fitted, -25.0), 15.0)), math.exp(min(log + growth, 15.0))
        return DurationEstimate(seconds, distance, True, max(seconds, most), min(seconds, math.exp(log)))

    def _fitted(self, sizes: tuple[float, ...], nbytes: int) -> float:
        slopes = self.weights
        return math.log1p(nbytes) + slopes[0] + sum(a * b for a, b in zip(slopes[1:], sizes, strict=True))


def _distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)


class FunctionDurations:
    """Learned run times of all functions.

    Examples
    --------
    >>> from hybrid_scheduler.runtime.function_durations import FunctionDurations
    >>> from hybrid_scheduler.runtime.task_function import CallSizes
    >>> durations = FunctionDurations()
    >>> call = CallSizes(("int",), (1.0,), 0)
    >>> durations.learn("f", "cpu", call, 0.5)
    >>> durations.estimate("f", "cpu", call).seconds
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
            calls = by_signature[call.signature] = _Calls(len(call.sizes))
        calls.add(call, seconds, first=first)
        before = self._typical.get((function, device_class), seconds)
        self._typical[function, device_class] = before + _WEIGHT_IN_TYPICAL * (seconds - before)
        return calls

    def estimate(self, function: str, device_class: str, call: CallSizes) -> DurationEstimate | None:
        """Return the expected run time; None if the function has not run there with such arguments."""
        by_signature = self._calls.get((function, device_class))
        calls = by_signature.get(call.signature) if by_signature else None
        return calls.at(call) if calls is not None else None

    def is_first_of_its_size(self, function: str, device_class: str, call: CallSizes, seconds: float) -> bool:
        """Return whether a run took so long because it was the first of its size, as kernels were loaded for it.

        That is so if no call of this size was measured, and it took several times as long as if time had grown with
        every size of the nearest call that was.
        """
        known = self.estimate(function, device_class, call)
        return known is not None and known.warm and known.distance > 0 and seconds > _DISTURBED_RATIO * known.most

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

    def as_document(self) -> list[list[Any]]:
        """Return what was measured here as JSON values; first runs are left out."""
        return [
            [function, device_class, json.dumps(call.signature), list(call.sizes), call.nbytes, seconds, runs]
            for function, device_class, call, seconds, runs in self.rows()
            if runs > 0 and (function, device_class, call.signature, call.sizes) in self._own
        ]

    def add_document(self, rows: list[list[Any]]) -> None:
        """Learn what another program measured, for calls that were not measured here."""
        for function, device_class, signature, sizes, nbytes, seconds, runs in rows:
            call = CallSizes(_tuples(json.loads(signature)), tuple(map(float, sizes)), int(nbytes))
            known = self.estimate(function, device_class, call)
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

    __slots__ = ("_least", "_most", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._least, self._most = seconds / _MAX_OFF, seconds * _MAX_OFF

    def note(self, seconds: float) -> None:
        """Add a measurement; one that was disturbed counts for a few times the mean only."""
        sample = min(max(seconds, self._least), _OUTLIER_RATIO * self.seconds, self._most)
        self.seconds += _WEIGHT_IN_OVERHEAD * (sample - self.seconds)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value
