"""Large graphs, several accelerators and injected failures: every task ends once, and no memory is kept."""

import gc
import random
import threading
from collections import Counter
from concurrent.futures import CancelledError, wait
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.core import Decision, Online, Task, View
from hybrid_scheduler.runtime.accelerators import DeviceLostError
from hybrid_scheduler.runtime.data_handle import DataHandle, DataLostError
from hybrid_scheduler.runtime.task_function import TaskFunction
from hybrid_scheduler.testing import FakeAccelerator
from hybrid_scheduler.testing.fakes import OutOfMemoryError

MANY = np.ones((200, 200))


class _Fixed(Online):
    """Scheduler that places calls on devices in turn, or on one."""

    def __init__(self, *devices: int) -> None:
        self._devices = devices

    def decide(self, task: Task, view: View) -> Decision:
        device = self._devices[task.task_id % len(self._devices)]
        return Decision(device, float(device > 0))


@hs.auto
def mixed(x: Any, w: Any) -> Any:
    """Multiply and add, so that the order of additions shows in the last bits."""
    return hs.array_namespace(x).tanh(x @ w + x)


@hs.auto
def add(x: Any, y: Any) -> Any:
    """Add two arrays."""
    return x + y


def _fakes(count: int, **options: Any) -> list[FakeAccelerator]:
    return [FakeAccelerator(name=f"fake_{i}", **options) for i in range(count)]


def _graph_result(devices: tuple[int, ...]) -> bytes:
    """Return the bytes of everything that a graph of dependent products gives on fixed devices."""
    generator = np.random.default_rng(5)
    sources = [generator.normal(size=(24, 24)).astype(np.float32) for _ in range(4)]
    draw = random.Random(5)
    with hs.HybridExecutor(_Fixed(*devices), accelerators=_fakes(2), history=False, cores=2) as executor:
        futures: list[Any] = []
        for _ in range(80):
            inputs = [draw.choice([*sources, *futures[-8:]]) for _ in range(2)]
            futures.append(executor.submit(mixed, *inputs))
        return b"".join(one.result(timeout=60).tobytes() for one in futures)


@pytest.mark.parametrize("devices", [(0,), (1,), (0, 1, 2)])
def test_results_are_the_same_to_the_last_bit_with_fixed_placement(devices: tuple[int, ...]) -> None:
    first = _graph_result(devices)
    assert first == _graph_result(devices)
    assert first == _graph_result(devices)


# ------------------------------------------------------------------------------------------ short calls


def _waiting_thread(future: Any) -> threading.Thread:
    """Return a thread that waits for a result, which it marks as awaited before it begins to wait."""
    thread = threading.Thread(target=lambda: future.exception(timeout=60))
    thread.start()
    return thread


def _short_calls(executor: hs.HybridExecutor) -> None:
    """Let calls of `add` be expected to be short on the accelerator, and long on the CPU."""
    executor.graph.wait_ready()
    sizes = add.sizes_of([1.0, 1.0], (), {})
    for device_class, seconds in (("fake", 1e-4), ("fake", 1e-4), ("cpu", 10.0)):
        executor.graph.durations.learn(add.key, device_class, sizes, seconds)


def test_a_short_awaited_call_does_not_hold_up_those_behind_it_for_good() -> None:
    (fake,) = _fakes(1)
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=1) as executor:
        _short_calls(executor)
        for i in range(20):
            assert executor.submit(add, float(i), 1.0).result(timeout=60) == i + 1
        fake.pause()
        first = executor.submit(add, 1.0, 1.0)
        thread = _waiting_thread(first)
        others = [executor.submit(add, first, float(i)) for i in range(10)]
        fake.resume()
        assert [one.result(timeout=60) for one in others] == [2.0 + i for i in range(10)]
        thread.join(60)
        assert {one.device for one in executor.records} == {"fake_0"}


def test_a_device_that_is_lost_under_a_short_awaited_call_fails_it() -> None:
    lost = threading.Event()

    def fault(what: str) -> None:
        if what == "finish" and lost.is_set():
            raise DeviceLostError("unplugged")

    with hs.HybridExecutor(accelerators=_fakes(1, fault=fault), history=False, cores=1) as executor:
        _short_calls(executor)
        assert executor.submit(add, 1.0, 1.0).result(timeout=60) == 2.0
        lost.set()
        assert isinstance(executor.submit(add, 1.0, 1.0).exception(timeout=60), DeviceLostError)
        assert executor.submit(add, 1.0, 1.0).result(timeout=60) == 2.0  # on the CPU
        assert executor.graph.workers[0].lost is not None


