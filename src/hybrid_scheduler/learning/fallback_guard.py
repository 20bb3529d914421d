"""Guard that replaces a learned policy by greedy while it performs worse.

Every finished task is evaluated twice, with the seconds it really took and the queues as they stood at the
decision: the cost of the learned placement and the cost of greedy's. d is the logarithm of their ratio.

Trips:     over the last 100 tasks the mean of d, less 2.6 standard errors, lies above log 1.05: the learned policy
           is worse by more than five per cent, and not by chance.
Recovers:  while `greedy` acts, the learned policy keeps deciding in the background. Over at least 50 tasks
           since the guard tripped (the last 100 of them) the mean of d plus one standard error is below 0.

Between the two thresholds nothing changes, so the guard does not oscillate.
"""

from __future__ import annotations

import math
from collections import deque

_WINDOW, _MIN_TO_RECOVER = 100, 50
_MARGIN = math.log(1.05)
_SIGNIFICANT = 2.6


class FallbackGuard:
    """Guard whose `active` is true while `greedy` should act."""

    def __init__(self) -> None:
        self.active = False
        self._lags: deque[float] = deque(maxlen=_WINDOW)

    def update(self, learned: float, greedy: float) -> bool:
        """Add one task's two costs; True if the guard has just tripped or recovered."""
        if not (learned > 0 and greedy > 0):
            return False
        self._lags.append(math.log(learned / greedy))
        count = len(self._lags)
        if count < (_MIN_TO_RECOVER if self.active else _WINDOW):
            return False
        mean = sum(self._lags) / count
        error = math.sqrt(sum((lag - mean) ** 2 for lag in self._lags) / (count - 1) / count)
        turns = mean + error < 0 if self.active else mean - _SIGNIFICANT * error > _MARGIN
        if turns:
            self.active = not self.active
            self._lags.clear()
        return turns
