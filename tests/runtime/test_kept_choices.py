"""Decisions that are cached for the next calls of the same case, and the share of such calls that is measured."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.runtime.device_placement import _MEASURED_EVERY, _MEASURED_FIRST, _REUSES
from hybrid_scheduler.runtime.function_durations import MeasuredOverhead
from hybrid_scheduler.testing import FakeAccelerator

SOME = np.ones((20, 20))


class _Steady(FakeAccelerator):
    """Accelerator whose runs all take the same time."""

    run_seconds = 1e-4

    def seconds(self, start: Any, end: Any, measured: float) -> float:
        return self.run_seconds


@hs.auto
def add(x: Any, y: Any) -> Any:
    """Add two values."""
    return x + y


@hs.auto
def swap(pair: Any) -> Any:
    """Exchange two values."""
    return pair[1], pair[0]


@pytest.fixture
def fake() -> _Steady:
    return _Steady()


@pytest.fixture
def executor(fake: _Steady, monkeypatch: pytest.MonkeyPatch) -> Iterator[hs.HybridExecutor]:
    monkeypatch.setattr(MeasuredOverhead, "note", lambda *_: None)  # as on a machine that nothing disturbs
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as made:
        made.graph.wait_ready()
        made.graph.placement.bandwidth[:] = [1e10]
        yield made


@pytest.fixture
def considered(executor: hs.HybridExecutor, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with every call for which all devices are considered."""
    found: list[str] = []
    consider = executor.graph.placement.consider

    def counting(call: Any) -> Any:
        found.append(call.function.name)
        return consider(call)

    monkeypatch.setattr(executor.graph.placement, "consider", counting)
    return found


def _learn(executor: hs.HybridExecutor, function: Any, seconds: dict[str, float], *values: Any) -> None:
    placed = [executor.put(one) if isinstance(one, np.ndarray) else one for one in values]
    for device_class, one in seconds.items():
        for _ in range(3):
            executor.graph.durations.learn(function.key, device_class, function.sizes_of(placed, (), {}), one)
        executor.graph.placement.facts_of(function.key).runs[device_class] = 2


