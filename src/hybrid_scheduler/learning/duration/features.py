"""Features of a task: five numbers on a logarithmic scale.

Durations are products of powers, so logarithms turn them into sums, and a task twice the size of anything seen
before lies a small step outside the known range instead of far away.
"""

from __future__ import annotations

import numpy as np

from ...compiled import helper
from ...core import Floats, Workload

FEATURE_NAMES = ("size", "intensity", "memory", "memory_per_size", "compute_to_memory")
NUM_FEATURES = len(FEATURE_NAMES)

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


@helper
def features_row(size, intensity, memory, out):  # type: ignore[no-untyped-def]
    """Write the features of one task into `out`."""
    megabytes = 1.0 + memory
    out[0] = np.log(size)
    out[1] = np.log1p(intensity)
    out[2] = np.log(megabytes)
    out[3] = np.log(megabytes / size)
    out[4] = np.log(size * (_MIN_INTENSITY + intensity) / megabytes)
