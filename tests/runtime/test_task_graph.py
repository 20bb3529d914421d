"""Ordinary functions on the executor: dependencies, data that stays where it is, failures, and what is refused."""

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, wait
from typing import Any

import numpy as np
import pytest
import torch

import hybrid_scheduler as hs
from hybrid_scheduler.core import Decision, InvalidInputError, Online, Outcome, Task, View
from hybrid_scheduler.runtime.accelerators import DeviceLostError
from hybrid_scheduler.runtime.function_durations import MeasuredOverhead
from hybrid_scheduler.runtime.task_function import TaskFunction
from hybrid_scheduler.testing import FakeAccelerator

MANY = np.ones((300, 300))


@hs.auto
def step(x: Any, w: Any) -> Any:
    """Take one step of a chain."""
    return hs.array_namespace(x).tanh(x @ w)


@hs.auto
def add(*values: Any) -> Any:
    """Add numbers or arrays."""
    total = values[0]
    for one in values[1:]:
        total = total + one
    return total


@pytest.fixture
def fake() -> FakeAccelerator:
    return FakeAccelerator(speedup=100.0)


@pytest.fixture
def executor(fake: FakeAccelerator) -> Iterator[hs.HybridExecutor]:
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as made:
        yield made


def _learn(executor: hs.HybridExecutor, function: TaskFunction, *args: Any) -> None:
    """Call a function until both devices have run it."""
    executor.graph.placement.facts_of(function.key).seconds = 10.0  # so that it may be measured on the CPU at once
    for _ in range(6):
        executor.submit(function, *args).result()
        executor.graph.wait_learned()


# ------------------------------------------------------------------------------------------ results


def test_futures_as_arguments_are_replaced_by_their_results(executor: hs.HybridExecutor) -> None:
    x, w = np.full((8, 8), 0.1), np.eye(8)
    value: Any = x
    for _ in range(5):
        value = executor.submit(step, value, w)
    expected = x
    for _ in range(5):
        expected = np.tanh(expected @ w)
    np.testing.assert_allclose(value.result(), expected)


def test_futures_inside_containers_are_replaced(executor: hs.HybridExecutor) -> None:
    one, two = executor.submit(add, 1, 2), executor.submit(add, MANY, 1.0)
    plain = executor.submit(lambda parts, named: parts[0] + named["x"].sum(), [one, (5,)], named={"x": two})
    assert plain.result() == 3 + MANY.size * 2
    total = executor.submit(hs.auto(lambda parts: parts[0] + parts[1][0]), [one, (two,)])
    np.testing.assert_allclose(total.result(), MANY + 4)


def test_the_library_of_the_arguments_comes_back(executor: hs.HybridExecutor) -> None:
    _learn(executor, add, MANY, 1.0)
    assert isinstance(executor.submit(add, MANY, 1.0).result(), np.ndarray)
    tensor = executor.submit(hs.task()(lambda x: x * 2), torch.ones(3))
    assert isinstance(tensor.result(), torch.Tensor)
    assert executor.submit(add, tensor, 1.0).result().tolist() == [3.0, 3.0, 3.0]


def test_results_may_be_containers_and_numbers(executor: hs.HybridExecutor) -> None:
    halves = hs.auto(lambda x: (x[:1], {"rest": x[1:], "name": "x"}))
    for _ in range(4):
        first, rest = executor.submit(halves, np.arange(3.0)).result()
        assert first.tolist() == [0.0]
        assert rest["rest"].tolist() == [1.0, 2.0]
        assert rest["name"] == "x"
        executor.graph.wait_learned()
    assert executor.submit(hs.auto(lambda x: x.sum()), np.arange(4)).result() == 6


def test_map_and_run_return_results_in_order(executor: hs.HybridExecutor) -> None:
    assert list(executor.map(hs.auto(lambda x: x + 1), range(5))) == [1, 2, 3, 4, 5]
    assert hs.run(add, 1, 2) == 3


def test_a_task_may_submit_tasks_and_wait_for_them(executor: hs.HybridExecutor) -> None:
    _learn(executor, add, 1, 2)  # so short that it runs in the submitting thread

    def outer() -> Any:
        first = executor.submit(add, 1, 1)
        return executor.submit(add, first, executor.submit(add, first, 1)).result(timeout=60)

    assert executor.submit(outer).result(timeout=60) == 5


