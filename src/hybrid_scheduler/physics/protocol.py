"""One interface for every physics: how long a share of a task takes on each device.

All of them are affine in the share: a part of share s takes ``fixed + s * whole`` seconds. The cluster, the
bounds and the told schedulers read nothing but the table of (whole, fixed) pairs, so a new physics is one class.
"""

from __future__ import annotations

from typing import Protocol

from ..core import Ints, Links, Platform, TimeTable, Workload


class Physics(Protocol):
    """What a physics must offer. Instances are immutable and hashable, so capacities can be cached by them."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def concurrent(self) -> bool:
        """Whether the two parts of a split task run at once. The cluster needs that; isolated studies do not."""

    def columns(self, platform: Platform) -> Ints:
        """For each device, its column in the table."""

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        """Noise-free (whole, fixed) seconds, shape (tasks, columns, 2)."""

    def links(self, platform: Platform) -> Links:
        """What data handed from parents to children pays when it crosses devices."""


def platform_links(platform: Platform) -> Links:
    return Links(1.0 / platform.column("bandwidth"), 1.0 / platform.network_bandwidth, platform.network_latency)
