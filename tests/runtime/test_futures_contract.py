"""Contract of concurrent.futures: the executor behaves as a `ThreadPoolExecutor` does."""

import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from typing import Any

import pytest

from hybrid_scheduler import HybridExecutor, InvalidInputError
from hybrid_scheduler.testing import FakeAccelerator

#: Seconds after which something that should happen at once has failed.
LIMIT = 30.0


def _make(kind: str) -> Executor:
    if kind == "threads":
        return ThreadPoolExecutor(2)
    accelerators = [FakeAccelerator()] if kind == "accelerator" else []
    return HybridExecutor(cores=2, accelerators=accelerators, history=False)


@pytest.fixture(params=["threads", "cores", "accelerator"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    made = _make(request.param)
    yield made
    made.shutdown(cancel_futures=True)


class Gate:
    """Tasks that keep both cores busy until the gate is opened."""

    def __init__(self, executor: Executor, tasks: int = 2) -> None:
        self._open, started = threading.Event(), threading.Semaphore(0)

        def task(number: int) -> int:
            started.release()
            assert self._open.wait(LIMIT)
            return number

        self.futures = [executor.submit(task, i) for i in range(tasks)]
        for _ in range(tasks):
            assert started.acquire(timeout=LIMIT)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(executor: Executor) -> Iterator[Gate]:
    made = Gate(executor)
    yield made
    made.open()


def broken(*_: object) -> None:
    raise ZeroDivisionError("on purpose")


def test_unknown_option_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="option of HybridExecutor: must be one of") as caught:
        HybridExecutor(histroy=False)
    assert caught.value.hint == "did you mean 'history'?"


# ---------------------------------------------------------------- submit


def test_submit_passes_all_arguments(executor: Executor) -> None:
    def arguments(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return args, kwargs

    future = executor.submit(arguments, 1, [2, (3,)], fn=4, self=5, function=6)
    assert future.result(LIMIT) == ((1, [2, (3,)]), {"fn": 4, "self": 5, "function": 6})
    assert future.done()
    assert not future.running()
    assert future.exception() is None


def test_arguments_and_results_are_the_same_objects(executor: Executor) -> None:
    thing: list[Any] = [{}, (object(),)]
    assert executor.submit(lambda value: value, thing).result(LIMIT) is thing


def test_argument_that_contains_itself_is_passed(executor: Executor) -> None:
    ring: list[Any] = [{}]
    ring[0]["ring"] = ring
    assert executor.submit(lambda value: value[0]["ring"] is value, ring).result(LIMIT)


def test_error_of_a_task_is_raised_with_its_traceback(executor: Executor) -> None:
    future = executor.submit(broken, 1)
    with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
        future.result(LIMIT)
    assert "in broken" in "".join(traceback.format_exception(caught.value))
    assert future.exception() is caught.value


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_base_exception_of_a_task_is_raised_and_the_core_goes_on(
    executor: Executor, error: type[BaseException]
) -> None:
    def stop() -> None:
        raise error

    futures = [executor.submit(stop) for _ in range(4)]
    for future in futures:
        assert isinstance(future.exception(LIMIT), error)
    assert executor.submit(abs, -1).result(LIMIT) == 1


def test_result_times_out(executor: Executor, gate: Gate) -> None:
    with pytest.raises(TimeoutError):
        gate.futures[0].result(0)
    with pytest.raises(TimeoutError):
        gate.futures[0].exception(0.001)
    gate.open()
    assert gate.futures[0].result(LIMIT) == 0


def test_task_may_submit_tasks(executor: Executor) -> None:
    inner = executor.submit(lambda: executor.submit(abs, -2)).result(LIMIT)
    assert inner.result(LIMIT) == 2


def test_submitting_from_many_threads_loses_nothing(executor: Executor) -> None:
    futures: list[Future[int]] = []

    def submit() -> None:
        futures.extend([executor.submit(abs, -i) for i in range(200)])

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sum(future.result(LIMIT) for future in futures) == 8 * sum(range(200))


# ---------------------------------------------------------------- callbacks


def test_callbacks_run_once_in_order_and_their_errors_are_ignored(executor: Executor, gate: Gate) -> None:
    seen: list[Any] = []
    future = gate.futures[0]
    future.add_done_callback(seen.append)
    future.add_done_callback(broken)
    future.add_done_callback(lambda one: seen.append(one.result()))
    assert seen == []
    gate.open()
    executor.shutdown()
    future.add_done_callback(lambda one: seen.append("late"))
    assert seen == [future, 0, "late"]


def test_callback_runs_for_a_cancelled_task(executor: Executor, gate: Gate) -> None:
    seen: list[Any] = []
    future = executor.submit(abs, 1)
    future.add_done_callback(seen.append)
    assert future.cancel()
    assert seen == [future]


def test_callback_runs_for_a_failed_task(executor: Executor) -> None:
    seen = threading.Event()
    executor.submit(broken).add_done_callback(lambda one: seen.set() if one.exception() else None)
    assert seen.wait(LIMIT)


# ---------------------------------------------------------------- cancel


def test_task_that_waits_can_be_cancelled(executor: Executor, gate: Gate) -> None:
    ran: list[int] = []
    future = executor.submit(ran.append, 1)
    assert future.cancel()
    assert future.cancel()
    assert future.cancelled()
    assert future.done()
    with pytest.raises(CancelledError):
        future.result(LIMIT)
    with pytest.raises(CancelledError):
        future.exception(LIMIT)
    gate.open()
    executor.shutdown()
    assert ran == []


def test_task_that_runs_or_has_ended_is_not_cancelled(executor: Executor, gate: Gate) -> None:
    running = gate.futures[0]
    assert running.running()
    assert not running.cancel()
    gate.open()
    assert running.result(LIMIT) == 0
    assert not running.cancel()
    assert not running.cancelled()


# ---------------------------------------------------------------- map


def test_map_gives_results_in_order(executor: Executor) -> None:
    assert list(executor.map(pow, range(50), [2] * 50)) == [i**2 for i in range(50)]
    assert list(executor.map(abs, [])) == []
    assert list(executor.map(abs, [-1, -2, -3], timeout=LIMIT, chunksize=2)) == [1, 2, 3]
    assert list(executor.map(pow, [1, 2, 3], [1, 1])) == [1, 2]


def test_map_submits_before_it_is_read(executor: Executor) -> None:
    ran = threading.Event()
    executor.map(lambda _: ran.set(), [1])
    assert ran.wait(LIMIT)


def test_map_raises_the_error_when_its_result_is_reached(executor: Executor) -> None:
    results = executor.map(divmod, [1, 2, 3], [1, 0, 1])
    assert next(results) == (1, 0)
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_map_times_out(executor: Executor, gate: Gate) -> None:
    with pytest.raises(TimeoutError):
        list(executor.map(abs, [1, 2], timeout=0.01))


def test_map_that_is_given_up_cancels_the_rest(executor: Executor, gate: Gate) -> None:
    ran: list[int] = []
    results = executor.map(ran.append, range(10), timeout=0.01)
    with pytest.raises(TimeoutError):
        next(results)
    gate.open()
    executor.shutdown()
    assert ran == []


# ---------------------------------------------------------------- wait, as_completed


def test_as_completed_yields_every_future_once(executor: Executor, gate: Gate) -> None:
    quick = [executor.submit(abs, i) for i in range(5)]
    cancelled = executor.submit(abs, 1)
    cancelled.cancel()
    gate.open()
    order = list(as_completed([*gate.futures, *quick, cancelled, cancelled], timeout=LIMIT))
    assert len(order) == 8
    assert set(order) == {*gate.futures, *quick, cancelled}


def test_as_completed_times_out(executor: Executor, gate: Gate) -> None:
    with pytest.raises(TimeoutError, match=r"2 \(of 2\) futures unfinished"):
        list(as_completed(gate.futures, timeout=0.01))


def test_wait_returns_at_the_first_result(executor: Executor) -> None:
    gate = Gate(executor, tasks=1)
    quick = executor.submit(abs, 1)
    done, waiting = wait([*gate.futures, quick], LIMIT, FIRST_COMPLETED)
    assert (done, waiting) == ({quick}, set(gate.futures))
    gate.open()


def test_wait_returns_at_the_first_error(executor: Executor) -> None:
    gate = Gate(executor, tasks=1)
    failed = executor.submit(broken)
    done, waiting = wait([*gate.futures, failed], LIMIT, FIRST_EXCEPTION)
    assert (done, waiting) == ({failed}, set(gate.futures))
    gate.open()
    done, waiting = wait([*gate.futures, failed], LIMIT)
    assert not waiting


def test_wait_times_out(executor: Executor, gate: Gate) -> None:
    done, waiting = wait(gate.futures, timeout=0.001)
    assert (done, waiting) == (set(), set(gate.futures))


# ---------------------------------------------------------------- shutdown


def test_shutdown_refuses_new_tasks_and_ends_those_it_has(executor: Executor) -> None:
    futures = [executor.submit(abs, -i) for i in range(100)]
    executor.shutdown()
    assert all(future.done() for future in futures)
    executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(abs, 1)
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.map(abs, [1])


def test_shutdown_cancels_waiting_tasks_if_asked(executor: Executor, gate: Gate) -> None:
    waiting = [executor.submit(abs, i) for i in range(20)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in waiting)
    gate.open()
    assert [future.result(LIMIT) for future in gate.futures] == [0, 1]


def test_shutdown_without_waiting_runs_what_waits_and_ends_the_threads(executor: Executor) -> None:
    before = set(threading.enumerate())
    gate = Gate(executor)
    waiting = [executor.submit(abs, -i) for i in range(20)]
    own = set(threading.enumerate()) - before
    executor.shutdown(wait=False)
    assert not waiting[0].done()
    gate.open()
    assert [future.result(LIMIT) for future in waiting] == list(range(20))
    deadline = time.monotonic() + LIMIT
    for thread in own:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not [thread.name for thread in own if thread.is_alive()]


def test_leaving_the_context_waits(executor: Executor) -> None:
    with executor:
        gate = Gate(executor)
        waiting = executor.submit(abs, -3)
        gate.open()
    assert waiting.done()


def test_dropped_executor_ends_its_threads() -> None:
    before = set(threading.enumerate())
    for kind in ("threads", "cores", "accelerator"):
        assert _make(kind).submit(abs, -1).result(LIMIT) == 1
    deadline = time.monotonic() + LIMIT
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, deadline - time.monotonic()))
        assert not thread.is_alive(), thread.name


PROGRAM = """
import os, threading
from concurrent.futures import ThreadPoolExecutor
from hybrid_scheduler import HybridExecutor

begin = threading.Event()

def task(name):
    begin.wait()
    os.write(1, f"{name} ".encode())  # in one piece, unlike print

def main():
    dropped, closed = make(), make()
    for number in range(4):
        dropped.submit(task, f"dropped_{number}")
        closed.submit(task, f"closed_{number}")
    closed.shutdown(wait=False)

make = lambda: MAKE
main()
kept = make()
for number in range(4):
    kept.submit(task, f"kept_{number}")
begin.set()
"""


@pytest.mark.parametrize(
    "make", ["ThreadPoolExecutor(2)", "HybridExecutor(cores=2, device_type='cpu', history=False)"]
)
def test_program_ends_after_its_tasks(make: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("MAKE", make)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    expected = {f"{kind}_{number}" for kind in ("dropped", "closed", "kept") for number in range(4)}
    assert set(done.stdout.split()) == expected
    assert done.stderr == ""