# ------------------------------------------------------------------------------------------ data


def test_data_stays_on_the_device_until_it_is_asked_for(fake: FakeAccelerator) -> None:
    w = np.eye(300)
    with hs.HybridExecutor("gpu_only", accelerators=[fake], history=False, cores=2) as executor:
        executor.graph.wait_ready()
        before = fake.counts["upload"]
        value: Any = MANY
        for _ in range(10):
            value = executor.submit(step, value, w)
        handle = value.handle()
        assert fake.counts["upload"] - before == 2
        assert fake.counts["download"] == 0
        assert handle.shape == (300, 300)
        np.testing.assert_allclose(np.asarray(handle), value.result())
        assert fake.counts["download"] == 1


def test_data_that_was_put_is_copied_once(fake: FakeAccelerator) -> None:
    with hs.HybridExecutor("gpu_only", accelerators=[fake], history=False, cores=2) as executor:
        kept = executor.put(MANY)
        executor.submit(add, kept, 1.0).result()
        before = fake.counts["upload"]
        for i in range(5):
            executor.submit(add, kept, float(i)).result()
        assert fake.counts["upload"] == before


def test_memory_is_free_when_futures_are_dropped(executor: hs.HybridExecutor, fake: FakeAccelerator) -> None:
    _learn(executor, add, MANY, 1.0)
    kept = [executor.submit(add, MANY, float(i)) for i in range(5)]
    wait(kept)
    first = executor.submit(add, kept[0], 1.0)
    first.result()
    del first
    kept.clear()
    executor.graph.wait_learned()
    gc.collect()
    assert fake.allocated == 0
    assert executor.graph.directory.bytes_in(1) == 0


def test_copies_are_evicted_and_written_back() -> None:
    fake = FakeAccelerator(speedup=100.0, capacity=3.5 * MANY.nbytes)
    with hs.HybridExecutor("gpu_only", accelerators=[fake], history=False, cores=2) as executor:
        futures = [executor.submit(add, MANY, float(i)) for i in range(12)]
        wait(futures)  # all results are kept, so most of them cannot stay on the device
        results = [one.result() for one in futures]
        directory = executor.graph.directory
        assert directory.evicted > 0
        assert directory.written_back > 0
        assert directory.bytes_in(1) <= fake.capacity + MANY.nbytes
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, MANY + i)


def test_out_of_memory_is_retried_after_eviction() -> None:
    fake = FakeAccelerator(speedup=100.0, memory=4.5 * MANY.nbytes, capacity=1e12)
    with hs.HybridExecutor("gpu_only", accelerators=[fake], history=False, cores=2) as executor:
        futures = [executor.submit(add, MANY + i, 1.0) for i in range(8)]
        for i, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(timeout=60), MANY + i + 1)
        assert fake.counts["recover"] > 0


def test_a_call_too_large_for_the_device_runs_on_the_cpu() -> None:
    fake = FakeAccelerator(memory=MANY.nbytes / 2, capacity=1e12)
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as executor:
        for _ in range(3):
            np.testing.assert_array_equal(executor.submit(add, MANY, 1.0).result(timeout=60), MANY + 1)


# ------------------------------------------------------------------------------------------ failures


def test_a_failed_input_fails_what_depends_on_it(executor: hs.HybridExecutor) -> None:
    def bad() -> None:
        raise ValueError("broken")

    root = executor.submit(bad)
    late = executor.submit(add, executor.submit(add, root, 1), 1)
    with pytest.raises(hs.DependencyError, match="an input failed") as caught:
        late.result(timeout=60)
    assert isinstance(caught.value.__cause__, ValueError)
    after = executor.submit(add, root, 1)
    assert isinstance(after.exception(timeout=60), hs.DependencyError)


