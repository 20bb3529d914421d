"""Time limits of ordinary calls, and devices that the program chooses for them."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.runtime.task_future import DependencyError
from hybrid_scheduler.testing import FakeAccelerator

LONG = 60.0
SOME = np.arange(4.0)
double = hs.auto(lambda values: values * 2)


@pytest.fixture
def executor() -> Iterator[hs.HybridExecutor]:
    with hs.HybridExecutor(accelerators=[FakeAccelerator()], history=False, cores=1) as made:
        yield made


class Gate:
    """Work that waits for an event, and returns its argument."""

    def __init__(self) -> None:
        self.begun, self.open, self.through = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, value: Any = None) -> Any:
        self.begun.set()
        assert self.open.wait(LONG)
        self.through.set()
        return value


# ------------------------------------------------------------------------------------------ time limits


@pytest.mark.parametrize("device", ["cpu", "fake_0"])
def test_timeout_ends_a_hanging_call_and_replaces_its_thread(executor: hs.HybridExecutor, device: str) -> None:
    gate = Gate()
    future = executor.submit_with(hs.auto(gate.__call__), (SOME,), device=device, timeout=0.05)
    behind = executor.submit_with(double, (SOME,), device=device, timeout=LONG)
    with pytest.raises(TimeoutError, match=r"took longer than 0\.05 s"):
        future.result(LONG)
    np.testing.assert_array_equal(behind.result(LONG), SOME * 2)
    gate.open.set()
    assert gate.through.wait(LONG)
    assert isinstance(future.exception(), TimeoutError)  # a late result changes nothing


def test_error_after_the_time_limit_has_no_effect(executor: hs.HybridExecutor) -> None:
    gate = Gate()
    cpu_runs: list[Any] = []

    def fails(values: Any) -> Any:
        gate(values)
        raise RuntimeError("late")

    function = hs.task(gpu=fails)(cpu_runs.append)
    with pytest.raises(TimeoutError):
        executor.submit_with(function, (SOME,), device="fake_0", timeout=0.05).result(LONG)
    late = next(one for one in threading.enumerate() if one.name == "hybrid-fake_0-starts")
    gate.open.set()
    late.join(LONG)
    assert executor.submit(sum, [1, 2]).result(LONG) == 3
    assert not cpu_runs
    assert not executor.graph.placement.facts_of(function.key).unusable


def test_plain_function_has_a_time_limit_too(executor: hs.HybridExecutor) -> None:
    gate = Gate()
    late = executor.submit_with(gate, timeout=0.05)
    assert executor.submit_with(sum, ([1, 2],), timeout=LONG).result(LONG) == 3
    assert isinstance(late.exception(LONG), TimeoutError)
    gate.open.set()


def test_tasks_that_wait_for_a_timed_out_one_fail_with_its_error(executor: hs.HybridExecutor) -> None:
    gate = Gate()
    late = executor.submit_with(gate, timeout=0.05)
    after = executor.submit(double, late)
    with pytest.raises(DependencyError) as caught:
        after.result(LONG)
    assert isinstance(caught.value.__cause__, TimeoutError)
    gate.open.set()


def test_shutdown_does_not_wait_for_a_timed_out_call(executor: hs.HybridExecutor) -> None:
    gates = Gate(), Gate()
    futures = [
        executor.submit_with(hs.auto(gate.__call__), (SOME,), device=device, timeout=0.05)
        for gate, device in zip(gates, ("cpu", "fake_0"), strict=True)
    ]
    closing = threading.Thread(target=executor.shutdown, daemon=True)
    closing.start()
    closing.join(LONG)
    assert not closing.is_alive()
    assert all(isinstance(one.exception(0), TimeoutError) for one in futures)
    assert [one.name for one in threading.enumerate() if one.name == "hybrid-watch"] == []
    for gate in gates:
        gate.open.set()


def test_waiting_does_not_count_towards_the_limit(executor: hs.HybridExecutor) -> None:
    gate = Gate()
    first = executor.submit(gate, 1)
    second = executor.submit_with(sum, ([2, 3],), timeout=LONG)
    assert not len(executor.graph.limits)  # it begins with the run
    gate.open.set()
    assert (first.result(LONG), second.result(LONG)) == (1, 5)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_timeout_is_refused(executor: hs.HybridExecutor, limit: float) -> None:
    with pytest.raises(InvalidInputError, match="timeout"):
        executor.submit_with(double, (SOME,), timeout=limit)


# ------------------------------------------------------------------------------------------ chosen devices


def test_calls_run_on_the_device_that_the_program_chose(executor: hs.HybridExecutor) -> None:
    for device in ("cpu", "fake_0", "cpu", "fake_0"):
        future = executor.submit_with(double, (SOME,), device=device)
        np.testing.assert_array_equal(future.result(LONG), SOME * 2)
        assert "because the program chose it" in executor.explain(future)
    assert [one.device for one in executor.records] == ["cpu", "fake_0", "cpu", "fake_0"]


def test_inputs_are_moved_to_the_chosen_device(executor: hs.HybridExecutor) -> None:
    first = executor.submit_with(double, (SOME,), device="fake_0")
    second = executor.submit_with(double, (first,), device="cpu")
    third = executor.submit_with(double, (second,), device="fake_0")
    np.testing.assert_array_equal(third.result(LONG), SOME * 8)


def test_unknown_and_unusable_devices_are_refused(executor: hs.HybridExecutor) -> None:
    with pytest.raises(UnknownNameError, match="cpu, fake_0"):
        executor.submit_with(double, (SOME,), device="gpu_7")
    with pytest.raises(InvalidInputError, match="no GPU variant"):
        executor.submit_with(sum, ([1],), device="fake_0")
    with pytest.raises(InvalidInputError, match="a callable"):
        executor.submit_with(3)  # type: ignore[arg-type]


def test_cancelled_first_call_of_a_function_holds_up_no_other(executor: hs.HybridExecutor) -> None:
    """Calls of a new function wait for its first measurement, which a cancelled call never makes."""
    gate = Gate()
    held = executor.submit_with(hs.auto(gate.__call__), (SOME,), device="fake_0", timeout=LONG)
    assert gate.begun.wait(LONG)
    first = executor.submit(double, SOME)
    assert first.cancel()
    second = executor.submit(double, SOME)
    gate.open.set()
    np.testing.assert_array_equal(second.result(LONG), SOME * 2)
    np.testing.assert_array_equal(held.result(LONG), SOME)
