"""Running statistics of a run without end: a mean with an interval, and busy shares of devices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import Floats

#: Values in the first batches. Consecutive latencies are correlated, so smaller batches would be too optimistic.
_FIRST_SIZE = 16
#: Number of full batches at which they are merged in pairs.
_MOST_BATCHES = 64
#: Fewer batches do not determine the spread of their means.
_LEAST_BATCHES = 8


class RunningMean:
    """Mean of a stream with a 95 % interval by batch means, in constant memory.

    Consecutive values are correlated; averages over long batches hardly are. The stream is cut into batches whose
    size grows with it. The interval is Student's for the means of the complete batches.
    """

    def __init__(self) -> None:
        self.count, self.total = 0, 0.0
        self._size, self._sums = _FIRST_SIZE, list[float]()
        self._filled, self._open = 0, 0.0

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
        self._filled, self._open = 0, 0.0
        if len(self._sums) == _MOST_BATCHES:
            self._sums = [a + b for a, b in zip(self._sums[0::2], self._sums[1::2], strict=True)]
            self._size *= 2

    @property
    def mean(self) -> float | None:
        """Mean of all values; None before the first."""
        return self.total / self.count if self.count else None

    @property
    def half_width(self) -> float | None:
        """Half width of the 95 % interval; None until there are eight complete batches."""
        batches = len(self._sums)
        if batches < _LEAST_BATCHES:
            return None
        from scipy.special import stdtrit  # slow to import, and simulations do not need it

        error = float(np.std(np.array(self._sums) / self._size, ddof=1)) / math.sqrt(batches)
        return float(stdtrit(batches - 1, 0.975)) * error

    def state(self) -> dict[str, Any]:
        """Return the state as plain values for JSON; `from_state` restores it."""
        return {
            "count": self.count,
            "total": self.total,
            "size": self._size,
            "sums": list(self._sums),
            "filled": self._filled,
            "open": self._open,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> RunningMean:
        """Return the mean that `state` described."""
        mean = cls()
        mean.count, mean.total = int(state["count"]), float(state["total"])
        mean._size, mean._sums = int(state["size"]), [float(value) for value in state["sums"]]
        mean._filled, mean._open = int(state["filled"]), float(state["open"])
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
