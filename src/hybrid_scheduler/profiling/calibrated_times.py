"""A calibration as a model of durations for schedulers that are told."""

from __future__ import annotations

from ..core import Floats, Ints, Links, Platform, Task, TimeTable, Workload
from ..physics import ProfiledPhysics


class CalibratedTimes:
    """A `TimeModel` from measured curves; rows are kept, since streams repeat sizes."""

    def __init__(self, physics: ProfiledPhysics, platform: Platform) -> None:
        self.physics, self.platform = physics, platform
        self._rows: dict[tuple[str, float], Floats] = {}

    @property
    def columns(self) -> Ints:
        return self.physics.columns(self.platform)

    @property
    def links(self) -> Links:
        return self.physics.links(self.platform)

    def table(self, workload: Workload) -> TimeTable:
        return self.physics.times(workload, self.platform)

    def row(self, task: Task) -> Floats:
        key = task.kind, task.size
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self.physics.row(task.kind, task.size, self.platform)
        return row
