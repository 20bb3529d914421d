"""Time model of the physics: expected durations, or with noise the realised ones."""

from __future__ import annotations

import numpy as np

from ..core import Floats, Ints, Links, Platform, Task, TimeTable, Workload
from ..physics import Physics
from .noise import Noise


class PhysicsTimes:
    """`TimeModel` of the physics. With noise it gives the realised durations, one column per device.

    Parameters
    ----------
    physics, platform
        Durations and devices.
    noise
        Noise of the run; None for expected durations.
    """

    def __init__(self, physics: Physics, platform: Platform, noise: Noise | None = None) -> None:
        self.physics = physics
        self.platform = platform
        self.noise = noise if noise and noise.sigma > 0 else None
        self._physics_columns = physics.columns(platform)
        self._cached: dict[int, Floats] = {}

    @property
    def columns(self) -> Ints:
        """Column of each device in the tables."""
        if self.noise is None:
            return self._physics_columns
        return np.arange(len(self.platform), dtype=np.int64)

    @property
    def links(self) -> Links:
        """Transfer costs of data that moves between devices."""
        return self.physics.links(self.platform)

    def table(self, workload: Workload) -> TimeTable:
        """Return (whole, fixed) seconds, shape (tasks, columns, 2)."""
        nominal = self.physics.times(workload, self.platform)
        if self.noise is None:
            return nominal
        factors = self.noise.factors(workload.task_id, len(self.platform))
        realised: TimeTable = nominal[:, self._physics_columns] * factors[:, :, None]
        return realised

    def row(self, task: Task) -> Floats:
        """Return the table's row for one task."""
        cached = self._cached.get(task.task_id)
        return self.table(Workload.from_tasks([task]))[0] if cached is None else cached

    def remember(self, workload: Workload) -> TimeTable:
        """Cache the rows of a workload that runs task by task, and return its table."""
        table = self.table(workload)
        self._cached = dict(zip(workload.task_id.tolist(), table, strict=True))
        return table

    def forget(self) -> None:
        """Drop the cached rows."""
        self._cached = {}
