"""Estimates from measured runtimes, and which runs are learned from."""

import math

import pytest

from hybrid_scheduler.core import workstation
from hybrid_scheduler.profiling.calibration import platform_of
from hybrid_scheduler.profiling.hardware_profile import profile_named
from hybrid_scheduler.runtime.measured_runtimes import SPLIT, RuntimeHistory

CPU, GPU = 0, 1


@pytest.fixture
def history() -> RuntimeHistory:
    """On a machine with a GPU."""
    return RuntimeHistory(workstation(1))


def _learns(history: RuntimeHistory, kind: str, column: int, size: float, seconds: float) -> bool:
    history.record(kind, column, size, seconds)
    return history.learn_latest(kind, column)


def test_estimates_interpolate_and_extrapolate(history: RuntimeHistory) -> None:
    assert history.estimate("x", CPU, 10.0) is None
    history.record("x", CPU, 10.0, 1.0)
    history.record("x", CPU, 1000.0, 100.0)
    history.record("x", CPU, 20.0, math.nan)
    between = history.estimate("x", CPU, 100.0)
    assert between is not None
    assert between.seconds == pytest.approx(10.0)
    assert between.distance == pytest.approx(math.log(10.0))
    beyond = history.estimate("x", CPU, 2000.0)
    assert beyond is not None
    assert beyond.seconds == pytest.approx(400.0)
    history.record("x", CPU, 10.0, 2.0)  # the same size again: later runs have more weight
    again = history.estimate("x", CPU, 10.0)
    assert again is not None
    assert 1.0 < again.seconds < 2.0
    assert history.runs("x", CPU) == 3


def test_first_run_of_a_size_on_a_gpu_is_not_learned_from(history: RuntimeHistory) -> None:
    assert _learns(history, "fft", CPU, 100.0, 1.0)
    assert not _learns(history, "fft", GPU, 100.0, 1.0)
    assert _learns(history, "fft", GPU, 100.0, 1.0)
    assert _learns(history, "fft", GPU, 140.0, 1.0)  # near enough
    assert not _learns(history, "fft", GPU, 300.0, 1.0)
    assert not _learns(history, "sort", GPU, 100.0, 1.0)
    assert not _learns(history, "sort", SPLIT, 100.0, 1.0)
    assert (history.runs("fft", GPU), history.runs("fft", CPU), history.runs("sort", CPU)) == (4, 1, 0)
    assert (history.learned_runs("fft", GPU), history.learned_runs("fft", CPU)) == (2, 1)


def test_first_run_of_a_size_is_learned_from_without_a_gpu() -> None:
    pools = RuntimeHistory(platform_of(profile_named("cpu_only")))
    assert all(_learns(pools, "fft", column, 100.0, 1.0) for column in (0, 1, SPLIT))


def test_single_slow_run_is_an_outlier_and_a_second_one_is_not(history: RuntimeHistory) -> None:
    seconds = [1.0, 1.1, 8.0, 0.9, 8.0, 8.0, 8.0]
    assert [_learns(history, "fft", CPU, 100.0, one) for one in seconds] == [
        True, True, False, True, False, True, True,
    ]  # fmt: skip


def test_faster_run_is_always_learned_from(history: RuntimeHistory) -> None:
    assert _learns(history, "fft", CPU, 100.0, 1.0)
    assert _learns(history, "fft", CPU, 100.0, 0.01)


def test_growth_with_the_data_is_no_outlier(history: RuntimeHistory) -> None:
    assert _learns(history, "fft", CPU, 100.0, 1.0)
    assert _learns(history, "fft", CPU, 145.0, 2.6)


def test_measured_runs_outlive_what_was_learned(history: RuntimeHistory) -> None:
    assert _learns(history, "fft", CPU, 100.0, 1.0)
    history.forget_learned()
    assert history.learned_estimate("fft", CPU, 100.0) is None
    assert history.learned_estimates("fft", range(2), 100.0) == [None, None]
    assert history.estimate("fft", CPU, 100.0) is not None
    assert (history.runs("fft", CPU), history.learned_runs("fft", CPU)) == (1, 0)
