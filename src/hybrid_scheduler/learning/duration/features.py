"""Features of a task: five numbers on a logarithmic scale.

Durations are products of powers, so logarithms turn them into sums, and a task twice the size of anything seen
before lies a small step outside the known range instead of far away.
"""

from __future__ import annotations

import numpy as np

from ...core import Floats, Workload

FEATURE_NAMES = ("size", "intensity", "memory", "memory_per_size", "compute_to_memory")

#: Keeps the logarithm of "intensity x size" finite for tasks of intensity 0.
_MIN_INTENSITY = 0.1


def features(workload: Workload) -> Floats:
    """Return the features of a workload's tasks.

    Parameters
    ----------
    workload
        The tasks.

    Returns
    -------
    Floats
        Shape (tasks, 5), columns as in `FEATURE_NAMES`.
    """
    return features_of(workload.size, workload.compute_intensity, workload.memory_required)


def features_of(size: Floats, intensity: Floats, memory: Floats) -> Floats:
    """Return the features of tasks given as columns."""
    megabytes = 1.0 + memory
    return np.stack(
        [
            np.log(size),
            np.log1p(intensity),
            np.log(megabytes),
            np.log(megabytes / size),
            np.log(size * (_MIN_INTENSITY + intensity) / megabytes),
        ],
        axis=1,
    )


def tasks_of(size: Floats, intensity: Floats, memory: Floats) -> Workload:
    """Return tasks given as columns as a workload that arrives at once."""
    return Workload(
        task_id=np.arange(len(size)),
        size=size,
        compute_intensity=intensity,
        memory_required=memory,
        arrival_time=np.zeros(len(size)),
    )


def evenly_spread(count: int, dimensions: int) -> Floats:
    """Return points that fill the unit cube evenly: an additive recurrence, see Kronecker sequences."""
    ratio = 2.0
    for _ in range(50):  # the positive root of x**(d + 1) = x + 1
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + 1))
    steps = (1.0 / ratio) ** np.arange(1, dimensions + 1)
    return (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1.0
