"""Protocol of duration models.

It is what a scheduler learns about durations, apart from how it decides by them.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from ...core import Floats, Outcome, Task, Workload

#: Sides of a task whose parts have ended.
CPU_SIDE, ACCELERATOR_SIDE, BOTH_SIDES = range(3)


class DurationModel(Protocol):
    """Model of the seconds that tasks take on each class of device of one machine."""

    def predict(self, workload: Workload) -> Floats:
        """Return mean and standard deviation of log seconds, of shape (tasks, classes, 2)."""

    def learn(self, task: Task, outcome: Outcome, sides: int = BOTH_SIDES) -> bool:
        """Learn from the parts of a task that have ended; return whether that detected drift."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return a copy of everything that was learned, by name."""
