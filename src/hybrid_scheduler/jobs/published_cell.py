"""Mean and interval of a cell of a published table that is computed again.

A module of its own, because the tables of batches, allocations and rounds share it.
"""

from __future__ import annotations

import numpy as np

from ..metrics.statistics import t_half_width


class MeanOfValues:
    """A cell with several values, one of each seed or sequence."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return float(np.mean(self.values))

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of the mean; 0 for a single value."""
        return float(t_half_width(np.array(self.values))) if len(self.values) > 1 else 0.0
