"""Arrays that a program changes between its calls: every result is what NumPy gives at the time of the call."""

import os
import threading
from concurrent.futures import as_completed, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybrid_scheduler as hs
from hybrid_scheduler.core import Decision, Online, Task, View
from hybrid_scheduler.testing import FakeAccelerator

#: Random programs of the property test; HYBRID_PROGRAMS=10000 is the long run.
PROGRAMS = int(os.environ.get("HYBRID_PROGRAMS", "60"))
_TIMEOUT = 60


class _InTurn(Online):
    """Scheduler that places calls on devices in turn."""

    def __init__(self, *devices: int) -> None:
        self._devices = devices

    def decide(self, task: Task, view: View) -> Decision:
        device = self._devices[task.task_id % len(self._devices)]
        return Decision(device, float(device > 0))


@hs.auto
def doubled(x: Any) -> Any:
    """Return twice an array."""
    return x * 2


@hs.auto
def combined(x: Any, y: Any) -> Any:
    """Return a new array of two."""
    return x * 3 + y


@hs.auto
def same(x: Any) -> Any:
    """Return the argument itself."""
    return x


def _executor(*devices: int, fakes: int = 1) -> hs.HybridExecutor:
    accelerators = [FakeAccelerator(name=f"fake_{i}") for i in range(fakes)]
    executor = hs.HybridExecutor(_InTurn(*devices), accelerators=accelerators, history=False, cores=2)
    executor.graph.wait_ready()
    return executor


def _uploads(executor: hs.HybridExecutor) -> int:
    return sum(worker.accelerator.counts["upload"] for worker in executor.graph.workers)  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------ changed in place


def _ends_by_callback(executor: hs.HybridExecutor, future: Any) -> None:
    ended = threading.Event()
    future.add_done_callback(lambda _: ended.set())
    assert ended.wait(_TIMEOUT)


def _ends_by_a_dependent(executor: hs.HybridExecutor, future: Any) -> None:
    ended = threading.Event()
    executor.submit(lambda _: ended.set(), future)
    assert ended.wait(_TIMEOUT)


def _ends_by_done(executor: hs.HybridExecutor, future: Any) -> None:
    while not future.done():
        pass


_WAYS_TO_END = [
    _ends_by_callback,
    _ends_by_a_dependent,
    _ends_by_done,
    lambda executor, future: future.exception(),
    lambda executor, future: future.handle(),
    lambda executor, future: wait([future]),
    lambda executor, future: list(as_completed([future])),
    lambda executor, future: executor.records,
    lambda executor, future: executor.submit(doubled, future).result(),
]


@pytest.mark.parametrize("end", _WAYS_TO_END)
def test_an_array_may_change_however_the_program_learns_of_the_end(end: Any) -> None:
    values = np.ones(3)
    with _executor(1) as executor:
        for step in range(3):
            future = executor.submit(doubled, values)
            end(executor, future)
            values += 1
            assert executor.submit(doubled, values).result().tolist() == [2.0 * step + 4.0] * 3
            assert future.result().tolist() == [2.0 * step + 2.0] * 3


@pytest.mark.parametrize("devices", [(0,), (1,), (0, 1), (1, 2)])
def test_an_array_changed_between_calls_is_copied_again(devices: tuple[int, ...]) -> None:
    values, futures = np.arange(6.0), []
    with _executor(*devices, fakes=2) as executor:
        for step in range(10):
            futures.append(executor.submit(doubled, values))
            np.testing.assert_array_equal(futures[-1].result(timeout=_TIMEOUT), values * 2)
            values += step + 1


def test_an_array_changed_through_a_view_is_copied_again() -> None:
    base = np.zeros((4, 4))
    row, kept = base[1], []
    with _executor(1) as executor:
        for step in range(5):
            kept.append(executor.submit(doubled, row))
            np.testing.assert_array_equal(kept[-1].result(), row * 2)
            base[:] = step + 1.0
            kept.append(executor.submit(combined, base, row))
            np.testing.assert_array_equal(kept[-1].result(), base * 3 + row)
            row += 1


