"""Shortest task first, from a central queue.

Assumes that durations are known and that a task runs whole on one device. A central queue holds the tasks until a
device is idle.
Rule: the idle device takes the waiting task that is shortest on it, unless that task would finish earlier
elsewhere. Mean latency is low but tails are long: large tasks wait while small ones keep arriving.
"""

from __future__ import annotations

import numpy as np

from ..core import Central, Knowledge, Queue, Setting, View
from .registry import Look, register


@register(
    "shortest_first", label="Shortest first (knows durations)", look=Look("#A3E635", "#3F6212", "▼", "dashed")
)
class ShortestFirst(Central):
    """Central queue: an idle device takes the waiting task that is shortest on it."""

    knows = Knowledge.TOLD

    def start(self, setting: Setting) -> None:
        """Prepare for a run; see `Scheduler.start`."""
        super().start(setting)
        assert setting.times is not None
        self._columns = setting.times.columns
        self._memory = setting.platform.memory_limit

    def pick(self, queue: Queue, idle_device: int, view: View) -> int | None:
        """Return the shortest task that should start on the idle device, or None."""
        seconds = queue.times.sum(axis=2)[:, self._columns]
        fits = queue.memory_required[:, None] <= self._memory
        seconds = np.where(fits, seconds, np.inf)
        ends = view.backlog + seconds
        # Equal finish times are no reason to wait; the tolerance absorbs rounding.
        starts_now = fits[:, idle_device] & (ends[:, idle_device] <= ends.min(axis=1) * (1 + 1e-12))
        if not starts_now.any():
            return None
        return int(np.argmin(np.where(starts_now, seconds[:, idle_device], np.inf)))
