"""Durations as the physics gives them: without noise for the told, as they will really be for the oracle."""

from __future__ import annotations

import numpy as np

from ..core import Floats, Ints, Links, Platform, Task, TimeTable, Workload
from ..physics import Physics
from .noise import Noise


class PhysicsTimes:
    """A `TimeModel` backed by the physics. With noise, one column per device: the times as they will be."""

    def __init__(self, physics: Physics, platform: Platform, noise: Noise | None = None) -> None:
        self.physics = physics
        self.platform = platform
        self.noise = noise if noise and noise.sigma > 0 else None
        self._physics_columns = physics.columns(platform)
        self._known: dict[int, Floats] = {}

    @property
    def columns(self) -> Ints:
        if self.noise is None:
            return self._physics_columns
        return np.arange(len(self.platform), dtype=np.int64)

    @property
    def links(self) -> Links:
        return self.physics.links(self.platform)

    def table(self, workload: Workload) -> TimeTable:
        nominal = self.physics.times(workload, self.platform)
        if self.noise is None:
            return nominal
        factors = self.noise.factors(workload.task_id, len(self.platform))
        realised: TimeTable = nominal[:, self._physics_columns] * factors[:, :, None]
        return realised

    def row(self, task: Task) -> Floats:
        known = self._known.get(task.task_id)
        return self.table(Workload.from_tasks([task]))[0] if known is None else known

    def remember(self, workload: Workload) -> TimeTable:
        """Keep the rows of a workload at hand while it is run task by task; returns its table."""
        table = self.table(workload)
        self._known = dict(zip(workload.task_id.tolist(), table, strict=True))
        return table

    def forget(self) -> None:
        self._known = {}