def test_a_read_only_view_of_an_array_that_changes_is_copied_again() -> None:
    base = np.zeros(4)
    view = base.view()
    view.flags.writeable = False
    with _executor(1) as executor:
        first = executor.submit(doubled, view)
        assert first.result().tolist() == [0.0] * 4
        base += 1
        assert executor.submit(doubled, view).result().tolist() == [2.0] * 4


def test_a_memory_map_is_copied_again(tmp_path: Path) -> None:
    path = tmp_path / "values"
    np.arange(4.0).tofile(path)
    writable = np.memmap(path, dtype=float, mode="r+")
    readable = np.memmap(path, dtype=float, mode="r")
    with _executor(1) as executor:
        first = executor.submit(doubled, readable)
        assert first.result().tolist() == [0.0, 2.0, 4.0, 6.0]
        writable[:] = 1.0
        writable.flush()
        assert executor.submit(doubled, readable).result().tolist() == [2.0] * 4


def test_a_tensor_that_shares_memory_with_an_array_is_copied_again() -> None:
    torch = pytest.importorskip("torch")
    values = np.arange(4.0)
    tensor = torch.from_numpy(values)
    with _executor(0) as executor:
        first = executor.submit(doubled, tensor)
        assert first.result().tolist() == [0.0, 2.0, 4.0, 6.0]
        values += 1
        assert executor.submit(doubled, tensor).result().tolist() == [2.0, 4.0, 6.0, 8.0]
        assert executor.submit(doubled, values).result().tolist() == [2.0, 4.0, 6.0, 8.0]


def test_an_end_that_only_a_dependent_shows_allows_changes() -> None:
    values = np.ones(3)
    with _executor(1) as executor:
        first = executor.submit(doubled, values)
        assert executor.submit(doubled, first).result().tolist() == [4.0] * 3
        values += 1  # the first has ended, or its dependent could not have
        assert executor.submit(doubled, values).result().tolist() == [4.0] * 3


# ------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize("devices", [(0,), (1,), (1, 0), (0, 1)])
def test_a_result_changed_in_place_is_passed_on_as_it_is(devices: tuple[int, ...]) -> None:
    with _executor(*devices) as executor:
        future = executor.submit(doubled, np.ones(3))
        for step in range(4):
            result = future.result()
            result[:] = step
            assert executor.submit(doubled, result).result().tolist() == [2.0 * step] * 3
            assert executor.submit(doubled, future).result().tolist() == [2.0 * step] * 3
            assert executor.submit(doubled, future.handle()).result().tolist() == [2.0 * step] * 3


def test_a_result_changed_through_its_handle_is_passed_on_as_it_is() -> None:
    with _executor(1) as executor:
        handle = executor.submit(doubled, np.ones(3)).handle()
        np.asarray(handle)[:] = 5.0
        assert executor.submit(doubled, handle).result().tolist() == [10.0] * 3


def test_a_result_that_is_its_argument_changes_with_it() -> None:
    values = np.ones(3)
    with _executor(0, 1) as executor:
        future = executor.submit(same, values)  # on the CPU, which returns the array itself
        assert executor.submit(doubled, future).result().tolist() == [2.0] * 3
        executor.submit(doubled, values).result()
        values += 1
        assert executor.submit(doubled, future).result().tolist() == [4.0] * 3


def test_a_result_of_a_plain_function_may_change() -> None:
    values = np.ones(3)
    with _executor(1) as executor:
        future = executor.submit(lambda: values)
        assert executor.submit(doubled, future).result().tolist() == [2.0] * 3
        values += 1
        assert executor.submit(doubled, future).result().tolist() == [4.0] * 3
        assert executor.submit(combined, [future][0], values).result().tolist() == [8.0] * 3


