"""Task: one unit of work as an object. A `Workload` holds many of them as columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Seconds per size^1.5 at intensity 0.5 on the reference CPU: size 2500 takes 0.5 s.
WORK_COEFFICIENT = 4e-6
#: Largest size, MB and arrival time: sums and powers of larger numbers lose digits or overflow.
LARGEST_VALUE = 1e12


def base_duration(
    size: NDArray[np.float64], intensity: NDArray[np.float64], coefficient: float = WORK_COEFFICIENT
) -> NDArray[np.float64]:
    """Return the seconds of whole tasks on the reference CPU: ``k * N^1.5 / (I + 0.5)``.

    Parameters
    ----------
    size, intensity
        Size N and compute intensity I of each task.
    coefficient
        Seconds per unit of work k.
    """
    return coefficient * size * np.sqrt(size) / (intensity + 0.5)


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work.

    Parameters
    ----------
    task_id
        Id, unique in the workload.
    size
        Amount of work N, above 0.
    compute_intensity
        Compute intensity I in [0, 1]; the higher, the more a GPU speeds the task up.
    memory_required
        Memory in MB.
    arrival_time
        Arrival in seconds.
    dependencies
        Ids of the tasks that must finish first.
    kind
        Kind of kernel, e.g. ``"matmul"``.
    external_id
        Name of the task in the trace that it comes from.
    divisible
        Whether an accelerator and its host may each run a part of the task.

    Examples
    --------
    >>> from hybrid_scheduler import Task
    >>> Task(task_id=0, size=2500, compute_intensity=0.5, memory_required=100).duration_estimate
    0.5
    """

    task_id: int
    size: float
    compute_intensity: float
    memory_required: float
    arrival_time: float = 0.0
    dependencies: tuple[int, ...] = ()
    kind: str = "generic"
    external_id: str | None = None
    divisible: bool = True

    @property
    def duration_estimate(self) -> float:
        """Seconds on the reference CPU (base duration T with the default coefficient)."""
        return WORK_COEFFICIENT * self.size * math.sqrt(self.size) / (self.compute_intensity + 0.5)