# ------------------------------------------------------------------------------------------ several accelerators


@pytest.mark.parametrize("count", [2, 4])
def test_calls_are_spread_over_all_accelerators(count: int) -> None:
    fakes = _fakes(count)
    with hs.HybridExecutor(accelerators=fakes, history=False, cores=1) as executor:
        graph = executor.graph
        graph.wait_ready()
        graph.placement.bandwidth[:] = [1e10] * count
        sizes = add.sizes_of([MANY, 1.0], (), {})
        for device_class, seconds in (("fake", 10.0), ("fake", 10.0), ("cpu", 10_000.0)):
            graph.durations.learn(add.key, device_class, sizes, seconds)
        for one in fakes:
            one.pause()  # nothing ends, so that queues grow
        futures = [executor.submit(add, MANY, float(i)) for i in range(10 * count)]
        chosen = Counter(one.decision.space for one in futures if one.decision)
        for one in fakes:
            one.resume()
        assert chosen == dict.fromkeys(range(1, count + 1), 10)
        for i, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(timeout=60), MANY + i)


def test_an_array_goes_from_one_accelerator_to_another_once() -> None:
    fakes = _fakes(2)
    with hs.HybridExecutor(_Fixed(1, 2, 2, 2), accelerators=fakes, history=False, cores=1) as executor:
        executor.graph.wait_ready()
        before = fakes[1].counts["uploaded"]
        made = executor.submit(add, MANY, 1.0)  # task 0 on the first, the others on the second
        others = [executor.submit(add, made, float(i)) for i in range(1, 4)]
        for i, one in enumerate(others, 1):
            np.testing.assert_array_equal(one.result(timeout=60), MANY + 1 + i)
        handle = made.handle()
        assert isinstance(handle, DataHandle)
        assert set(handle.copies) == {0, 1, 2}
        assert fakes[0].counts["downloaded"] == MANY.nbytes
        assert fakes[1].counts["uploaded"] - before == MANY.nbytes


def test_a_copy_between_accelerators_counts_twice() -> None:
    fakes = _fakes(2)
    with hs.HybridExecutor(_Fixed(1), accelerators=fakes, history=False, cores=1) as executor:
        executor.graph.wait_ready()
        executor.graph.placement.bandwidth[:] = [1e9, 1e9]
        made = executor.submit(add, MANY, 1.0)
        made.handle()
        used = executor.submit(add, made, 1.0)
        used.handle()
        assert used.decision is not None
        transfers = {one.device: one.transfer for one in used.decision.candidates}
    assert transfers["fake_0"] == 0.0
    assert transfers["fake_1"] == pytest.approx(2 * transfers["cpu"])


@pytest.mark.parametrize("count", [2, 4])
def test_the_others_go_on_when_one_accelerator_is_lost(count: int) -> None:
    runs = [0]

    def fault(what: str) -> None:
        runs[0] += what == "run"
        if runs[0] > 5:
            raise DeviceLostError("unplugged")

    fakes = [FakeAccelerator(name="bad", fault=fault), *_fakes(count - 1)]
    turns = tuple(range(1, count + 1))
    with hs.HybridExecutor(_Fixed(*turns), accelerators=fakes, history=False, cores=2) as executor:
        futures = [executor.submit(add, MANY, float(i)) for i in range(20 * count)]
        lost = 0
        for i, one in enumerate(futures):
            try:
                np.testing.assert_array_equal(one.result(timeout=60), MANY + i)
            except DeviceLostError:
                lost += 1
        assert lost <= 5  # tasks that were not complete, and results that had been nowhere else
        assert "unplugged" in str(executor.graph.workers[0].lost)
        assert [worker.lost for worker in executor.graph.workers[1:]] == [None] * (count - 1)
        devices = Counter(one.device for one in executor.records)
        assert all(devices[f"fake_{i}"] == 20 for i in range(count - 1))
        assert devices["cpu"] >= 15


