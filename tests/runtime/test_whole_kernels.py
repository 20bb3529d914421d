"""Measured run times of whole kernels."""

import math

from hybrid_scheduler.core import Outcome, workstation
from hybrid_scheduler.runtime.kernel_tasks import device_class_and_seconds


def test_whole_tasks_are_recorded_and_split_ones_are_not() -> None:
    machine, nan = workstation(1), math.nan
    assert device_class_and_seconds(Outcome(0, 1, 0.9, 0.0, 0.0, 1e-3, 0.0, 4e-3), machine) is None
    assert device_class_and_seconds(Outcome(0, 0, 0.0, 0.0, 0.0, 2.0, nan, 0.0), machine) == (0, 2.0)
    assert device_class_and_seconds(Outcome(0, 1, 1.0, 0.0, nan, 0.0, 0.0, 3.0), machine) == (1, 3.0)