def _counted(fake: _Steady, monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[float]:
    """Return a list that grows with every run that is measured."""
    found: list[float] = []

    def measure(*_: Any) -> float:
        found.append(seconds)
        return seconds

    monkeypatch.setattr(fake, "seconds", measure)
    return found


def test_further_calls_of_a_case_are_not_considered_again(
    executor: hs.HybridExecutor, considered: list[str]
) -> None:
    _learn(executor, add, {"fake": 1e-4, "cpu": 0.5}, SOME, 1.0)
    placed = executor.put(SOME)
    executor.submit(add, placed, 0.0).result(timeout=60)  # copies the array
    considered.clear()
    futures = [executor.submit(add, placed, float(i)) for i in range(_REUSES + 1)]
    for i, one in enumerate(futures):
        np.testing.assert_array_equal(one.result(timeout=60), SOME + i)
        assert one.space == 1
    assert len(considered) == 1
    executor.submit(add, placed, 1.0).result(timeout=60)  # the choice is examined again from time to time
    assert len(considered) == 2


def test_another_shape_place_or_type_is_another_case(executor: hs.HybridExecutor, considered: list[str]) -> None:
    for values in ((SOME, 1.0), (np.ones((30, 20)), 1.0), (SOME.astype(np.float32), 1.0), (SOME, 1)):
        _learn(executor, add, {"fake": 1e-4, "cpu": 0.5}, *values)
        before = len(considered)
        executor.submit(add, executor.put(values[0].copy()), values[1]).result(timeout=60)
        assert len(considered) == before + 1


@pytest.mark.parametrize(("other", "expected"), [(1003, 1), (2003, 2)])
def test_whole_numbers_with_the_same_leading_digits_are_one_case(
    executor: hs.HybridExecutor, considered: list[str], other: int, expected: int
) -> None:
    for number in (1000, other):
        _learn(executor, add, {"fake": 1e-4, "cpu": 0.5}, number, 1.0)
    assert executor.submit(add, 1000, 1.0).result(timeout=60) == 1001.0
    assert executor.submit(add, other, 1.0).result(timeout=60) == other + 1.0
    assert len(considered) == expected


def test_a_queue_sends_a_kept_case_to_another_device(
    executor: hs.HybridExecutor, fake: _Steady, considered: list[str]
) -> None:
    # Long enough that the queue grows on a machine that takes milliseconds to submit a call.
    _learn(executor, add, {"fake": 20e-3, "cpu": 80e-3}, SOME, 1.0)
    placed = executor.put(SOME)
    executor.submit(add, placed, 0.0).result(timeout=60)
    considered.clear()
    fake.pause()  # nothing ends there, so that its queue grows
    futures = [executor.submit(add, placed, float(i)) for i in range(12)]
    spaces = Counter(one.space for one in futures)
    fake.resume()
    for i, one in enumerate(futures):
        np.testing.assert_array_equal(one.result(timeout=60), SOME + i)
    assert set(spaces) == {0, 1}
    assert len(considered) == 1


def test_a_lost_device_ends_the_choice_that_is_kept_for_it(executor: hs.HybridExecutor) -> None:
    _learn(executor, add, {"fake": 1e-4}, SOME, 1.0)
    placed = executor.put(SOME)
    for _ in range(3):
        executor.submit(add, placed, 1.0).result(timeout=60)
    executor.graph.workers[0]._lose("unplugged")
    future = executor.submit(add, placed, 2.0)
    np.testing.assert_array_equal(future.result(timeout=60), SOME + 2)
    assert future.space == 0


def test_a_learned_time_that_moves_drops_the_kept_choice(
    executor: hs.HybridExecutor, fake: _Steady, considered: list[str]
) -> None:
    _learn(executor, add, {"fake": 1e-4, "cpu": 0.5}, SOME, 1.0)
    placed = executor.put(SOME)
    for _ in range(3):
        executor.submit(add, placed, 1.0).result(timeout=60)
    fake.run_seconds = 1e-2
    before = len(considered)
    for _ in range(3):  # the first slow run may be a disturbance
        executor.submit(add, placed, 1.0).result(timeout=60)
        executor.graph.wait_learned()
    assert len(considered) > before


def test_a_part_of_many_short_calls_is_measured_and_all_are_recorded(
    executor: hs.HybridExecutor, fake: _Steady, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = _counted(fake, monkeypatch, 1e-4)
    _learn(executor, add, {"fake": 1e-4, "cpu": 0.5}, SOME, 1.0)
    placed, calls = executor.put(SOME), 60
    for _ in range(calls):
        executor.submit(add, placed, 1.0).result(timeout=60)
    records = executor.records
    assert len(records) == calls
    assert all(one.seconds == pytest.approx(1e-4) for one in records)
    assert calls / _MEASURED_EVERY <= len(measured) <= calls / _MEASURED_EVERY + 2 * _MEASURED_FIRST


def test_all_long_calls_are_measured(
    executor: hs.HybridExecutor, fake: _Steady, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = _counted(fake, monkeypatch, 0.01)
    _learn(executor, add, {"fake": 0.01, "cpu": 0.5}, SOME, 1.0)
    placed = executor.put(SOME)
    for _ in range(20):
        executor.submit(add, placed, 1.0).result(timeout=60)
    assert len(executor.records) == len(measured) == 20


def test_results_in_tuples_are_kept_cases_too(executor: hs.HybridExecutor, considered: list[str]) -> None:
    _learn(executor, swap, {"fake": 1e-4, "cpu": 0.5}, SOME, SOME)
    value: Any = (executor.put(SOME), executor.put(SOME + 1))
    for _ in range(7):
        value = executor.submit(swap, value)
    first, second = value.result(timeout=60)
    np.testing.assert_array_equal(first, SOME + 1)
    np.testing.assert_array_equal(second, SOME)
    assert len(considered) <= 3


def test_keyword_arguments_are_part_of_the_case(executor: hs.HybridExecutor, considered: list[str]) -> None:
    _learn(executor, add, {"fake": 1e-4, "cpu": 0.5}, SOME, 1.0)
    placed = executor.put(SOME)
    for _ in range(4):
        np.testing.assert_array_equal(executor.submit(add, placed, y=1.0).result(timeout=60), SOME + 1)
    assert len(considered) == 2  # with the array in main memory, and on both


def test_calls_of_a_cpu_only_executor_run_in_place_once_they_are_known() -> None:
    with hs.HybridExecutor(device_type="cpu", history=False, cores=2) as executor:
        for i in range(20):
            np.testing.assert_array_equal(executor.submit(add, SOME, float(i)).result(timeout=60), SOME + i)
            executor.graph.wait_learned()
        assert len(executor.records) == 20


def test_a_choice_is_not_kept_before_the_function_was_measured(
    executor: hs.HybridExecutor, fake: _Steady, considered: list[str]
) -> None:
    placed = executor.put(SOME)
    fake.pause()  # nothing is measured
    futures = [executor.submit(add, placed, float(i)) for i in range(6)]
    assert not executor.graph.placement.facts_of(add.key).kept
    fake.resume()
    for i, one in enumerate(futures):
        np.testing.assert_array_equal(one.result(timeout=60), SOME + i)
    assert all(one.seconds > 0 for one in executor.records)


def test_a_kept_choice_follows_what_is_learned(executor: hs.HybridExecutor, fake: _Steady) -> None:
    _learn(executor, add, {"fake": 1e-4, "cpu": 0.5}, SOME, 1.0)
    placed = executor.put(SOME)
    for _ in range(2):
        executor.submit(add, placed, 1.0).result(timeout=60)
    fake.run_seconds = 1.5e-4
    for _ in range(4):
        executor.submit(add, placed, 1.0).result(timeout=60)
        executor.graph.wait_learned()
    future = executor.submit(add, placed, 1.0)
    future.result(timeout=60)
    assert 1e-4 < future.predicted <= 1.5e-4


def test_call_that_was_expected_to_take_far_longer_leaves_no_queue_behind(
    executor: hs.HybridExecutor, fake: _Steady
) -> None:
    _learn(executor, add, {"fake": 100.0}, SOME, 1.0)
    _learn(executor, swap, {"fake": 1e-4}, (SOME, 1.0))
    long = executor.submit(add, SOME, 1.0)
    assert long.space == 1
    assert long.predicted == pytest.approx(100.0)
    long.result(timeout=60)
    executor.graph.wait_learned()
    fake.pause()  # the next one does not end, so that there is a queue
    short = executor.submit(swap, (SOME, 1.0))
    assert short.space == 1
    assert executor.graph.workers[0].backlog() < 1.0
    fake.resume()
    short.result(timeout=60)


def test_queue_in_which_the_input_is_sends_no_call_to_another_device(
    executor: hs.HybridExecutor, fake: _Steady
) -> None:
    _learn(executor, add, {"fake": 20e-3, "cpu": 80e-3}, SOME, 1.0)
    fake.pause()
    chain = [executor.submit(add, SOME, 1.0)]
    for _ in range(12):
        chain.append(executor.submit(add, chain[-1], 1.0))
    spaces = [one.space for one in chain]
    fake.resume()
    np.testing.assert_array_equal(chain[-1].result(timeout=60), SOME + 13)
    assert spaces == [1] * 13


def test_queue_sends_calls_to_another_device_when_their_input_is_complete(
    executor: hs.HybridExecutor, fake: _Steady
) -> None:
    _learn(executor, add, {"fake": 20e-3, "cpu": 80e-3}, SOME, 1.0)
    first = executor.submit(add, SOME, 1.0)
    first.handle(timeout=60)
    fake.pause()
    futures = [executor.submit(add, first, float(i)) for i in range(12)]
    spaces = {one.space for one in futures}
    fake.resume()
    for i, one in enumerate(futures):
        np.testing.assert_array_equal(one.result(timeout=60), SOME + 1 + i)
    assert spaces == {0, 1}
