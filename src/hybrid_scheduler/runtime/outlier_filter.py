"""Which measurements to learn from.

On a real machine a kernel now and then takes several times as long as usual, never several times less: something
else ran, memory had to be found. And the first run of its size on a device makes plans, buffers and page-locked
memory that later ones find ready. A learner with a handful of samples believes every one of them, so such runs are
kept from it.
"""

from __future__ import annotations

import math

from .runtime_history import RuntimeHistory

#: Sizes within this factor (its ln) of one that has run on the device find things ready.
_FAMILIAR = math.log(1.5)
#: A run that took so many times as long as it should have was disturbed, unless the next one does so, too.
_DISTURBED = 3.0


class OutlierFilter:
    """Remembers what ran. `prepare` are the classes of devices on which a first run has to make things ready."""

    def __init__(self, prepare: frozenset[int]) -> None:
        self._prepare, self._runs = prepare, RuntimeHistory()
        self._slow: set[tuple[str, int]] = set()

    def runs(self, kind: str, column: int) -> int:
        """How often this kind ran there, whether that was believed or not."""
        return self._runs.count(kind, column)

    def believes(self, kind: str, column: int, size: float, seconds: float) -> bool:
        """Whether this run, which has just ended, says what the next one like it will take."""
        key = kind, column
        before = self._runs.nearest(kind, column, size)
        self._runs.add(kind, column, size, seconds)
        if before is None or before.distance > _FAMILIAR:
            return column not in self._prepare
        if seconds > _DISTURBED * before.seconds and key not in self._slow:
            self._slow.add(key)
            return False
        self._slow.discard(key)
        return True
