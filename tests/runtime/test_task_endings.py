"""Endings of tasks: each ends once, every shutdown ends, and ended tasks leave no state."""

import gc
import math
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, NoReturn

import pytest
import torch
from executor_helpers import THREADS, Always, executors

from hybrid_scheduler.core import Decision, InvalidInputError, Online, Task, View
from hybrid_scheduler.profiling.kernels import KERNELS
from hybrid_scheduler.runtime import kernel_tasks
from hybrid_scheduler.runtime.accelerators import CpuBackend
from hybrid_scheduler.runtime.device_discovery import DevicePool
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor
from hybrid_scheduler.runtime.kernel_stream_execution import run_stream
from hybrid_scheduler.runtime.measured_task import KernelPart, KernelTask
from hybrid_scheduler.runtime.submission import MOVED, KernelCall

GPUS = (DevicePool("cpu", "cpu"), DevicePool("gpu_0", "gpu", "cpu"), DevicePool("gpu_1", "gpu", "cpu"))
LONG = 60.0


@pytest.fixture
def make() -> Iterator[Callable[..., KernelExecutor]]:
    with executors("gpu_only", pools=GPUS, backend=CpuBackend) as build:
        yield build


def _begun(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def _ends(action: Callable[[], object]) -> None:
    thread = _begun(action)
    thread.join(LONG)
    assert not thread.is_alive()


class Gate:
    """Work that begins and then waits for an event."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.open.wait(LONG)
        return "through"


def _out_of_memory() -> NoReturn:
    raise torch.OutOfMemoryError("CUDA out of memory")


# ------------------------------------------------------------------------------------------ shutdown


def test_retry_on_the_cpu_finishes_during_shutdown(make: Callable[..., KernelExecutor]) -> None:
    run, gate = make(), Gate()
    future = run.submit_variants(cpu=lambda: "cpu", gpu=lambda: (gate(), _out_of_memory()))
    gate.begun.wait(LONG)
    closing = _begun(run.shutdown)
    gate.open.set()
    assert future.result(LONG) == "cpu"
    closing.join(LONG)
    assert not closing.is_alive()
    assert (run.counts["retried"], run.records[-1].status) == (1, "retried")


def test_begun_split_is_finished_when_the_rest_is_cancelled(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid_scheduler.runtime.kernel_split.MIN_BYTES", 1)
    run, gate, begun = make(Always(0.5), pools=THREADS), Gate(), threading.Event()
    begin = KernelPart.begin

    def begin_noted(part: KernelPart) -> bool:
        found = begin(part)
        if part.fraction < 1:
            begun.set()
        return found

    monkeypatch.setattr(KernelPart, "begin", begin_noted)
    held = run.submit(gate)
    gate.begun.wait(LONG)
    split = run.submit_kernel(KernelCall("matmul", 64))
    waiting = run.submit(int)
    assert begun.wait(LONG)
    run.shutdown(wait=False, cancel_futures=True)
    gate.open.set()
    kernel = KERNELS["matmul"]
    expected = kernel.run(kernel.make(64, torch.Generator().manual_seed(64)))
    torch.testing.assert_close(split.result(LONG)[0], expected[0], rtol=1e-4, atol=1e-4)
    assert held.result(LONG) == "through"
    assert waiting.cancelled()
    _ends(run.shutdown)


def test_second_shutdown_can_cancel_waiting_tasks(make: Callable[..., KernelExecutor]) -> None:
    run, gate = make(), Gate()
    run.submit(gate)
    gate.begun.wait(LONG)
    late = run.submit(int)
    run.shutdown(wait=False)
    run.shutdown(wait=False, cancel_futures=True)
    gate.open.set()
    _ends(run.shutdown)
    assert late.cancelled()
    assert [thread.name for thread in threading.enumerate() if thread.name == "hybrid-watch"] == []


def test_shutdown_does_not_wait_for_a_timed_out_task(make: Callable[..., KernelExecutor]) -> None:
    run, gate = make(), Gate()
    future = run.submit_variants(cpu=gate, timeout=0.05)
    _ends(run.shutdown)
    assert isinstance(future.exception(0), TimeoutError)
    gate.open.set()


def test_program_without_shutdown_ends_silently() -> None:
    """Outcomes are not learned from yet, and a training is due."""
    program = """
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor
run = KernelExecutor("hybrid_ml", device_type="cpu")
futures = [run.submit_variants(cpu=sum, args=(range(9 + i),), kind="sum", size=9.0 + i) for i in range(150)]
print(sum(future.result() for future in futures) > 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "True", "")


# ------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("limit", [0.0, -1.0, math.inf, math.nan])
def test_bad_timeouts_of_tasks_are_refused(make: Callable[..., KernelExecutor], limit: float) -> None:
    run, gate = make(), Gate()
    with pytest.raises(InvalidInputError, match="timeout"):
        run.submit_variants(cpu=int, timeout=limit)
    with pytest.raises(InvalidInputError, match="timeout"):
        run.submit_kernel(KernelCall("sort", 16), timeout=limit)
    with pytest.raises(TimeoutError):
        run.submit_variants(cpu=gate, timeout=0.05).result(LONG)
    gate.open.set()


def test_callable_is_watched_where_the_other_variant_is_a_command(make: Callable[..., KernelExecutor]) -> None:
    run, gate = make(), Gate()
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        run.submit_variants(cpu=["echo", "x"], gpu=gate, timeout=0.05).result(LONG)
    gate.open.set()


def test_timeout_while_the_result_is_recorded_has_no_effect(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, measure = make(), KernelTask.measure

    def at_the_last_moment(placed: KernelTask, *arguments: Any) -> None:
        run.graph.time_out(placed.parts[0])
        measure(placed, *arguments)

    monkeypatch.setattr(KernelTask, "measure", at_the_last_moment)
    assert run.submit_variants(cpu=lambda: 1, timeout=LONG, device="cpu").result(LONG) == 1
    assert run.submit(lambda: 2).result(LONG) == 2
    assert (run.counts["done"], run.counts["timed_out"], run.workers_replaced) == (2, 0, 0)


# ------------------------------------------------------------------------------------------ devices and callbacks


def test_tasks_of_an_unusable_device_run_on_the_cpu(make: Callable[..., KernelExecutor]) -> None:
    class Locked(CpuBackend):
        def enter(self) -> None:
            if self.pool.name == "gpu_0":
                raise RuntimeError("the device is in exclusive mode")

    run = make(Always(1.0), backend=Locked)
    assert run.submit_variants(cpu=lambda: "cpu", gpu=lambda: "gpu").result(LONG) == "cpu"
    assert run.submit_variants(cpu=lambda: "cpu", gpu=lambda: "gpu").result(LONG) == "cpu"
    assert run.counts["retried"] == 2


def test_error_in_a_callback_ends_the_task_and_not_the_worker(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, measure = make(), KernelTask.measure

    def broken(placed: KernelTask, *arguments: Any) -> None:
        if placed.task.kind == "broken":
            raise KeyError("missing")
        measure(placed, *arguments)

    monkeypatch.setattr(KernelTask, "measure", broken)
    future = run.submit_variants(cpu=int, kind="broken", device="cpu")
    assert isinstance(future.exception(LONG), KeyError)
    assert run.submit(lambda: 2).result(LONG) == 2


def test_gpu_out_of_memory_runs_the_cpu_variant(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    assert run.submit_variants(cpu=lambda: "cpu", gpu=_out_of_memory).result(LONG) == "cpu"
    assert run.counts["retried"] == 1


def test_stream_longer_than_the_kept_records_is_refused(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_tasks, "MAX_RECORDS", 2)
    with pytest.raises(InvalidInputError, match="at most 2"):
        run_stream(make(), [KernelCall("sort", 16)] * 3)


def test_stream_with_an_impossible_kernel_is_refused(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    calls = [KernelCall("matmul", 64), KernelCall("matmul", 10**9)]
    found: list[BaseException] = []

    def go() -> None:
        try:
            run_stream(run, calls)
        except InvalidInputError as error:
            found.append(error)

    _ends(go)
    assert "size" in str(found[0])


# ------------------------------------------------------------------------------------------ queues


def test_shorter_queue_is_chosen_without_measurements(make: Callable[..., KernelExecutor]) -> None:
    run, gate = make("gpu_only"), Gate()
    futures = [run.submit_variants(cpu=int, gpu=gate, kind="new", size=float(i + 1)) for i in range(4)]
    gate.open.set()
    for future in futures:
        assert future.result(LONG) == "through"
    assert sorted(record.device for record in run.records) == ["gpu_0", "gpu_0", "gpu_1", "gpu_1"]


@pytest.mark.parametrize("spec", ["hybrid_ml", "rl_agent"])
def test_batch_of_a_new_kind_uses_all_classes_of_device(spec: str, make: Callable[..., KernelExecutor]) -> None:
    """Each device class is tried once at most; the other tasks do not wait for that."""
    run, gate = make(spec), Gate()
    run.submit_variants(cpu=int, gpu=int, kind="old", size=9.0).result(LONG)  # compiles
    futures = [run.submit_variants(cpu=gate, gpu=gate, kind="new", size=9.0, intensity=0.9) for _ in range(20)]
    assert run.policy.decision_counts().get("trial", 0) <= 2
    gate.open.set()
    for future in futures:
        future.result(LONG)
    used = {record.device for record in run.records if record.kind == "new"}
    assert "cpu" in used
    assert used & {"gpu_0", "gpu_1"}


@pytest.mark.parametrize("spec", ["hybrid_ml", "rl_agent", "round_robin"])
def test_device_that_cannot_run_a_task_is_not_tried(spec: str, make: Callable[..., KernelExecutor]) -> None:
    run = make(spec)
    for i in range(30):
        run.submit_variants(cpu=int, kind="mine", size=100.0 + i).result(LONG)
    assert {record.device for record in run.records} == {"cpu"}
    if spec != "round_robin":  # which does not look at queues
        assert run.counts[MOVED] == 0


# ------------------------------------------------------------------------------------------ state of ended tasks


def test_failed_tasks_leave_no_state(make: Callable[..., KernelExecutor]) -> None:
    run = make("hybrid_ml")
    for i in range(40):
        work = (lambda: 1 / 0) if i % 2 else int
        run.submit_variants(cpu=work, gpu=work, kind="mine", size=10.0 + i).exception(LONG)
    run.learn()
    policy: Any = run.policy
    learner = getattr(policy, "learner_", policy)
    assert learner.decided == {}
    assert (learner.rule_.placement.pending == 0).all()


def test_records_are_limited_when_devices_are_given(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_tasks, "MAX_RECORDS", 5)
    run = make()
    for _ in range(20):
        run.submit_variants(cpu=int, device="cpu").result(LONG)
    assert len(run.outcomes) <= 1
    assert len(run.records) == 5


def test_queued_splits_hold_no_result_memory(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid_scheduler.runtime.kernel_split.MIN_BYTES", 1)
    made: list[object] = []
    empty = torch.empty

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(arguments)
        return empty(*arguments, **options)

    run, gates = make(Always(0.5), pools=THREADS), [Gate(), Gate()]
    held = [run.submit_variants(cpu=gate, device=pool.name) for gate, pool in zip(gates, THREADS, strict=True)]
    call = KernelCall("matmul", 64, inputs=KERNELS["matmul"].make(64, torch.Generator().manual_seed(1)))
    monkeypatch.setattr(torch, "empty", counted)
    splits: list[Future[Any]] = [run.submit_kernel(call) for _ in range(3)]
    assert made == []
    for gate in gates:
        gate.open.set()
    assert all(one.result(LONG) is not None for one in (*held, *splits))
    assert len(made) == 3


class _Unreliable(CpuBackend):
    """A device that is out of memory for one run in five."""

    def __init__(self, pool: DevicePool) -> None:
        super().__init__(pool)
        self._draw = random.Random(pool.name)

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self.pool.is_accelerator and self._draw.random() < 0.2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().run(function, args, kwargs)


class _Anywhere(Online):
    """Places every task at random, often split."""

    def __init__(self) -> None:
        self._draw = random.Random(5)

    def decide(self, task: Task, view: View) -> Decision:
        return Decision(self._draw.randrange(3), self._draw.choice((0.0, 0.4, 0.6, 1.0)))


def _raise(error: BaseException) -> None:
    raise error


def test_every_task_ends_once_whatever_happens(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splits, lack of memory, errors, exits, cancellations and a task that hangs, in one stream."""
    monkeypatch.setattr("hybrid_scheduler.runtime.kernel_split.MIN_BYTES", 1)
    run, gate, draw = make(_Anywhere(), backend=_Unreliable), Gate(), random.Random(3)
    futures: list[Future[Any]] = [run.submit_variants(cpu=gate, gpu=gate, timeout=0.05)]
    for i in range(300):
        match draw.randrange(8):
            case 0:
                error = draw.choice((ZeroDivisionError(), SystemExit(3)))
                futures.append(run.submit_variants(cpu=partial(_raise, error), gpu=partial(_raise, error)))
            case 1:
                futures.append(run.submit(int, i))
            case 2:
                draw.choice(futures).cancel()
            case _:
                futures.append(run.submit_kernel(KernelCall(draw.choice(("matmul", "reduction", "sort")), 32)))
    _ends(run.shutdown)
    gate.open.set()
    assert all(future.done() for future in futures)
    assert len(run.records) == len({record.task_id for record in run.records}) == len(futures)
    assert run.graph.unfinished == 0
    assert sum(run.counts[name] for name in ("done", "failed", "cancelled", "timed_out")) + sum(
        record.status in ("retried", "moved") for record in run.records
    ) == len(futures)
    for future, record in zip(futures, sorted(run.records, key=lambda one: one.task_id), strict=True):
        assert future.cancelled() == (record.status == "cancelled")
        if not future.cancelled():
            assert (future.exception() is None) == (record.status in ("done", "retried", "moved"))


def test_dropped_results_of_splits_are_freed_at_once(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid_scheduler.runtime.kernel_split.MIN_BYTES", 1)
    run = make(Always(0.5))
    gc.disable()
    try:
        gone = [weakref.ref(run.submit_kernel(KernelCall("matmul", 64)).result(LONG)[0]) for _ in range(3)]
        for name in ("cpu", "gpu_0"):  # by now the workers have dropped the last one
            run.submit_variants(cpu=int, gpu=int, device=name).result(LONG)
        assert [ref() for ref in gone] == [None, None, None]
    finally:
        gc.enable()


def test_time_limit_holds_for_the_parts_of_a_split(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part that waits for the CPU is dropped, and limits of later tasks hold as well."""
    monkeypatch.setattr("hybrid_scheduler.runtime.kernel_split.MIN_BYTES", 1)
    gates = [Gate(), Gate(), Gate()]

    class Hanging(CpuBackend):
        def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            return gates[1]() if self.pool.is_accelerator else super().run(function, args, kwargs)

    run = make(Always(0.5), backend=Hanging)
    held = run.submit(gates[0])
    gates[0].begun.wait(LONG)
    split = run.submit_kernel(KernelCall("matmul", 64), timeout=0.05)
    assert isinstance(split.exception(LONG), TimeoutError)
    gates[0].open.set()
    assert held.result(LONG) == "through"
    late = run.submit_variants(cpu=gates[2], timeout=0.05, device="cpu")
    assert isinstance(late.exception(LONG), TimeoutError)
    _ends(run.shutdown)
    assert [record.status for record in run.records] == ["timed_out", "done", "timed_out"]
    for gate in gates:
        gate.open.set()
