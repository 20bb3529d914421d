"""History of measured runtimes, with estimates by kernel kind, device class and size.

The executor and its policy share one history. It holds every run that was measured, from which the executor
predicts how long its queues are. Beside these it holds the runs that the policy has learned from: all but the
outliers.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from typing import NamedTuple

from ..core import Outcome, Platform
from ..profiling.machine_info import THREAD_POOL

#: Stands for both devices of a split task, where a device class is expected.
SPLIT = -1
#: Where a single size is known, time is assumed to grow with the data, so with the square of the size.
_SLOPE = 2.0
_STEEPEST = 3.0
#: Sizes this close (in ln) are the same size: their times are averaged, later ones with more weight.
_SAME = 0.02
_LATEST = 0.3
#: A device has been warmed up for sizes within this factor (its ln) of a size that has run there.
_WARMED_UP = math.log(1.5)
#: A run that took this many times the estimate was disturbed, unless the next one takes as long.
_DISTURBED = 3.0


class RuntimeEstimate(NamedTuple):
    """Estimated runtime of a kernel at one size.

    Attributes
    ----------
    seconds : float
        Likely runtime.
    distance : float
        Distance (in ln) to the nearest size that was measured.
    least : float
        Lower bound: no less than a smaller size took, and no less than work that shrinks with the cube of the size.
    """

    seconds: float
    distance: float
    least: float


class _Curve:
    """Logarithms of measured sizes, ascending, and of their seconds.

    Packed arrays, because curves are read between kernels, which leave nothing in the caches.
    """

    __slots__ = ("count", "seconds", "sizes")

    def __init__(self) -> None:
        self.sizes, self.seconds, self.count = array("d"), array("d"), 0

    def add(self, size: float, seconds: float) -> None:
        self.count += 1
        place = bisect_left(self.sizes, size - _SAME)
        if place < len(self.sizes) and abs(self.sizes[place] - size) <= _SAME:
            self.seconds[place] += _LATEST * (seconds - self.seconds[place])
        else:
            place = bisect_left(self.sizes, size)
            self.sizes.insert(place, size)
            self.seconds.insert(place, seconds)

    def at(self, size: float) -> RuntimeEstimate:
        """Interpolate between two known sizes; beyond them, extrapolate from the nearest."""
        sizes, seconds = self.sizes, self.seconds
        place = bisect_left(sizes, size)
        if 0 < place < len(sizes):
            before, after = size - sizes[place - 1], sizes[place] - size
            start = seconds[place - 1]
            likely = math.exp(start + (seconds[place] - start) * before / (before + after))
            return RuntimeEstimate(likely, before if before < after else after, likely)
        if place:
            place -= 1
        beyond, known = size - sizes[place], seconds[place]
        least = known if beyond > 0 else known + _STEEPEST * beyond
        return RuntimeEstimate(math.exp(known + _SLOPE * beyond), abs(beyond), math.exp(least))


class _Series:
    """Runs of one kind on one device class: all that were measured, and those that were learned from."""

    __slots__ = ("latest", "learned", "measured", "was_disturbed")

    def __init__(self) -> None:
        self.measured, self.learned = _Curve(), _Curve()
        #: The latest run: ln of its size, its seconds, and whether later runs will take as long.
        self.latest = (0.0, 0.0, False)
        #: Whether the latest run was taken for a disturbed one.
        self.was_disturbed = False


def is_representative(
    before: RuntimeEstimate | None, seconds: float, *, needs_warm_up: bool, was_disturbed: bool
) -> bool:
    """Tell whether a run says how long later runs of its kind and size will take.

    On a real machine a run now and then takes several times as long as usual, because something else ran or memory
    had to be found; it never takes several times less. And on a GPU the first run of a size makes plans, buffers
    and page-locked memory that later runs reuse. A learner with a handful of samples should see neither.

    Parameters
    ----------
    before : RuntimeEstimate or None
        The estimate before this run; None if nothing was known.
    seconds : float
        The measured runtime.
    needs_warm_up : bool
        Whether the first run of a size prepares the device for later ones.
    was_disturbed : bool
        Whether the run before this one was taken for a disturbed one. A second slow run is no disturbance.
    """
    if before is None or before.distance > _WARMED_UP:
        return not needs_warm_up
    return seconds <= _DISTURBED * before.seconds or was_disturbed


class RuntimeHistory:
    """Measured runtimes by kernel kind and device class.

    Parameters
    ----------
    platform : Platform
        The machine. Its GPUs need a warm-up run for each size.
    """

    def __init__(self, platform: Platform) -> None:
        gpus = {
            int(platform.class_of[i])
            for i, device in enumerate(platform.devices)
            if device.kind not in ("cpu", THREAD_POOL)
        }
        self._needs_warm_up = gpus | {SPLIT} if gpus else gpus
        self._series: dict[str, dict[int, _Series]] = {}

    # ---------------------------------------------------------------- measured runs

    def record(self, kind: str, column: int, size: float, seconds: float) -> None:
        """Add a measured run.

        Parameters
        ----------
        kind : str
            Kernel kind.
        column : int
            Device class, or `SPLIT`.
        size : float
            Task size, > 0.
        seconds : float
            Measured runtime; ignored unless finite and > 0.
        """
        series = self._series.setdefault(kind, {}).setdefault(column, _Series())
        at, measured = math.log(size), series.measured
        before = measured.at(at) if measured.count else None
        representative = is_representative(
            before, seconds, needs_warm_up=column in self._needs_warm_up, was_disturbed=series.was_disturbed
        )
        if before is not None and before.distance <= _WARMED_UP:
            series.was_disturbed = not representative
        series.latest = at, seconds, representative
        if seconds > 0 and math.isfinite(seconds):
            measured.add(at, math.log(seconds))

    def runs(self, kind: str, column: int) -> int:
        """Return how many runs were measured there."""
        series = self._get(kind, column)
        return series.measured.count if series else 0

    def estimate(self, kind: str, column: int, size: float) -> RuntimeEstimate | None:
        """Return an estimate from all measured runs; None if there are none."""
        series = self._get(kind, column)
        return series.measured.at(math.log(size)) if series and series.measured.count else None

    # ---------------------------------------------------------------- runs that were learned from

    def learn_latest(self, kind: str, column: int) -> bool:
        """Learn from the latest run recorded there, unless it is an outlier; return whether it was learned from."""
        series = self._get(kind, column)
        if series is None:
            return False
        size, seconds, representative = series.latest
        if representative and seconds > 0 and math.isfinite(seconds):
            series.learned.add(size, math.log(seconds))
        return representative

    def learned_runs(self, kind: str, column: int) -> int:
        """Return how many runs there were learned from."""
        series = self._get(kind, column)
        return series.learned.count if series else 0

    def learned_estimate(self, kind: str, column: int, size: float) -> RuntimeEstimate | None:
        """Return an estimate from the runs that were learned from; None if there are none."""
        series = self._get(kind, column)
        return series.learned.at(math.log(size)) if series and series.learned.count else None

    def learned_estimates(self, kind: str, columns: range, size: float) -> list[RuntimeEstimate | None]:
        """Return `learned_estimate` for several device classes."""
        known, at = self._series.get(kind, _NOTHING).get, math.log(size)
        return [
            series.learned.at(at) if (series := known(column)) and series.learned.count else None
            for column in columns
        ]

    def forget_learned(self) -> None:
        """Forget what was learned, for a policy that starts anew; measured runs stay."""
        for by_column in self._series.values():
            for series in by_column.values():
                series.learned = _Curve()

    def _get(self, kind: str, column: int) -> _Series | None:
        return self._series.get(kind, _NOTHING).get(column)


_NOTHING: dict[int, _Series] = {}


def device_class_and_seconds(outcome: Outcome, platform: Platform) -> tuple[int, float]:
    """Return the device class that ran a task, or `SPLIT`, and the seconds it took.

    A part of a split task says little about the whole: its start-up cost does not shrink with its share.
    """
    if 0.0 < outcome.fraction < 1.0:
        return SPLIT, max(outcome.cpu_time, outcome.accelerator_time)
    if outcome.fraction > 0.0:
        return int(platform.class_of[outcome.device]), outcome.accelerator_time
    return int(platform.class_of[platform.cpu_of[outcome.device]]), outcome.cpu_time
