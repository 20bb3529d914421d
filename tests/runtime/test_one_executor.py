"""Kernels and functions of one executor: the same devices, and queues that both see."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.core import Decision, Online, Task, View
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor
from hybrid_scheduler.testing import FakeAccelerator

SOME = np.ones((20, 20))
LONG = 60.0


class Watching(Online):
    """Places every task on the accelerator, and notes the queues that it sees."""

    def __init__(self) -> None:
        self.seen: list[list[float]] = []

    def decide(self, task: Task, view: View) -> Decision:
        self.seen.append(view.backlog.tolist())
        return Decision(1, 1.0)


@hs.auto
def add(x: Any, y: Any) -> Any:
    """Add two values."""
    return x + y


@pytest.fixture
def fake() -> FakeAccelerator:
    return FakeAccelerator()


@pytest.fixture
def executor(fake: FakeAccelerator) -> Iterator[hs.HybridExecutor]:
    with hs.HybridExecutor(Watching(), accelerators=[fake], history=False, cores=2) as made:
        made.graph.wait_ready()
        yield made


def _learn(executor: hs.HybridExecutor, seconds: dict[str, float]) -> None:
    sizes = add.sizes_of([executor.put(SOME), 1.0], (), {})
    for device_class, expected in seconds.items():
        for _ in range(3):
            executor.graph.durations.learn(add.key, device_class, sizes, expected)


def _hold(executor: hs.HybridExecutor, device: str) -> tuple[Any, threading.Event]:
    """Let a device run a task that is expected to take long, until the event is set."""
    gate, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert gate.wait(LONG)

    kernels = executor.kernels
    index = kernels.platform.index(device)
    kernels.predict = lambda *_: 10.0  # type: ignore[method-assign]
    future = kernels.submit_variants(wait, wait, kind="long", device=kernels.pools[index].name)
    assert begun.wait(LONG)
    return future, gate


def test_kernels_run_on_the_workers_of_the_executor(executor: hs.HybridExecutor) -> None:
    host, accelerator = executor.kernels.workers
    assert accelerator is executor.graph.accelerators[0]
    assert host not in executor.graph.accelerators
    assert executor.kernels is executor.kernels
    assert executor.kernels.graph is executor.graph
    made = executor.submit_variants(cpu=lambda: "cpu", gpu=lambda: "gpu")
    assert made.result(LONG) == "gpu"
    assert executor.kernels.records[-1].device == "fake_0"


def test_call_avoids_the_accelerator_that_a_kernel_occupies(fake: FakeAccelerator) -> None:
    with hs.HybridExecutor(accelerators=[fake], history=False, cores=2) as executor:
        executor.graph.wait_ready()
        executor.graph.placement.bandwidth[:] = [1e12]
        _learn(executor, {"fake": 1e-5, "cpu": 0.5})
        free = executor.submit(add, SOME, 1.0)
        free.result(LONG)
        held, gate = _hold(executor, "fake_0")
        occupied = executor.submit(add, SOME, 2.0)
        np.testing.assert_array_equal(occupied.result(LONG), SOME + 2)
        gate.set()
        held.result(LONG)
        assert (free.space, occupied.space) == (1, 0)


def test_scheduler_of_kernels_sees_the_calls_that_wait(executor: hs.HybridExecutor, fake: FakeAccelerator) -> None:
    _learn(executor, {"fake": 5.0})
    policy: Any = executor.kernels.policy
    fake.pause()
    call = executor.submit(add, SOME, 1.0)
    assert call.space == 1
    kernel = executor.submit_variants(cpu=int, gpu=int)
    fake.resume()
    assert kernel.result(LONG) == 0
    assert policy.seen[-1][1] > 4.0
    call.result(LONG)
    assert executor.submit_variants(cpu=int, gpu=int).result(LONG) == 0
    assert policy.seen[-1][1] < 1.0


def test_call_sees_the_kernel_that_runs_on_the_cores(executor: hs.HybridExecutor) -> None:
    cores = executor.graph.cores
    assert cores.has_free_core
    held, gate = _hold(executor, "cpu")
    threads = executor.kernels.pools[0].threads
    assert cores.has_free_core == (threads < cores.cores)
    assert not cores.is_idle
    with cores.lend(cores.cores):
        assert cores.queue_seconds > 1.0
    gate.set()
    held.result(LONG)
    assert cores.queue_seconds == 0.0


def test_shutdown_waits_for_kernels_and_calls_of_one_graph(fake: FakeAccelerator) -> None:
    executor = hs.HybridExecutor(accelerators=[fake], history=False, cores=2)
    futures = [executor.submit_variants(cpu=int, gpu=int) for _ in range(5)]
    futures += [executor.submit(add, SOME, float(i)) for i in range(5)]
    executor.shutdown()
    assert all(future.done() for future in futures)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit_variants(cpu=int)


def test_scheduler_object_is_started_once_for_each_use(executor: hs.HybridExecutor) -> None:
    placement: Any = executor.graph.placement
    assert executor.kernels.policy is not placement._scheduler
    assert type(executor.kernels.policy) is Watching


def test_kernel_executor_is_a_hybrid_executor_with_one_graph() -> None:
    with KernelExecutor("round_robin", device_type="cpu") as executor:
        assert isinstance(executor, hs.HybridExecutor)
        assert executor.kernels.graph is executor.graph
        assert executor.submit(pow, 2, 3).result(LONG) == 8
        assert executor.records[-1].kind == "callable"
        with pytest.raises(AttributeError):
            executor.missing  # noqa: B018
