"""Bounded slowdown of jobs: how many times as long as its run time a job takes from submission to end.

It stands alone because both simulations of jobs and the published table compute it.
"""

from __future__ import annotations

import numpy as np

from ..core import Floats

#: Seconds below which a run time does not count.
SLOWDOWN_BOUND_S = 10.0


def bounded_slowdown(wait: Floats, run_time: Floats, bound: float = SLOWDOWN_BOUND_S) -> Floats:
    """Return max(1, (wait + run) / max(run, bound)) of each job."""
    slowed: Floats = np.maximum(1.0, (wait + run_time) / np.maximum(run_time, bound))
    return slowed
