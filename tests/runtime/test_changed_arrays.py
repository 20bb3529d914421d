"""Arrays that a program changes between its calls: every result is what NumPy gives at the time of the call."""

import math
import os
import random
import sys
import threading
from concurrent.futures import as_completed, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

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


@pytest.mark.parametrize("make", [lambda: kept, lambda: values_of, lambda: part_of])
def test_a_result_that_the_program_can_reach_otherwise_may_change(make: Any) -> None:
    values, function = np.ones(3), make()
    argument = Record(values) if function is values_of else values
    with _executor(1) as executor:
        future = executor.submit_with(function, (argument,), device="cpu")
        for _ in range(3):
            expected = function.cpu(argument) * 2
            np.testing.assert_array_equal(executor.submit(doubled, future).result(), expected)
            values += 1
            _KEPT[:] += 1


def test_a_new_result_of_a_core_is_copied_once() -> None:
    with _executor(1) as executor:
        before = _uploads(executor)
        future = executor.submit_with(doubled, (np.ones(3),), device="cpu")
        for _ in range(3):
            assert executor.submit(doubled, future).result().tolist() == [4.0] * 3
        assert _uploads(executor) == before + 1


class _Own(np.ndarray[Any, Any]):
    """Array of a class of its own."""


@pytest.mark.parametrize("make", [lambda one: one.view(_Own), lambda one: np.ma.masked_equal(one, 2.0)])
def test_arrays_with_a_way_of_their_own_to_compute_stay_on_the_cpu(make: Any) -> None:
    values = make(np.arange(4.0).reshape(2, 2))
    with _executor(1) as executor:
        first = executor.submit(doubled, values)
        second = executor.submit(same, first)
        assert type(second.result()) is type(values)
        assert str(second.result()) == str(values * 2)
        assert (first.space, second.space) == (0, 0)
        assert "only the CPU can hold" in executor.explain(first)
        with pytest.raises(hs.InvalidInputError, match="torch tensor"):
            executor.put(values)


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


@dataclass
class Record:
    """Arrays in an object that the executor does not look into."""

    values: Any


class Pair(NamedTuple):
    """Two arrays."""

    first: Any
    second: Any


#: Array that functions return without having been given it.
_KEPT = np.arange(4.0)


@hs.auto
def kept(x: Any) -> Any:
    """Return an array that the program can change at any time."""
    return _KEPT


@hs.auto
def kept_part(x: Any) -> Any:
    """Return a part of an array that the program can change at any time."""
    return {"part": [_KEPT[1:], _KEPT[::-1][0:1]]}


@hs.auto
def part_of(x: Any) -> Any:
    """Return a view of a view of an array."""
    return x[..., ::-1][..., 1:]


@hs.auto
def values_of(record: Any) -> Any:
    """Return the array of a record."""
    return record.values


@hs.auto
def first_of(values: Any) -> Any:
    """Return twice the first array inside of containers."""
    while not hasattr(values, "shape"):
        values = next(iter(values.values() if isinstance(values, dict) else values))
    return values * 2


