"""Analytic and serial physics: the published formulas.

Published means: in the documents that METHODOLOGY.md compares, section "Where published documents disagree".

T = k * N^1.5 / (I + 0.5)        seconds on the reference CPU
G = T / S + M / bandwidth        seconds on an accelerator, S = base + slope * I, plus t0 to launch;
                                 in a graph M counts without the data of the parents, which the cluster charges
time D(f) = max((1-f) T, t0 + f G)            analytic: both parts run at once
time D(f) = (1-f) T + t0 + f G                serial: one after the other, for isolated studies only
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import Ints, InvalidInputError, Links, Platform, TimeTable, Workload
from ..core.workload import WORK_COEFFICIENT, base_duration
from .protocol import platform_links


@dataclass(frozen=True, slots=True)
class AnalyticPhysics:
    """Published durations; the two parts of a split task run at the same time.

    Parameters
    ----------
    coefficient
        Seconds per unit of work k on the reference CPU.
    launch_overhead
        Seconds to start a part on an accelerator.

    Raises
    ------
    InvalidInputError
        If a parameter is negative or not finite.

    Examples
    --------
    >>> from hybrid_scheduler import AnalyticPhysics, Task, Workload, workstation
    >>> tasks = Workload.from_tasks([Task(0, size=2500, compute_intensity=0.5, memory_required=1600)])
    >>> AnalyticPhysics().times(tasks, workstation(1))[0, :, 0].tolist()
    [0.5, 0.30000000000000004]
    """

    coefficient: float = WORK_COEFFICIENT
    launch_overhead: float = 0.0

    name = "analytic"
    concurrent = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.coefficient) and self.coefficient > 0):
            raise InvalidInputError("physics.coefficient", "finite and > 0", self.coefficient)
        if not (math.isfinite(self.launch_overhead) and self.launch_overhead >= 0):
            raise InvalidInputError("physics.launch_overhead", "finite and >= 0 s", self.launch_overhead)

    def columns(self, platform: Platform) -> Ints:
        """Return the column of each device in the table."""
        return platform.class_of

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        """Return noise-free (whole, fixed) seconds, shape (tasks, columns, 2)."""
        table = np.zeros((len(workload), len(platform.classes), 2))
        base = base_duration(workload.size, workload.compute_intensity, self.coefficient)
        for column, device in enumerate(platform.classes):
            speedup = device.speedup_base + device.speedup_slope * workload.compute_intensity
            table[:, column, 0] = base / speedup
            if not device.is_cpu:
                # Data of parents is charged where it crosses devices, not here.
                table[:, column, 0] += workload.host_data / device.bandwidth
                table[:, column, 1] = self.launch_overhead
        return table

    def links(self, platform: Platform) -> Links:
        """Return the transfer costs between devices."""
        return platform_links(platform)


@dataclass(frozen=True, slots=True)
class SerialPhysics(AnalyticPhysics):
    """Analytic durations with the two parts one after the other.

    It reproduces published tables of isolated tasks; `Cluster` does not accept it.

    Parameters
    ----------
    coefficient, launch_overhead
        As in `AnalyticPhysics`.

    Examples
    --------
    >>> from hybrid_scheduler import SerialPhysics
    >>> SerialPhysics().concurrent
    False
    """

    name = "serial"
    concurrent = False