def test_cancelled_tasks_do_not_run_and_fail_what_depends_on_them() -> None:
    gate, begun = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        gate.wait()

    with hs.HybridExecutor(accelerators=[], history=False, cores=1) as executor:
        running = executor.submit(block)
        begun.wait()
        ran: list[int] = []
        waiting = executor.submit(ran.append, 1)
        behind = executor.submit(add, waiting, 1)
        assert waiting.cancel()
        assert not running.cancel()
        gate.set()
        error = behind.exception(timeout=60)
        assert isinstance(error, hs.DependencyError)
        assert isinstance(error.__cause__, CancelledError)
    assert ran == []


def test_a_variant_that_fails_on_the_device_runs_on_the_cpu(
    executor: hs.HybridExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Any) -> Any:
        raise TypeError("no such operation")

    doubled = hs.task(gpu=broken)(lambda x: x * 2)
    for _ in range(4):
        future = executor.submit(doubled, MANY)
        np.testing.assert_array_equal(future.result(timeout=60), MANY * 2)
    assert "no such operation" in executor.explain(future)
    assert sum("runs on the CPU from now on" in one.message for one in caplog.records) == 1


def test_a_lost_device_loses_no_task() -> None:
    calls = [0]

    def fault(what: str) -> None:
        if what == "run":
            calls[0] += 1
            if calls[0] > 4:
                raise DeviceLostError("unplugged")

    fake = FakeAccelerator(speedup=100.0, fault=fault)
    with hs.HybridExecutor("gpu_only", accelerators=[fake], history=False, cores=2) as executor:
        futures = [executor.submit(add, MANY, float(i)) for i in range(30)]
        lost = 0
        for i, future in enumerate(futures):
            future.handle(timeout=60)  # every task ends with a result
            try:
                np.testing.assert_array_equal(future.result(), MANY + i)
            except DeviceLostError:
                lost += 1
        assert executor.graph.workers[0].lost == "unplugged"
    assert lost <= 4  # results that had been nowhere else


def test_data_that_is_lost_with_its_device_is_an_error() -> None:
    lost = threading.Event()

    def fault(what: str) -> None:
        if lost.is_set():
            raise DeviceLostError("unplugged")

    fake = FakeAccelerator(speedup=100.0, fault=fault)
    with hs.HybridExecutor("gpu_only", accelerators=[fake], history=False, cores=2) as executor:
        kept = executor.submit(add, MANY, 1.0)
        kept.handle()
        lost.set()
        error = executor.submit(add, kept, 1.0).exception(timeout=60)
        assert isinstance(error, DeviceLostError)


def test_a_device_that_cannot_be_used_is_left_out() -> None:
    def fault(what: str) -> None:
        if what == "enter":
            raise RuntimeError("no driver")

    with hs.HybridExecutor(accelerators=[FakeAccelerator(fault=fault)], history=False, cores=2) as executor:
        np.testing.assert_array_equal(executor.submit(add, MANY, 1.0).result(timeout=60), MANY + 1)


def test_variants_whose_results_differ_are_refused(executor: hs.HybridExecutor) -> None:
    odd = hs.task(gpu=lambda x: (x, x))(lambda x: x)
    executor.graph.placement.facts_of(odd.key).seconds = 10.0
    errors = []
    for _ in range(6):
        errors.append(executor.submit(odd, np.ones(4)).exception(timeout=60))
        errors.append(executor.submit(odd, MANY).exception(timeout=60))
        executor.graph.wait_learned()
    assert any(isinstance(one, InvalidInputError) and "the same on every device" in str(one) for one in errors)


# ------------------------------------------------------------------------------------------ refused


class _Foreign:
    """An array of another library."""

    def __dlpack__(self) -> Any:
        raise NotImplementedError


def test_arguments_that_cannot_be_moved_are_refused_at_once(executor: hs.HybridExecutor) -> None:
    with pytest.raises(InvalidInputError, match=r"argument 0 of .*add.*numbers or booleans.*object"):
        executor.submit(add, np.array([object()]))
    with pytest.raises(InvalidInputError, match=r"argument 1 of .*add.*NumPy array.*_Foreign"):
        executor.submit(add, 1, _Foreign())
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInputError, match="cycle"):
        executor.submit(add, loop)
    with pytest.raises(InvalidInputError, match="a callable"):
        executor.submit(3)  # type: ignore[arg-type]