# ------------------------------------------------------------------------------------------ copies that serve again


def test_one_copy_serves_all_tasks_that_are_under_way() -> None:
    values = np.ones(3)
    with _executor(1) as executor:
        fake: Any = executor.graph.workers[0].accelerator
        before = _uploads(executor)
        fake.pause()
        futures = [executor.submit(doubled, values) for _ in range(5)]
        assert _uploads(executor) == before + 1
        fake.resume()
        futures += [executor.submit(doubled, values) for _ in range(5)]  # the program has not seen any end
        assert _uploads(executor) == before + 1
        assert [one.result().tolist() for one in futures] == [[2.0] * 3] * 10
        executor.submit(doubled, values).result()
        assert _uploads(executor) == before + 2


def _frozen() -> np.ndarray[Any, Any]:
    values = np.ones(3)
    values.flags.writeable = False
    return values[:]


@pytest.mark.parametrize("keep_futures", [False, True])
def test_an_array_that_cannot_change_is_copied_once(keep_futures: bool) -> None:
    values, kept = _frozen(), []
    with _executor(1) as executor:
        before = _uploads(executor)
        placed = executor.put(np.ones(3))
        for argument in (values, np.frombuffer(bytes(24)), placed):
            for _ in range(4):
                future = executor.submit(doubled, argument)
                future.result()
                if keep_futures:
                    kept.append(future)
                del future
        assert _uploads(executor) == before + 3


def test_copies_of_an_array_that_cannot_change_go_with_it() -> None:
    values = _frozen()
    with _executor(1) as executor:
        executor.submit(doubled, values).result()
        executor.graph.wait_learned()
        assert executor.graph.directory.bytes_in(1) == 24
        del values
        assert executor.graph.directory.bytes_in(1) == 0
        assert executor.graph.workers[0].accelerator.allocated == 0  # type: ignore[attr-defined]


def test_copies_of_an_array_that_cannot_change_make_space() -> None:
    values = _frozen()
    fake = FakeAccelerator(memory=100)
    with hs.HybridExecutor(_InTurn(1), accelerators=[fake], history=False, cores=1) as executor:
        executor.graph.wait_ready()
        executor.submit(doubled, values).result()
        for step in range(4):
            assert executor.submit(doubled, np.full(6, step)).result().tolist() == [2 * step] * 6
            assert executor.submit(doubled, values).result().tolist() == [2.0] * 3


def test_an_array_made_writable_again_is_copied_again() -> None:
    values = np.ones(3)
    values.flags.writeable = False
    with _executor(1) as executor:
        assert executor.submit(doubled, values).result().tolist() == [2.0] * 3
        values.flags.writeable = True
        values += 1
        assert executor.submit(doubled, values).result().tolist() == [4.0] * 3


# ------------------------------------------------------------------------------------------ what put would save


def test_explain_and_summary_name_arrays_that_are_copied_often() -> None:
    values = np.ones((20, 30))
    with _executor(1) as executor:
        for _ in range(6):
            future = executor.submit(doubled, values)
            assert future.result().shape == (20, 30)
        assert "an array float64[20, 30] was copied 6 times" in executor.explain(future)
        assert "executor.put" in executor.explain(future)
        assert "an array float64[20, 30] was copied 6 times" in executor.summary()


def test_summary_of_a_program_that_copies_nothing_twice_advises_nothing() -> None:
    with _executor(1) as executor:
        placed = executor.put(np.ones(3))
        for _ in range(4):
            executor.submit(doubled, placed).result()
            executor.submit(doubled, np.ones(3)).result()
        assert "put" not in executor.summary()


# ------------------------------------------------------------------------------------------ random programs

