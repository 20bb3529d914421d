"""Robust timing statistics, on a fake clock."""

import math
from collections.abc import Iterator
from itertools import chain, cycle, repeat

import numpy as np
import pytest
import torch

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.profiling import timing
from hybrid_scheduler.profiling.timing import MIN_RUNS, RepetitionLimits, Timing, fixed_threads, timed


class FakeClock:
    """Stands still except while a sample runs."""

    def __init__(self, runs: Iterator[float]) -> None:
        self.now, self.runs, self.count = 0.0, runs, 0

    def __call__(self) -> float:
        return self.now

    def sample(self) -> float:
        seconds = next(self.runs)
        self.now += seconds
        self.count += 1
        return seconds


def timing_of(runs: Iterator[float], **limits: float) -> tuple[Timing, FakeClock]:
    clock = FakeClock(runs)
    return timing.repeat(clock.sample, RepetitionLimits(**limits), clock), clock


def test_warm_up_runs_do_not_count() -> None:
    timing, _ = timing_of(chain([5.0, 0.5], repeat(0.001)), seconds=10.0)
    assert timing == Timing(0.001, 0.0, 0.001, 0.001, 10)


def test_spikes_move_neither_median_nor_spread() -> None:
    quiet = cycle([0.0099, 0.01, 0.0101])
    disturbed = (9.0 if i % 7 == 3 else next(quiet) for i in range(10**6))
    timing, _ = timing_of(disturbed, seconds=400.0, precision=1e-9)
    assert timing.median == pytest.approx(0.01, rel=0.02)
    assert timing.spread < 0.0003
    assert timing.high < 0.0102
    assert timing.n > 100


def test_spread_is_a_standard_deviation() -> None:
    samples = np.random.default_rng(3).normal(10.0, 0.5, 20_000)
    timing = Timing.of(samples)
    assert timing.spread == pytest.approx(0.5, rel=0.03)
    assert timing.uncertainty == pytest.approx(math.sqrt(math.pi / 2) * 0.5 / math.sqrt(20_000) / 10, rel=0.03)


def test_timing_stops_when_it_is_precise() -> None:
    timing, clock = timing_of(repeat(0.01), seconds=100.0, warmup_seconds=0.0)
    assert (timing.n, clock.count) == (10, 12)


def test_imprecise_timing_continues_until_the_time_is_up() -> None:
    timing, clock = timing_of(cycle([0.01, 0.02, 0.03]), seconds=2.0, precision=1e-6)
    assert timing.n == pytest.approx(100, abs=2)
    assert clock.now < 2.2


def test_slow_run_is_still_measured_three_times() -> None:
    timing, clock = timing_of(repeat(50.0), seconds=1.0)
    assert timing.n == MIN_RUNS
    assert clock.count == MIN_RUNS + 1  # one warm-up is enough when it takes so long


def test_number_of_runs_is_limited() -> None:
    timing, _ = timing_of(cycle([1e-6, 9e-6]), seconds=9.0, most_runs=37, precision=1e-9)
    assert timing.n == 37


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_limits_must_be_positive(value: float) -> None:
    with pytest.raises(InvalidInputError, match="seconds"):
        RepetitionLimits(seconds=value)


def test_waits_for_the_device_before_and_after() -> None:
    clock, order = FakeClock(repeat(1.0)), []

    def wait() -> None:
        order.append("wait")
        clock.now += 10.0 if order.count("wait") == 1 else 2.0

    def action() -> None:
        order.append("action")
        clock.now += 1.0

    assert timed(action, wait, clock)() == 3.0  # what was under way before does not count
    assert order == ["wait", "action", "wait"]


def test_threads_are_restored_even_after_a_failure() -> None:
    before = torch.get_num_threads()
    seen = []

    def fail() -> None:
        with fixed_threads(before + 1):
            seen.append(torch.get_num_threads())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [before + 1]
    assert torch.get_num_threads() == before
