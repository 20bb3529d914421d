"""The isolated optimum of tasks: the best share and the seconds it takes, alone on an empty machine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..core import Floats, Platform, Workload
from ..physics import Physics


@lru_cache(maxsize=16)
def _pairs(platform: Platform, physics: Physics) -> list[tuple[int, int, float]]:
    """Every kind of CPU and accelerator in one node: their columns and the accelerator's memory."""
    columns, memory = physics.columns(platform), platform.column("memory")
    return sorted(
        {
            (int(columns[platform.cpu_of[d]]), int(columns[d]), float(memory[d]))
            for d in platform.accelerators.tolist()
        }
    )


def isolated_split(workload: Workload, platform: Platform, physics: Physics) -> tuple[Floats, Floats]:
    """Per task the best share on an accelerator and its time, without noise: labels for whoever trains on them."""
    table = physics.times(workload, platform)
    on_cpu = table[:, np.unique(physics.columns(platform)[platform.is_cpu])].sum(axis=2)
    best, time = np.zeros(len(workload)), on_cpu.min(axis=1)
    needed = workload.memory_required
    for cpu_column, column, capacity in _pairs(platform, physics):
        (cpu, cpu_fixed), (whole, fixed) = table[:, cpu_column].T, table[:, column].T
        most = np.ones(len(workload))
        np.divide(capacity, needed, out=most, where=needed > capacity)
        total = cpu + whole
        balance = np.divide(cpu_fixed + cpu - fixed, total, out=np.ones_like(total), where=total > 0)
        for share in (np.clip(balance, 0.0, most), most):
            rest = np.where(share < 1.0, cpu_fixed + (1.0 - share) * cpu, 0.0)
            taken = np.maximum(rest, np.where(share > 0.0, fixed + share * whole, 0.0))
            better = taken < time
            best, time = np.where(better, share, best), np.where(better, taken, time)
    return best, time
