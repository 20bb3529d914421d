"""Calls that are started by the thread that submits them, and measurements on the CPU beside them."""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.core import Decision, Online, Task, View
from hybrid_scheduler.runtime.accelerator_worker import _MAX_STARTED
from hybrid_scheduler.runtime.accelerators import DeviceLostError
from hybrid_scheduler.testing import FakeAccelerator

SOME = np.ones((20, 20))


class _OnAccelerator(Online):
    """Scheduler that places every call on the accelerator."""

    def decide(self, task: Task, view: View) -> Decision:
        return Decision(1, 1.0)


@hs.auto
def add(x: Any, y: Any) -> Any:
    """Add two values."""
    return x + y


@pytest.fixture
def fake() -> FakeAccelerator:
    return FakeAccelerator(speedup=100.0)


@pytest.fixture
def executor(fake: FakeAccelerator) -> Iterator[hs.HybridExecutor]:
    with hs.HybridExecutor(_OnAccelerator(), accelerators=[fake], history=False, cores=2) as made:
        made.graph.wait_ready()
        yield made


# ------------------------------------------------------------------------------------------ starting


def test_a_call_is_started_by_the_thread_that_submits_it(executor: hs.HybridExecutor) -> None:
    threads: list[int] = []

    def note(x: Any) -> Any:
        threads.append(threading.get_ident())
        return x

    noted = hs.task(gpu=note)(lambda x: x)
    value: Any = SOME
    for _ in range(5):
        value = executor.submit(noted, value)
    np.testing.assert_array_equal(value.result(), SOME)
    assert set(threads) == {threading.get_ident()}