def test_a_call_never_waits_for_itself(executor: hs.HybridExecutor) -> None:
    for function in (sum, hs.auto(sum)):
        parts = [executor.submit(add, 1, 1)]
        future = executor.submit(function, parts)
        parts.append(future)  # the call has the list as it was
        assert future.result(timeout=60) == 2
    loop: list[Any] = [executor.submit(add, 1, 1)]
    loop.append(loop)
    with pytest.raises(InvalidInputError, match=r"arguments of .*cycle"):
        executor.submit(len, loop)


@pytest.mark.parametrize(
    "value",
    [np.array(["text"]), np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), np.array("2026-01-01", "M8[D]")],
)
def test_arrays_that_are_not_numbers_are_refused(executor: hs.HybridExecutor, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"argument parts of .*numbers or booleans"):
        executor.submit(hs.auto(lambda parts: parts), parts=[value])


@pytest.mark.parametrize("value", [-1.0, float("inf"), "much"])
def test_memory_that_is_no_amount_is_refused(executor: hs.HybridExecutor, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"memory of .*finite and >= 0"):
        executor.submit(hs.auto(memory=value)(lambda x: x), MANY)


def test_futures_and_data_of_another_executor_are_refused(executor: hs.HybridExecutor) -> None:
    with hs.HybridExecutor(accelerators=[], history=False, cores=1) as other:
        foreign = other.submit(add, 1, 2)
        data = other.put(MANY)
        for function in (add, print):
            with pytest.raises(InvalidInputError, match="another executor"):
                executor.submit(function, foreign)
        with pytest.raises(InvalidInputError, match="data of this executor"):
            executor.submit(add, data)
        with pytest.raises(InvalidInputError, match="a future of this executor"):
            executor.explain(foreign)
        with pytest.raises(InvalidInputError, match="a future of this executor"):
            executor.explain(Future())


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), "large"])
def test_sizes_that_are_no_sizes_are_refused(executor: hs.HybridExecutor, value: Any) -> None:
    sized = hs.auto(size=lambda _: value)(lambda x: x)
    with pytest.raises(InvalidInputError, match="size of"):
        executor.submit(sized, MANY)
    late = executor.submit(sized, executor.submit(add, MANY, 1.0)).exception(timeout=60)
    assert isinstance(late, InvalidInputError)
    assert "size of" in str(late)


def test_a_call_that_fits_nowhere_is_refused(executor: hs.HybridExecutor) -> None:
    huge = hs.auto(memory=1e15)(lambda x: x)
    executor.graph.states[0] = executor.graph.states[0]._replace(capacity=1e6)
    with pytest.raises(InvalidInputError, match=r"memory of .*the largest memory here"):
        executor.submit(huge, MANY)


def test_bad_options_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="cores"):
        hs.HybridExecutor(cores=0)
    with pytest.raises(InvalidInputError, match="online scheduler"):
        hs.HybridExecutor("oracle", accelerators=[])
    with pytest.raises(InvalidInputError, match="threads of"):
        hs.auto(threads=0)(lambda: 1)
    with pytest.raises(InvalidInputError, match="gpu variant"):
        hs.task(gpu=3)(lambda: 1)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------ choices


def test_the_faster_device_is_chosen_and_explained(executor: hs.HybridExecutor) -> None:
    _learn(executor, step, MANY, np.eye(300))
    future = executor.submit(step, MANY, np.eye(300))
    future.result()
    text = executor.explain(future)
    assert "on fake_0, because it is expected to end first here" in text
    assert "cpu:" in text
    assert "measured:" in text
    assert "plain function" in executor.explain(executor.submit(print, end=""))


def test_short_calls_stay_on_the_cpu(
    executor: hs.HybridExecutor, fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MeasuredOverhead, "note", lambda *_: None)  # as on a machine that is not busy
    executor.graph.wait_ready()
    for i in range(50):
        for device_class, seconds in (("cpu", 1e-6), ("fake", 1e-4)) * 2:
            executor.graph.durations.learn(add.key, device_class, add.sizes_of([i, 1], (), {}), seconds)
    before = fake.counts["run"]
    for i in range(50):
        assert executor.submit(add, i, 1).result() == i + 1
    assert fake.counts["run"] == before


