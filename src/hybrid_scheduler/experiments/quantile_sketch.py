"""Quantile sketch: quantiles and distribution of any number of values to 0.1 %, in a few kilobytes.

Values are counted in bins whose edges grow by the same factor, so that the middle of a bin is never further from
any value in it than `RELATIVE_ERROR`. Mean, smallest and largest are exact.
"""

from __future__ import annotations

import math

import numpy as np

from ..core import Floats, InvalidInputError

RELATIVE_ERROR = 0.001
_GROWTH = (1.0 + RELATIVE_ERROR) / (1.0 - RELATIVE_ERROR)
#: Seconds below and above these are counted in the outermost bins.
_SMALLEST, _LARGEST = 1e-9, 1e12
_BINS = math.ceil(math.log(_LARGEST / _SMALLEST) / math.log(_GROWTH)) + 1


class QuantileSketch:
    """Counts of values >= 0 by their logarithm. Sketches of parts add up to the sketch of the whole."""

    def __init__(self) -> None:
        self.counts = np.zeros(_BINS, np.int64)
        self.zeros = 0
        self.total = 0.0
        self.smallest, self.largest = math.inf, -math.inf

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
        places = np.log(np.maximum(counted, _SMALLEST) / _SMALLEST) / math.log(_GROWTH)
        bins = np.minimum(places.astype(np.int64), _BINS - 1)
        self.counts += np.bincount(bins, minlength=_BINS)
        self.zeros += len(known) - len(counted)
        self.total += float(known.sum())
        self.smallest = min(self.smallest, float(known.min()))
        self.largest = max(self.largest, float(known.max()))

    def merge(self, other: QuantileSketch) -> None:
        """Add the counts of another sketch."""
        self.counts += other.counts
        self.zeros += other.zeros
        self.total += other.total
        self.smallest, self.largest = min(self.smallest, other.smallest), max(self.largest, other.largest)

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
            values, shares = np.insert(values, 0, 0.0), np.insert(shares, 0, self.zeros / self.count)
        keep = np.unique(np.linspace(0, len(values) - 1, min(points, len(values))).astype(int))
        return values[keep], shares[keep]


def _middle(index: int) -> float:
    """Return the value with the same relative distance from both edges of the bin."""
    return _SMALLEST * _GROWTH**index * 2.0 * _GROWTH / (1.0 + _GROWTH)