_ARRAYS = 3
_STEPS = st.one_of(
    st.tuples(st.just("change"), st.integers(0, 9), st.integers(1, 9)),
    st.tuples(st.just("view"), st.integers(0, 9), st.sampled_from(["[:]", "[::-1]", "[1:]", ".T", "reshape"])),
    st.tuples(st.just("call"), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("many"), st.integers(0, 9), st.integers(2, 4)),
    st.tuples(st.just("chain"), st.integers(0, 9), st.integers(2, 4)),
    st.tuples(st.just("change result"), st.integers(0, 9), st.integers(1, 9)),
    st.tuples(st.just("call future"), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("same"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("put"), st.integers(0, 9), st.booleans()),
)


def _view(values: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    views = {"[:]": values[:], "[::-1]": values[::-1], ".T": values.T, "reshape": values.reshape(-1)}
    return views.get(kind, values)


class _Program:
    """Random program: it runs on an executor, and each result is compared with NumPy's at once."""

    def __init__(self, executor: hs.HybridExecutor) -> None:
        self._executor = executor
        self._arrays = [np.arange(4.0) + i for i in range(_ARRAYS)]
        #: Futures, whose results the program may have changed.
        self._futures: list[Any] = []

    def _array(self, number: int) -> np.ndarray[Any, Any]:
        return self._arrays[number % len(self._arrays)]

    def _submit(self, function: Any, *arguments: Any) -> Any:
        plain = [one.result() if isinstance(one, hs.TaskFuture) else one for one in arguments]
        expected = np.array(function.cpu(*plain))
        future = self._executor.submit(function, *arguments)
        self._futures.append(future)
        return future, expected

    def step(self, kind: str, first: int, second: Any) -> None:
        """Carry out one step."""
        values = self._array(first)
        if kind == "change":
            values *= 0.5
            values += second
        elif kind == "view":
            self._arrays.append(_view(values, second))
        elif kind == "call":
            self._check(*self._submit(combined, values, self._array(second)))
        elif kind == "many":
            calls = [self._submit(combined, values, self._array(first + i)) for i in range(second)]
            for call in calls:
                self._check(*call)
        elif kind == "chain":
            future, expected = self._submit(doubled, values)
            for _ in range(second):
                future = self._executor.submit(combined, future, values)
                expected = expected * 3 + values
            self._check(future, expected)
        elif kind == "put":
            constant = values.copy()
            placed = self._executor.put(constant) if second else constant
            constant.flags.writeable = False
            self._check(*self._submit(combined, values, constant))
            assert (self._executor.submit(doubled, placed).result(_TIMEOUT) == constant * 2).all()
        elif kind == "same":
            future, expected = self._submit(same, values)
            self._check(future, expected)
            self._arrays.append(future.result())
        elif self._futures:
            future = self._futures[first % len(self._futures)]
            if kind == "change result":
                future.result(_TIMEOUT)[...] += second
                self._arrays.append(future.result())
            else:
                self._check(*self._submit(combined, future, self._array(second)))

    def _check(self, future: Any, expected: np.ndarray[Any, Any]) -> None:
        np.testing.assert_array_equal(future.result(_TIMEOUT), expected)


@pytest.mark.timeout(300 + PROGRAMS)
@settings(max_examples=PROGRAMS)
@given(st.lists(_STEPS, min_size=4, max_size=24), st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_random_programs_give_what_numpy_gives(steps: list[tuple[str, int, Any]], devices: list[int]) -> None:
    with _executor(*devices, fakes=2) as executor:
        program = _Program(executor)
        for step in steps:
            program.step(*step)


def test_two_threads_that_share_an_array_get_what_numpy_gives() -> None:
    constant, wrong = np.arange(5.0), []

    def work(executor: hs.HybridExecutor, seed: int) -> None:
        own = np.full(5, float(seed))
        for step in range(30):
            result = executor.submit(combined, own, constant).result(_TIMEOUT)
            if not (result == own * 3 + constant).all():
                wrong.append((seed, step))
            own += 1

    with _executor(1, 0, 2, fakes=2) as executor:
        threads = [threading.Thread(target=work, args=(executor, seed)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_TIMEOUT)
    assert not wrong