@pytest.mark.parametrize(
    "name", ["earliest_finish", "min_completion", "round_robin", "gpu_only", "greedy", "rl_agent"]
)
def test_schedulers_of_the_registry_place_calls(name: str, fake: FakeAccelerator) -> None:
    with hs.HybridExecutor(name, accelerators=[fake], history=False, cores=2) as executor:
        for i in range(12):
            np.testing.assert_array_equal(executor.submit(add, MANY, float(i)).result(timeout=60), MANY + i)
        devices = {one.device for one in executor.records}
    if name == "gpu_only":
        assert devices == {"fake_0"}


def test_a_scheduler_sees_where_the_data_of_a_call_is(fake: FakeAccelerator) -> None:
    views: list[View] = []

    class Watching(Online):
        """Scheduler that keeps its views and uses the accelerator."""

        def decide(self, task: Task, view: View) -> Decision:
            views.append(view)
            return Decision(1, 1.0)

    with hs.HybridExecutor(Watching(), accelerators=[fake], history=False, cores=2) as executor:
        first = executor.submit(add, MANY, 1.0)
        executor.submit(add, first, 1.0).result()
    assert len(views) == 2
    on_host, on_accelerator = views
    assert on_host.ready_at is not None
    assert on_accelerator.ready_at is not None
    # The program's array is in main memory, the first result on the accelerator.
    assert on_host.ready_at[1] > on_host.ready_at[0]
    assert on_accelerator.ready_at[0] > on_accelerator.ready_at[1]
    assert (on_host.free_at < on_host.ready_at)[1]


def test_scheduler_observes_the_outcome_of_every_call(fake: FakeAccelerator) -> None:
    heard: list[tuple[str, int]] = []

    class Recording(Online):
        """Scheduler that notes what it is told."""

        def decide(self, task: Task, view: View) -> Decision:
            heard.append(("decide", task.task_id))
            return Decision(0, 0.0)

        def observe(self, outcome: Outcome) -> None:
            heard.append(("observe", outcome.task_id))

        def forget(self, task_id: int) -> None:
            heard.append(("forget", task_id))

    def fail(_: Any) -> None:
        raise ValueError("broken")

    with hs.HybridExecutor(Recording(), accelerators=[fake], history=False, cores=2) as executor:
        assert executor.submit(add, MANY, 1.0).exception() is None
        executor.graph.wait_learned()
        assert isinstance(executor.submit(hs.auto(fail), MANY).exception(), ValueError)
    assert heard == [("decide", 0), ("observe", 0), ("decide", 1), ("forget", 1)]


def test_a_large_call_is_not_a_trial_on_the_cpu(fake: FakeAccelerator) -> None:
    on_cpu: list[int] = []

    def slow(n: int) -> int:
        on_cpu.append(n)
        return n

    counted = hs.task(gpu=lambda n: n, size=lambda n: n)(slow)
    fake.speedup = 1.0
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as executor:
        facts = executor.graph.placement.facts_of(counted.key)
        for _ in range(3):  # as if the accelerator had taken 10 s each time
            executor.graph.durations.learn(counted.key, "fake", _sizes(1000), 10.0)
        facts.seconds = 30.0
        for _ in range(3):
            assert executor.submit(counted, 1000).result(timeout=60) == 1000
            executor.graph.durations.learn(counted.key, "fake", _sizes(1000), 10.0)
    assert on_cpu == []


def test_the_cpu_is_tried_once_that_is_cheap_beside_what_was_spent(fake: FakeAccelerator) -> None:
    fake.speedup = 1e-6  # the accelerator is far slower, but calls begin there
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as executor:
        for _ in range(3):
            executor.submit(add, MANY, 1.0).result()
            executor.graph.wait_learned()
        assert {one.device for one in executor.records} == {"fake_0"}
        facts = executor.graph.placement.facts_of(add.key)
        facts.seconds = 1e9
        facts.kept.clear()
        for _ in range(8):
            executor.submit(add, MANY, 1.0).result()
            executor.graph.wait_learned()
        assert [one.device for one in executor.records][-3:] == ["cpu"] * 3


def _sizes(n: int) -> Any:
    return hs.auto(size=n)(lambda: None).sizes_of([], (), {})
