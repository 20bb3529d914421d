"""Estimates from measured run times of kernels."""

import math

import pytest

from hybrid_scheduler.core import Outcome, workstation
from hybrid_scheduler.runtime.kernel_durations import KernelDurations, device_class_and_seconds


def test_estimates_interpolate_and_extrapolate() -> None:
    durations = KernelDurations()
    assert durations.estimate("x", 0, 10.0) is None
    durations.record("x", 0, 20.0, math.nan)
    assert durations.estimate("x", 0, 10.0) is None
    durations.record("x", 0, 10.0, 1.0)
    durations.record("x", 0, 1000.0, 100.0)
    assert durations.estimate("x", 0, 100.0) == pytest.approx(10.0)
    assert durations.estimate("x", 0, 2000.0) == pytest.approx(400.0)
    assert durations.estimate("x", 0, 5.0) == pytest.approx(0.25)
    durations.record("x", 0, 10.0, 2.0)  # the same size again: later runs have more weight
    again = durations.estimate("x", 0, 10.0)
    assert again is not None
    assert 1.0 < again < 2.0
    assert durations.estimate("x", 1, 10.0) is None
    assert durations.estimate("y", 0, 10.0) is None


def test_whole_tasks_are_recorded_and_split_ones_are_not() -> None:
    machine, nan = workstation(1), math.nan
    assert device_class_and_seconds(Outcome(0, 1, 0.9, 0.0, 0.0, 1e-3, 0.0, 4e-3), machine) is None
    assert device_class_and_seconds(Outcome(0, 0, 0.0, 0.0, 0.0, 2.0, nan, 0.0), machine) == (0, 2.0)
    assert device_class_and_seconds(Outcome(0, 1, 1.0, 0.0, nan, 0.0, 0.0, 3.0), machine) == (1, 3.0)
