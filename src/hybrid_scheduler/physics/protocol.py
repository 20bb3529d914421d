"""Physics protocol: durations of shares of tasks on each device, and their change over time.

Durations are affine in the share: a part of share s takes ``fixed + s * whole`` seconds. The cluster, the bounds
and the schedulers that know durations read nothing but the table of (whole, fixed) pairs. A new physics is one
class.

A slowdown multiplies the durations of tasks by their time of arrival. The table of a task is therefore the same for
every scheduler, however long it waits, and lower bounds and schedulers that know durations stay exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Ints, InvalidInputError, Links, Platform, TimeTable, UnknownNameError, Workload

#: Largest factor of a slowdown.
_MAX_FACTOR = 1000.0
#: Shortest slowdown in seconds: time is divided by the period, which is longer.
_SHORTEST_S = 1e-3
#: Largest number of device names listed in an error.
_MAX_NAMES = 16
_SLOWDOWN_FIELDS = ("device", "factor", "start", "until", "every")
_SLOWDOWN_EXAMPLE = "device=gpu_1,factor=3,start=20,until=40"


class Physics(Protocol):
    """Interface of a physics. Instances are immutable and hashable, so capacities can be cached by them.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, Physics
    >>> physics: Physics = AnalyticPhysics(launch_overhead=1e-5)
    >>> physics.name
    'analytic'
    """

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """Name of the physics."""

    @property
    def concurrent(self) -> bool:
        """Whether the two parts of a split task run at the same time, as `Cluster` requires."""

    def columns(self, platform: Platform) -> Ints:
        """Return the column of each device in the table."""

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        """Return noise-free (whole, fixed) seconds, shape (tasks, columns, 2)."""

    def links(self, platform: Platform) -> Links:
        """Return the transfer costs of data that moves between devices."""


def platform_links(platform: Platform) -> Links:
    """Return the transfer costs given by the platform's links and network."""
    return Links(1.0 / platform.column("bandwidth"), 1.0 / platform.network_bandwidth, platform.network_latency)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A time in which tasks take longer on one device, or on all devices of a kind.

    It applies to tasks that arrive from `start` on and before `until`, in virtual seconds.

    Parameters
    ----------
    device
        Name of a device, such as ``"gpu_1"``, or a kind of device, such as ``"gpu"`` for all GPUs.
    factor
        Factor on the durations, above 1.
    start, until
        Arrivals that it applies to, in seconds.
    every
        Seconds after which it comes again; None for once.

    Raises
    ------
    InvalidInputError
        If the factor is not above 1, or the times are not in order.

    Examples
    --------
    >>> from hybrid_scheduler import Slowdown
    >>> Slowdown("gpu_1", 3.0, start=20.0, until=40.0).as_dict()
    {'device': 'gpu_1', 'factor': 3.0, 'start': 20.0, 'until': 40.0}
    """

    device: str
    factor: float
    start: float
    until: float
    every: float | None = None

    def __post_init__(self) -> None:
        if not self.device:
            raise InvalidInputError("slowdown.device", "the name or kind of a device", self.device)
        for name in ("factor", "start", "until", "every"):
            value = getattr(self, name)
            if name == "every" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidInputError(f"slowdown.{name}", "a finite number", value)
            object.__setattr__(self, name, float(value))
        if not 1.0 < self.factor <= _MAX_FACTOR:
            hint = "3 makes tasks take three times as long"
            raise InvalidInputError("slowdown.factor", f"> 1 and at most {_MAX_FACTOR:g}", self.factor, hint=hint)
        if self.start < 0:
            raise InvalidInputError("slowdown.start", ">= 0 s", self.start)
        if self.until <= self.start:
            raise InvalidInputError("slowdown.until", f"after the start ({self.start:g} s)", self.until)
        if self.until - self.start < _SHORTEST_S:
            raise InvalidInputError("slowdown.until", f"{_SHORTEST_S:g} s or more after the start", self.until)
        if self.every is not None and self.every <= self.until - self.start:
            length = f"{self.until - self.start:g} s"
            raise InvalidInputError("slowdown.every", f"longer than the slowdown ({length})", self.every)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Slowdown:
        """Return the slowdown that `as_dict` described.

        Raises
        ------
        InvalidInputError
            If a field is missing, unknown or out of range.
        """
        for name in data:
            if name not in _SLOWDOWN_FIELDS:
                raise UnknownNameError("slowdown", name, _SLOWDOWN_FIELDS)
        for name in _SLOWDOWN_FIELDS[:-1]:
            if name not in data:
                raise InvalidInputError(f"slowdown.{name}", "given", "nothing", hint=_SLOWDOWN_EXAMPLE)
        return cls(**data)

    @classmethod
    def from_text(cls, text: str) -> Slowdown:
        """Return the slowdown that a text such as ``device=gpu_1,factor=3,start=20,until=40`` describes.

        Raises
        ------
        InvalidInputError
            If the text has another form, or a value is out of range.
        """
        values: dict[str, Any] = {}
        for item in text.split(","):
            name, equals, value = (part.strip() for part in item.partition("="))
            if not (name and equals and value) or name in values:
                raise InvalidInputError("slowdown", "name=value pairs", item, hint=_SLOWDOWN_EXAMPLE)
            try:
                values[name] = value if name == "device" else float(value)
            except ValueError:
                raise InvalidInputError(f"slowdown.{name}", "a finite number", value) from None
        return cls.from_dict(values)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields ready for JSON; one that comes once has no `every`."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def as_text(self) -> str:
        """Return the text that `from_text` reads."""
        return ",".join(f"{name}={str(value).removesuffix('.0')}" for name, value in self.as_dict().items())

    def describe(self) -> str:
        """Return a clause for people, such as "gpu_1 takes 3 times as long from 20 s to 40 s"."""
        again = "" if self.every is None else f", again every {self.every:g} s"
        return f"{self.device} takes {self.factor:g} times as long from {self.start:g} s to {self.until:g} s{again}"

    def applies(self, arrival_time: Floats) -> NDArray[np.bool_]:
        """Return whether tasks with these arrivals take longer."""
        since = arrival_time - self.start
        if self.every is not None:
            since = np.where(since >= 0.0, since % self.every, since)
        slow: NDArray[np.bool_] = (since >= 0.0) & (since < self.until - self.start)
        return slow

    def changes(self, after: float, until: float) -> list[tuple[float, bool]]:
        """Return the times in (after, until] at which it begins (True) or ends (False), oldest first."""
        if self.every is None or until <= self.start:
            periods = [0]
        else:
            first = max(0, math.floor((after - self.until) / self.every))
            last = math.floor((until - self.start) / self.every)
            periods = list(range(max(first, last - 1), last + 1))
        found = []
        for period in periods:
            shift = period * (self.every or 0.0)
            found += [(self.start + shift, True), (self.until + shift, False)]
        return [(time, slow) for time, slow in found if after < time <= until]

    def devices(self, platform: Platform) -> NDArray[np.bool_]:
        """Return which devices of a platform it is about.

        Raises
        ------
        UnknownNameError
            If the platform has no device of this name or kind.
        """
        names = [device.name for device in platform.devices]
        if self.device in names:
            return np.array([name == self.device for name in names])
        kinds = [device.kind for device in platform.devices]
        if self.device not in kinds:
            known = dict.fromkeys((*names[:_MAX_NAMES], *kinds))
            raise UnknownNameError("slowdown.device", self.device, known, where=f"platform {platform.name}")
        return np.array([kind == self.device for kind in kinds])


@dataclass(frozen=True, slots=True)
class SlowedPhysics:
    """Physics under a slowdown.

    A slowed device that shares its column with others gets a column of its own, after those of the base.

    Parameters
    ----------
    base
        Durations at full speed.
    slowdown
        Their change.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, Slowdown, SlowedPhysics, Task, Workload, workstation
    >>> physics = SlowedPhysics(AnalyticPhysics(), Slowdown("gpu_1", 3.0, start=20.0, until=40.0))
    >>> tasks = Workload.from_tasks([Task(i, 2500, 0.5, 0, arrival_time=20.0 * i) for i in range(3)])
    >>> table, columns = physics.times(tasks, workstation(2)), physics.columns(workstation(2))
    >>> table[:, columns, 0].round(3).tolist()  # cpu, gpu_0, gpu_1
    [[0.5, 0.2, 0.2], [0.5, 0.2, 0.6], [0.5, 0.2, 0.2]]
    """

    base: Physics
    slowdown: Slowdown

    name = "slowed"

    @property
    def concurrent(self) -> bool:
        """Whether the two parts of a split task run at the same time."""
        return self.base.concurrent

    def columns(self, platform: Platform) -> Ints:
        """Return the column of each device in the table."""
        columns = self.base.columns(platform).copy()
        slow, shared = self._slow_columns(platform)
        own = int(columns.max()) + 1
        for position, column in enumerate(shared):
            columns[slow & (columns == column)] = own + position
        return columns

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        """Return noise-free (whole, fixed) seconds, shape (tasks, columns, 2)."""
        columns = self.base.columns(platform)
        table = self.base.times(workload, platform)
        slow, shared = self._slow_columns(platform)
        factor = np.where(self.slowdown.applies(workload.arrival_time), self.slowdown.factor, 1.0)[:, None, None]
        alone = [column for column in np.unique(columns[slow]).tolist() if column not in shared]
        slowed: TimeTable = np.concatenate([table, table[:, shared] * factor], axis=1)
        slowed[:, alone] *= factor
        return slowed

    def links(self, platform: Platform) -> Links:
        """Return the transfer costs between devices."""
        return self.base.links(platform)

    def _slow_columns(self, platform: Platform) -> tuple[NDArray[np.bool_], list[int]]:
        """Return the slowed devices, and the columns that they share with others."""
        slow = self.slowdown.devices(platform)
        columns = self.base.columns(platform)
        return slow, sorted(set(columns[slow].tolist()) & set(columns[~slow].tolist()))


def full_speed(physics: Physics) -> Physics:
    """Return the physics without a slowdown, as capacities and rates of arrival are defined by it."""
    return physics.base if isinstance(physics, SlowedPhysics) else physics
