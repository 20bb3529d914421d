"""Running statistics of a run without end: mean with an interval, busy shares of devices, quantile sketch.

The sketch has quantiles and distribution of any number of values to 0.1 %, in a few kilobytes. Values are counted
in bins whose edges grow by the same factor, so that the middle of a bin is never further from any value in it than
`RELATIVE_ERROR`. Mean, smallest and largest are exact.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from ..core import Floats, InvalidInputError

#: Values in the first batches. Consecutive latencies are correlated, so smaller batches would be too optimistic.
_FIRST_SIZE = 16
#: Number of full batches at which they are merged in pairs.
_MAX_BATCHES = 64
#: Fewer batches do not determine the spread of their means.
_MIN_BATCHES = 8
#: 97.5 % quantiles of Student's distribution for 8 to 63 batches: a server without scipy.special needs 17 MB less.
_QUANTILES = (
    2.364624251592784, 2.306004135204166, 2.262157162798205, 2.228138851986274, 2.200985160091639,
    2.1788128296672284, 2.1603686564627913, 2.144786687917804, 2.131449545559776, 2.1199052992212546,
    2.1098155778333156, 2.1009220402410382, 2.0930240544083087, 2.085963447265864, 2.0796138447276795,
    2.0738730679040254, 2.0686576104190486, 2.0638985616280245, 2.0595385527532972, 2.0555294386428735,
    2.0518305164802846, 2.0484071417952454, 2.045229642132703, 2.0422724563012378, 2.039513446396408,
    2.0369333434601016, 2.0345152974493383, 2.0322445093177186, 2.030107928250343, 2.0280940009804502,
    2.0261924630291093, 2.0243941639119694, 2.022690920036761, 2.021075390306273, 2.019540970441376,
    2.0180817028184443, 2.016692199227824, 2.0153675744437636, 2.014103388880846, 2.012895598919429,
    2.0117405137297655, 2.010634757624232, 2.0095752371292392, 2.008559112100761, 2.007583770315836,
    2.006646805061688, 2.0057459953178687, 2.0048792881880564, 2.0040447832891455, 2.003240718847872,
    2.002465459291007, 2.0017174841452356, 2.000995378088267, 2.0002978220142604, 1.999623584994939,
    1.9989715170333788,
)  # fmt: skip


class RunningMean:
    """Mean of a stream with a 95 % interval by batch means, in constant memory.

    Consecutive values are correlated; averages over long batches hardly are. The stream is cut into batches whose
    size grows with it. The interval is Student's for the means of the complete batches.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._size = _FIRST_SIZE
        self._sums = list[float]()
        self._filled = 0
        self._open = 0.0

    def add(self, values: Floats) -> None:
        """Add values in their order; none of them may be NaN."""
        self.count += len(values)
        self.total += float(values.sum())
        start = 0
        while start < len(values):
            part = values[start : start + self._size - self._filled]
            start += len(part)
            self._open += float(part.sum())
            self._filled += len(part)
            if self._filled == self._size:
                self._close_batch()

    def _close_batch(self) -> None:
        self._sums.append(self._open)
        self._filled = 0
        self._open = 0.0
        if len(self._sums) == _MAX_BATCHES:
            self._sums = [a + b for a, b in zip(self._sums[0::2], self._sums[1::2], strict=True)]
            self._size *= 2

    @property
    def mean(self) -> float | None:
        """Mean of all values; None before the first."""
        return self.total / self.count if self.count else None

    @property
    def batch_means(self) -> Floats:
        """Means of the complete batches, oldest first."""
        return np.array(self._sums, dtype=np.float64) / self._size

    @property
    def half_width(self) -> float | None:
        """Half width of the 95 % interval; None until there are eight complete batches."""
        batches = len(self._sums)
        if batches < _MIN_BATCHES:
            return None
        error = float(np.std(np.array(self._sums) / self._size, ddof=1)) / math.sqrt(batches)
        return _QUANTILES[batches - _MIN_BATCHES] * error

    def state(self) -> dict[str, Any]:
        """Return the state as plain values for JSON; `from_state` restores it."""
        return {name.lstrip("_"): copy(value) for name, value in vars(self).items()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> RunningMean:
        """Return the mean that `state` described."""
        mean = cls()
        for name in vars(mean):
            setattr(mean, name, copy(state[name.lstrip("_")]))
        return mean


def busy_share(before: Floats, after: Floats, seconds: float) -> Floats:
    """Return the busy share of each device in an interval.

    Parameters
    ----------
    before, after
        Total busy seconds of each device at the start and at the end of the interval.
    seconds
        Length of the interval.
    """
    if not seconds > 0:
        return np.zeros(len(after))
    return np.clip((after - before) / seconds, 0.0, 1.0)


# ------------------------------------------------------------------------------------------ quantiles

RELATIVE_ERROR = 0.001
_GROWTH = (1.0 + RELATIVE_ERROR) / (1.0 - RELATIVE_ERROR)
#: Seconds below and above these are counted in the outermost bins.
_MIN_SECONDS = 1e-9
_MAX_SECONDS = 1e12
_BINS = math.ceil(math.log(_MAX_SECONDS / _MIN_SECONDS) / math.log(_GROWTH)) + 1


class QuantileSketch:
    """Counts of values >= 0 by their logarithm."""

    def __init__(self) -> None:
        self.counts = np.zeros(_BINS, np.int64)
        self.zeros = 0
        self.total = 0.0
        self.smallest = math.inf
        self.largest = -math.inf

    @property
    def count(self) -> int:
        """Number of values."""
        return self.zeros + int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Mean of the values; NaN if there are none."""
        return self.total / self.count if self.count else math.nan

    def add(self, values: Floats) -> None:
        """Count values; NaN, which stands for a failed task, is skipped.

        Raises
        ------
        InvalidInputError
            If a value is negative.
        """
        known = values[~np.isnan(values)]
        if not len(known):
            return
        if known.min() < 0:
            raise InvalidInputError("values", "at least 0", float(known.min()))
        counted = known[known > 0]
        places = np.log(np.maximum(counted, _MIN_SECONDS) / _MIN_SECONDS) / math.log(_GROWTH)
        bins = np.minimum(places.astype(np.int64), _BINS - 1)
        self.counts += np.bincount(bins, minlength=_BINS)
        self.zeros += len(known) - len(counted)
        self.total += float(known.sum())
        self.smallest = min(self.smallest, float(known.min()))
        self.largest = max(self.largest, float(known.max()))

    def quantile(self, share: float) -> float:
        """Return the value below which `share` of all lie, to `RELATIVE_ERROR`."""
        if self.count == 0:
            return math.nan
        rank = share * (self.count - 1)
        if rank < self.zeros:
            return 0.0
        index = int(np.searchsorted(np.cumsum(self.counts), rank - self.zeros, side="right"))
        return min(max(_middle(index), self.smallest), self.largest)

    def distribution(self, points: int = 400) -> tuple[Floats, Floats]:
        """Return values and the shares of all that are at most as large, for a figure."""
        if self.count == 0:
            return np.empty(0), np.empty(0)
        used = np.flatnonzero(self.counts)
        shares = (self.zeros + np.cumsum(self.counts[used])) / self.count
        values = np.clip([_middle(int(index)) for index in used], self.smallest, self.largest)
        if self.zeros:
            values = np.insert(values, 0, 0.0)
            shares = np.insert(shares, 0, self.zeros / self.count)
        keep = np.unique(np.linspace(0, len(values) - 1, min(points, len(values))).astype(int))
        return values[keep], shares[keep]


def _middle(index: int) -> float:
    """Return the value with the same relative distance from both edges of the bin."""
    return _MIN_SECONDS * _GROWTH**index * 2.0 * _GROWTH / (1.0 + _GROWTH)
