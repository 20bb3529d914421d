"""Shortest task first, bound late.

Assumes that durations are told and that a task runs whole on one device. A central queue holds the tasks until a
device is idle.
Rule: the idle device takes the waiting task that is shortest on it, unless that task would end earlier by waiting
for another device. Good means, and long tails: large tasks wait while small ones keep coming.
"""

from __future__ import annotations

import numpy as np

from ..core import Central, Knowledge, Queue, Setting, View
from .registry import Look, register


@register("shortest_first", label="Shortest first (told)", look=Look("#A3E635", "#3F6212", "▼", "dashed"))
class ShortestFirst(Central):
    """Told the times: an idle device takes the waiting task that is shortest on it."""

    knows = Knowledge.TOLD

    def start(self, setting: Setting) -> None:
        super().start(setting)
        assert setting.times is not None
        self._columns = setting.times.columns
        self._memory = setting.platform.column("memory")

    def pick(self, queue: Queue, idle_device: int, view: View) -> int | None:
        seconds = queue.times.sum(axis=2)[:, self._columns]
        fits = queue.memory_required[:, None] <= self._memory
        seconds = np.where(fits, seconds, np.inf)
        ends = view.backlog + seconds
        # Equal ends are no reason to wait; the tolerance keeps rounding from deciding.
        worth_it = fits[:, idle_device] & (ends[:, idle_device] <= ends.min(axis=1) * (1 + 1e-12))
        if not worth_it.any():
            return None
        return int(np.argmin(np.where(worth_it, seconds[:, idle_device], np.inf)))
