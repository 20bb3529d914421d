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
        error = float(np.std(np.array(self._sums) / self._size, ddof=1)) / math.sqrt(batches)
        return _QUANTILES[batches - _LEAST_BATCHES] * error

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