@hs.auto
def divided(x: Any, *, parts: Any = 2) -> Any:
    """Return both halves, as views on the CPU."""
    return [x.reshape(-1)[: x.size // parts], (x.reshape(-1)[x.size // parts :], {"whole": x})]


@hs.auto
def total(*values: Any, more: Any = ()) -> Any:
    """Return the sum of all elements of all arrays."""
    return sum(float(np.asarray(one).sum()) for one in (*values, *more))


def _plain(value: Any) -> Any:
    """Return a value with every array as a NumPy array of its own."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return np.array(value)


def _assert_equal(value: Any, expected: Any) -> None:
    assert type(value) is type(expected)
    if isinstance(value, list):
        assert len(value) == len(expected)
        for one, other in zip(value, expected, strict=True):
            _assert_equal(one, other)
    elif isinstance(value, dict):
        assert list(value) == list(expected)
        _assert_equal(list(value.values()), list(expected.values()))
    else:
        np.testing.assert_array_equal(value, expected)


class _Program:
    """Random program that changes arrays, views and results in place between its calls.

    Every call runs on an executor and, at the time when it is submitted, in plain Python. While calls are under way
    nothing changes, as the executor demands; once they have ended, in whatever way the program learns of it,
    everything may.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self._draw = random.Random(seed)
        draw = self._draw
        memory = draw.choice([math.inf, math.inf, 150.0])
        self.fakes = [FakeAccelerator(name=f"fake_{i}", memory=memory) for i in range(2)]
        devices = [draw.randrange(3) for _ in range(draw.randrange(1, 6))]
        self.executor = hs.HybridExecutor(_InTurn(*devices), accelerators=self.fakes, history=False, cores=2)
        self.executor.graph.wait_ready()
        self._arrays: list[Any] = [np.arange(4.0) + i for i in range(3)]
        self._arrays += [np.arange(8.0).reshape(2, 4), _KEPT]
        path = folder / f"{seed}.bin"
        np.arange(4.0).tofile(path)
        self._arrays += [np.memmap(path, dtype=float, mode="r+"), np.memmap(path, dtype=float, mode="r")]
        self._futures: list[Any] = []
        self._open: list[tuple[Any, Any]] = []
        #: Futures of calls on the cores, and the program's arrays, or views of them, that those return.
        self._aliases: list[tuple[Any, Any]] = []
        #: Those of them that may be under way. Reading their results would show the arrays to the program.
        self._unread: list[Any] = []

    def _array(self) -> Any:
        return self._draw.choice(self._arrays)

    def _argument(self) -> Any:
        return self._draw.choice(self._futures) if self._futures and self._draw.random() < 0.4 else self._array()

    def _now(self, value: Any) -> Any:
        """Return a value of the plain program: that of a future is its result."""
        if isinstance(value, hs.TaskFuture):
            return value.result(_TIMEOUT)
        if isinstance(value, list | tuple):
            inner = [self._now(one) for one in value]
            return type(value)(*inner) if isinstance(value, Pair) else type(value)(inner)
        if isinstance(value, dict):
            return {key: self._now(one) for key, one in value.items()}
        return value

    def _call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        expected = _plain(function.cpu(*self._now(arguments), **self._now(named)))
        future = self.executor.submit(function, *arguments, **named)
        self._open.append((future, expected))
        return future

    def _calls(self) -> None:
        draw = self._draw
        kind = draw.randrange(11)
        if kind <= 2:
            self._futures.append(self._call(draw.choice([doubled, same]), self._array()))
        elif kind == 3:
            one = self._array()
            self._call(total, one, self._array(), one, more=[self._array(), self._array()])
        elif kind == 4:
            self._futures.append(self._call(draw.choice([kept, values_of]), Record(self._array())))
        elif kind == 5:
            inner = self._argument()
            boxed = draw.choice([[inner], {"a": inner}, {"a": [(inner, 2), 1]}, Pair(inner, inner), ([[inner]],)])
            self._futures.append(self._call(first_of, boxed))
        elif kind == 6:
            self._call(divided, self._array(), parts=draw.choice([2, 4]))
        elif kind == 7:
            self._call(first_of, self.executor.submit(kept_part, self._array()))
        elif kind == 8:
            self._chain()
        else:
            self._alias()

    def _chain(self) -> None:
        first = self._array()
        expected = np.array(first)
        future = first
        for _ in range(self._draw.randrange(1, 4)):
            future = self.executor.submit(combined, future, first)
            expected = expected * 3 + first
        self._futures.append(future)
        self._open.append((future, expected))

    def _alias(self) -> None:
        """Let a core return an array that the program can reach, or use what one has returned."""
        draw = self._draw
        if not self._aliases or draw.random() < 0.4:
            function = draw.choice([kept, values_of, same, part_of])
            argument = self._array()
            argument = Record(argument) if function is values_of else argument
            future = self.executor.submit_with(function, (argument,), device="cpu")
            self._aliases.append((future, function.cpu(argument)))
            self._unread.append(future)
        future, values = draw.choice(self._aliases)
        for _ in range(draw.randrange(1, 4)):
            self._open.append((self.executor.submit(doubled, future), values * 2))
            if draw.random() < 0.5:
                self._end()
                self._write(values)

    def _direct(self) -> None:
        argument = self._array()
        self._end()
        expected = _plain(first_of.cpu([argument]))
        _assert_equal(_plain(self.executor.call(first_of, [argument])), expected)
        _assert_equal(_plain(self.executor.call(doubled, argument)), _plain(doubled.cpu(argument)))
        _assert_equal(_plain(next(iter(self.executor.map(doubled, [argument])))), _plain(argument * 2))

    def _look(self) -> None:
        """Learn, in one of several ways, that all calls have ended."""
        futures = [future for future, _ in self._open]
        way = self._draw.randrange(6)
        if way == 0:
            wait(futures, _TIMEOUT)
        elif way == 1:
            list(as_completed(futures, _TIMEOUT))
        elif way == 2:
            assert self.executor.records is not None
        elif way == 3:
            for future in futures:
                _ends_by_callback(self.executor, future)
        elif way == 4:
            for future in futures:
                assert future.exception(_TIMEOUT) is None

    def _end(self) -> None:
        """End all calls, some of which are checked only after the program has changed everything."""
        self._look()
        assert not wait(self._unread, _TIMEOUT).not_done
        self._unread.clear()
        for future, expected in self._open:
            _assert_equal(_plain(future.result(_TIMEOUT)), expected)
        self._open.clear()

    def _change(self) -> None:
        draw = self._draw
        self._end()
        kind = draw.randrange(8)
        if kind <= 2:
            self._write(self._array())
        elif kind == 3 and self._futures:
            self._write(draw.choice(self._futures).result(_TIMEOUT))
        elif kind == 4 and self._futures:
            values = np.asarray(draw.choice(self._futures).handle(_TIMEOUT))
            self._write(values)
            self._arrays.append(values)
        elif kind == 5:
            values = self._array()
            self._arrays.append(draw.choice([values[:], values[::-1], values.T, values.reshape(-1)[1:]]))
        elif kind == 6:
            view = self._array().view()
            view.flags.writeable = False
            self._arrays.append(view)
        else:
            tensor = self._tensor(self._array())
            if tensor is not None:
                self._arrays.append(tensor.numpy())
                self._call_tensor(tensor)

    def _write(self, values: Any) -> None:
        if isinstance(values, np.ndarray) and values.flags.writeable:
            values *= 0.5
            values += self._draw.randrange(1, 9)

    def _tensor(self, values: Any) -> Any:
        torch = sys.modules.get("torch")
        plain = type(values) is np.ndarray and values.flags.writeable and all(one > 0 for one in values.strides)
        return torch.from_numpy(values) if torch is not None and plain else None

    def _call_tensor(self, tensor: Any) -> None:
        future = self.executor.submit_with(doubled, (tensor,), device="cpu")
        np.testing.assert_array_equal(future.result(_TIMEOUT).numpy(), tensor.numpy() * 2)

    def _paused(self) -> None:
        """Submit several calls while the accelerators are busy."""
        self._end()
        for fake in self.fakes:
            if fake.memory == math.inf:  # a full one would wait for the end of what it runs
                fake.pause()
        try:
            first = self._array()
            for _ in range(self._draw.randrange(1, 4)):
                self._call(combined, first, first)
                self._call(total, self._array(), first)
        finally:
            for fake in self.fakes:
                fake.resume()

    def run(self) -> None:
        """Run the program."""
        with self.executor:
            for _ in range(self._draw.randrange(3, 16)):
                step = self._draw.random()
                if step < 0.5:
                    self._calls()
                elif step < 0.85:
                    self._change()
                else:
                    self._draw.choice([self._paused, self._direct, self._end])()
                if self._draw.random() < 0.2 and self._futures:
                    self._futures.pop(0)
            self._end()


@pytest.mark.timeout(300 + PROGRAMS)
def test_random_programs_give_what_numpy_gives(tmp_path: Path) -> None:
    for seed in range(PROGRAMS):
        try:
            _Program(seed, tmp_path).run()
        except BaseException as error:
            error.add_note(f"program {seed}")
            raise
    assert len(list(tmp_path.iterdir())) == PROGRAMS


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