def test_calls_are_started_one_at_a_time_whichever_threads_submit_them(executor: hs.HybridExecutor) -> None:
    running, most = [0], [0]

    def counted(x: Any) -> Any:
        running[0] += 1
        most[0] = max(most[0], running[0])
        found = x + 1
        running[0] -= 1
        return found

    function = hs.task(gpu=counted)(lambda x: x + 1)

    def chain(_: int) -> float:
        value: Any = SOME
        for _ in range(30):
            value = executor.submit(function, value)
        return float(value.result(timeout=60)[0, 0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(chain, range(4))) == [31.0] * 4
    assert most == [1]


def test_a_call_may_submit_another_one_and_wait_for_it(executor: hs.HybridExecutor) -> None:
    outer = hs.task(gpu=lambda x: executor.submit(add, x, 1.0).result())(lambda x: x)
    assert executor.submit(outer, 3.0).result(timeout=60) == 4.0


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_exit_in_a_call_ends_the_call(executor: hs.HybridExecutor, error: type[BaseException]) -> None:
    def leave(_: Any) -> Any:
        raise error("now")

    function = hs.task(gpu=leave)(lambda x: x)
    if error is KeyboardInterrupt:  # meant for the program
        with pytest.raises(KeyboardInterrupt):
            executor.submit(function, SOME)
    else:
        assert isinstance(executor.submit(function, SOME).exception(timeout=60), error)
    assert executor.submit(add, 1.0, 1.0).result(timeout=60) == 2.0
    assert executor.graph.unfinished == 0


def test_calls_beyond_the_limit_wait_and_can_be_cancelled(
    executor: hs.HybridExecutor, fake: FakeAccelerator
) -> None:
    fake.pause()
    futures = [executor.submit(add, SOME, float(i)) for i in range(_MAX_STARTED + 20)]
    assert not futures[0].cancel()
    assert futures[-1].cancel()
    fake.resume()
    for i, one in enumerate(futures[:-1]):
        np.testing.assert_array_equal(one.result(timeout=60), SOME + i)


# ------------------------------------------------------------------------------------------ ending


def test_a_future_whose_result_was_read_is_done(executor: hs.HybridExecutor) -> None:
    future = executor.submit(add, SOME, 1.0)
    np.testing.assert_array_equal(future.result(), SOME + 1)
    assert future.done()
    called: list[Any] = []
    future.add_done_callback(called.append)
    assert called == [future]


def test_a_future_that_another_thread_ends_is_done_once_its_result_was_read() -> None:
    ready, ending, asked = threading.Event(), threading.Event(), threading.Event()
    main = threading.get_ident()

    class _SlowToEnd(FakeAccelerator):
        def finish(self, event: Any) -> None:
            if ready.is_set() and threading.get_ident() != main:
                ending.set()
                asked.wait(60)
            super().finish(event)

    with hs.HybridExecutor(_OnAccelerator(), accelerators=[_SlowToEnd(speedup=100.0)], history=False) as executor:
        executor.graph.wait_ready()
        ready.set()
        future = executor.submit(add, SOME, 1.0)
        assert ending.wait(60)  # the device's own thread ends it, because no other did
        np.testing.assert_array_equal(future.result(), SOME + 1)
        threading.Timer(0.05, asked.set).start()
        assert future.done()


def test_a_future_is_not_done_before_its_device_is(executor: hs.HybridExecutor, fake: FakeAccelerator) -> None:
    fake.pause()
    future = executor.submit(add, SOME, 1.0)
    assert not future.done()
    with pytest.raises(TimeoutError):
        future.result(timeout=0.01)
    called = threading.Event()
    future.add_done_callback(lambda _: called.set())
    fake.resume()
    assert called.wait(60)
    assert future.done()


def test_calls_end_without_a_thread_that_asks_for_them(executor: hs.HybridExecutor) -> None:
    futures = [executor.submit(add, SOME, float(i)) for i in range(10)]
    assert not wait(futures, timeout=60).not_done


def test_a_device_that_fails_after_the_start_is_the_error_of_the_result() -> None:
    lost = threading.Event()

    def fault(what: str) -> None:
        if what == "finish" and lost.is_set():
            raise DeviceLostError("unplugged")

    fakes = [FakeAccelerator(fault=fault)]
    with hs.HybridExecutor(_OnAccelerator(), accelerators=fakes, history=False, cores=1) as executor:
        executor.graph.wait_ready()
        kept = executor.submit(add, SOME, 1.0)
        lost.set()
        with pytest.raises(DeviceLostError):
            kept.result()
        assert executor.graph.workers[0].lost is not None
        assert executor.submit(add, 1.0, 1.0).result(timeout=60) == 2.0  # on the CPU


# ------------------------------------------------------------------------------------------ measurements


def test_the_program_does_not_wait_for_a_measurement_on_the_cpu(fake: FakeAccelerator) -> None:
    gate, begun = threading.Event(), threading.Event()

    def slow(x: Any) -> Any:
        begun.set()
        assert gate.wait(60)
        return x + 1

    function = hs.task(gpu=lambda x: x + 1)(slow)
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as executor:
        executor.graph.wait_ready()
        try:
            while not begun.is_set():
                np.testing.assert_array_equal(executor.submit(function, SOME).result(), SOME + 1)
            for _ in range(5):
                np.testing.assert_array_equal(executor.submit(function, SOME).result(), SOME + 1)
        finally:
            gate.set()
        executor.graph.wait_learned()
        assert {one.device for one in executor.records} == {"fake_0"}
        assert {row[1] for row in executor.graph.durations.rows()} == {"fake", "cpu"}


def test_a_measurement_that_fails_is_not_repeated_and_fails_no_call(fake: FakeAccelerator) -> None:
    tries: list[int] = []

    def broken(x: Any) -> Any:
        tries.append(1)
        raise ValueError("only on accelerators")

    function = hs.task(gpu=lambda x: x + 1)(broken)
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as executor:
        executor.graph.wait_ready()
        for _ in range(8):
            np.testing.assert_array_equal(executor.submit(function, SOME).result(), SOME + 1)
            executor.graph.wait_learned()
        assert {one.device for one in executor.records} == {"fake_0"}
    assert len(tries) == 1


def test_a_larger_call_is_tried_where_small_ones_were_slower(fake: FakeAccelerator) -> None:
    sized = hs.auto(size=lambda n: n)(lambda n: n)
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as executor:
        executor.graph.wait_ready()
        for device_class, n, seconds in (("fake", 10, 3e-4), ("cpu", 10, 1e-4), ("cpu", 100_000, 0.5)):
            call = hs.auto(size=n)(lambda: None).sizes_of([], (), {})
            for _ in range(3):
                executor.graph.durations.learn(sized.key, device_class, call, seconds)
        small, large = executor.submit(sized, 10), executor.submit(sized, 100_000)
        assert (small.result(timeout=60), large.result(timeout=60)) == (10, 100_000)
        assert small.decision is not None
        assert large.decision is not None
        assert (small.decision.space, large.decision.space) == (0, 1)
        assert "has not been measured here yet" in executor.explain(large)


def test_waiting_threads_are_notified_when_tasks_end(executor: hs.HybridExecutor) -> None:
    futures = [executor.submit(add, SOME, i) for i in range(_MAX_STARTED)]
    told: list[int] = []

    def noting(number: int) -> Callable[[object], None]:
        return lambda _: told.append(number)

    def ask(way: int) -> None:
        for number, one in enumerate(futures):
            if way == 0:
                assert float(one.result()[0, 0]) == 1.0 + number
            elif way == 1:
                one.add_done_callback(noting(number))
            else:
                assert not wait([one], timeout=30.0).not_done

    with ThreadPoolExecutor(6) as pool:
        for asking in [pool.submit(ask, i % 3) for i in range(6)]:
            asking.result(60.0)
    assert sorted(told) == sorted([*range(_MAX_STARTED)] * 2)


def test_ended_calls_leave_little_for_the_garbage_collector(executor: hs.HybridExecutor) -> None:
    data, calls = executor.put(SOME), 300

    def run() -> int:
        for one in [executor.submit(add, data, data) for _ in range(calls)]:
            one.result()
        for _ in range(2):  # the learner lets go of its last batch when the next one comes
            executor.graph.wait_learned()
        gc.collect()
        return sum(str(type(one).__module__).startswith("hybrid_scheduler") for one in gc.get_objects())

    run()
    before = run()
    # One object for each call would let Python look through all objects of the program every few thousand calls.
    assert run() - before < calls / 2
    assert len(executor.records) == 3 * calls
