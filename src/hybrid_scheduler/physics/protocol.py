"""Physics protocol: durations of shares of tasks on each device.

Durations are affine in the share: a part of share s takes ``fixed + s * whole`` seconds. The cluster, the bounds
and the schedulers that know durations read nothing but the table of (whole, fixed) pairs. A new physics is one
class.
"""

from __future__ import annotations

from typing import Protocol

from ..core import Ints, Links, Platform, TimeTable, Workload


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
