"""Calls that return their result directly, in the calling thread where the CPU is best."""

import threading
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.runtime.executor import _DIRECT_CALLS
from hybrid_scheduler.testing import FakeAccelerator

SOME = np.ones((20, 20))


def _threads() -> tuple[list[int], Any]:
    """Return a list of the threads that ran a function on the CPU, and the function."""
    found: list[int] = []

    def run(x: Any) -> Any:
        found.append(threading.get_ident())
        return x + 1

    return found, hs.task(gpu=lambda x: x + 1)(run)


def _learn(executor: hs.HybridExecutor, function: Any, seconds: dict[str, float]) -> None:
    sizes = function.sizes_of([executor.put(SOME)], (), {})
    for device_class, expected in seconds.items():
        for _ in range(3):
            executor.graph.durations.learn(function.key, device_class, sizes, expected)


def test_without_an_accelerator_the_calling_thread_runs_it_and_nothing_is_recorded() -> None:
    found, function = _threads()
    with hs.HybridExecutor(device_type="cpu", history=False) as executor:
        for _ in range(5):
            np.testing.assert_array_equal(executor.call(function, SOME), SOME + 1)
        assert executor.records == []
    assert found == [threading.get_ident()] * 5


def test_calls_that_the_cpu_ends_first_are_direct_and_asked_about_again() -> None:
    _, function = _threads()
    with hs.HybridExecutor(accelerators=[FakeAccelerator()], history=False, cores=2) as executor:
        executor.graph.wait_ready()
        _learn(executor, function, {"fake": 1.0, "cpu": 1e-5})
        for _ in range(2 * (_DIRECT_CALLS + 1)):
            np.testing.assert_array_equal(executor.call(function, SOME), SOME + 1)
        assert [one.device for one in executor.records] == ["cpu", "cpu"]


def test_calls_that_an_accelerator_ends_first_run_there() -> None:
    found, function = _threads()
    with hs.HybridExecutor(accelerators=[FakeAccelerator()], history=False, cores=2) as executor:
        executor.graph.wait_ready()
        _learn(executor, function, {"fake": 1e-6, "cpu": 5.0})
        for _ in range(5):
            np.testing.assert_array_equal(executor.call(function, SOME), SOME + 1)
        assert {one.device for one in executor.records} == {"fake_0"}
    assert found == []


def test_other_arguments_and_plain_functions_are_submitted() -> None:
    _, function = _threads()
    with hs.HybridExecutor(device_type="cpu", history=False) as executor:
        future = executor.submit(function, SOME)
        np.testing.assert_array_equal(executor.call(function, future), SOME + 2)
        np.testing.assert_array_equal(executor.call(function, x=SOME), SOME + 1)
        assert executor.call(pow, 2, 3) == 8
        assert len(executor.records) == 3


def test_errors_are_those_of_the_function_and_a_closed_executor_refuses() -> None:
    executor = hs.HybridExecutor(device_type="cpu", history=False)
    with pytest.raises(ZeroDivisionError):
        executor.call(hs.auto(lambda n: 1 // n), 0)
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.call(hs.auto(lambda n: n), 1)
