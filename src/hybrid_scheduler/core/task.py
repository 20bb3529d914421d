"""One unit of work, as a person thinks of it. Millions of them live in a `Workload`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Seconds per size^1.5 at intensity 0.5 on the reference CPU: size 2500 takes 0.5 s.
WORK_COEFFICIENT = 4e-6


def base_duration(
    size: NDArray[np.float64], intensity: NDArray[np.float64], coefficient: float = WORK_COEFFICIENT
) -> NDArray[np.float64]:
    """Seconds the whole task takes on the reference CPU: ``k * N^1.5 / (I + 0.5)``."""
    return coefficient * size * np.sqrt(size) / (intensity + 0.5)


@dataclass(frozen=True, slots=True)
class Task:
    """A task with a size, a compute intensity in [0, 1] and a memory need in MB."""

    task_id: int
    size: float
    compute_intensity: float
    memory_required: float
    arrival_time: float = 0.0
    dependencies: tuple[int, ...] = ()
    kind: str = "generic"
    external_id: str | None = None

    @property
    def duration_estimate(self) -> float:
        """Base duration T with the default coefficient, in seconds."""
        return WORK_COEFFICIENT * self.size * math.sqrt(self.size) / (self.compute_intensity + 0.5)