def test_data_that_is_lost_with_one_accelerator_does_not_close_another() -> None:
    lost = threading.Event()

    def fault(what: str) -> None:
        if lost.is_set():
            raise DeviceLostError("unplugged")

    fakes = [FakeAccelerator(name="bad", fault=fault), *_fakes(1)]
    with hs.HybridExecutor(_Fixed(1, 2), accelerators=fakes, history=False, cores=1) as executor:
        kept = executor.submit(add, MANY, 1.0)
        kept.handle(timeout=60)
        lost.set()
        error = executor.submit(add, kept, 1.0).exception(timeout=60)
        assert isinstance(error, DeviceLostError)
        assert "the data was lost with bad" in str(error)
        assert executor.graph.workers[1].lost is None


# ------------------------------------------------------------------------------------------ everything at once


def _longest(*values: Any) -> Any:
    """Return one more than the largest input: the length of the longest path."""
    total = np.zeros(64)
    for one in values:
        total = np.maximum(total, one)
    return total + 1


class _Injected:
    """Failures of devices and functions, drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._runs = 0

    def memory_error(self, what: str) -> None:
        if what == "run" and self._draw.random() < 0.02:
            raise OutOfMemoryError("injected")

    def loss(self, what: str) -> None:
        self._runs += what == "run"
        if self._runs > 150:
            raise DeviceLostError("injected")

    def merge(self, *values: Any) -> Any:
        if self._draw.random() < 0.001:
            raise ValueError("injected")
        return _longest(*values)

    def fragile(self, *values: Any) -> Any:
        if self._draw.random() < 0.01:
            raise TypeError("injected")  # the function stays on the CPU from now on
        return _longest(*values)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("scheduler", "tasks"), [("round_robin", 10_000), ("hybrid_ml", 2_000)])
def test_large_random_graphs_end_whatever_happens(scheduler: str, tasks: int) -> None:
    """Failures, cancellations, lack of memory, evictions and a lost device: every task ends once."""
    draw, injected = random.Random(3000), _Injected(3001)
    functions: list[Any] = [TaskFunction(injected.merge, _longest, name=f"merge_{i}") for i in range(4)]
    functions += [TaskFunction(_longest, injected.fragile, name="fragile"), injected.merge]
    limits = {"memory": 200 * 512, "capacity": 100 * 512, "speedup": 3.0}
    fakes = [
        FakeAccelerator(fault=injected.memory_error, name="fake_0", **limits),
        FakeAccelerator(fault=injected.loss, name="fake_1", **limits),
    ]
    source = np.ones(64)
    ended: Counter[int] = Counter()
    counting = threading.Lock()

    def count(future: Any) -> None:
        with counting:
            ended[future.number] += 1

    with hs.HybridExecutor(scheduler, accelerators=fakes, history=False, cores=2) as executor:
        futures: list[Any] = []
        inputs_of: list[list[int]] = []
        for number in range(tasks):
            inputs = (
                [draw.randrange(max(0, number - 50), number) for _ in range(draw.randint(0, 3))] if number else []
            )
            future = executor.submit(draw.choice(functions), source, *(futures[i] for i in inputs))
            future.add_done_callback(count)
            futures.append(future)
            inputs_of.append(inputs)
            if number % 97 == 0:
                draw.choice(futures[-20:]).cancel()
        done, missing = wait(futures, timeout=240)
        assert not missing
        assert set(ended.values()) == {1}
        assert len(ended) == tasks
        kinds = Counter(CancelledError if one.cancelled() else type(one.exception()) for one in done)
        allowed = {type(None), ValueError, hs.DependencyError, CancelledError, DeviceLostError, DataLostError}
        assert set(kinds) <= allowed
        assert kinds[type(None)] > tasks / 10
        lengths: list[int] = []
        for one, inputs in zip(futures, inputs_of, strict=True):
            lengths.append(1 + max([1, *(lengths[i] for i in inputs)]))
            if not one.cancelled() and one.exception() is None:
                try:
                    assert one.result()[0] == lengths[-1]
                except DeviceLostError:  # it ended well, and its result was lost with the device later
                    continue
        directory = executor.graph.directory
        if scheduler == "round_robin":
            assert fakes[0].counts["run"] > 100  # it was used, whatever failed before
            assert fakes[0].counts["recover"] > 0
            assert "injected" in str(executor.graph.workers[1].lost)
            assert executor.graph.workers[0].lost is None
            assert directory.evicted > 100
            assert directory.written_back > 100
        del future, done, one
        futures.clear()
        executor.graph.wait_learned()
        gc.collect()
        assert [directory.bytes_in(space) for space in (1, 2)] == [0, 0]
    gc.collect()
    assert [(one.allocated, one.locked) for one in fakes] == [(0, 0), (0, 0)]
