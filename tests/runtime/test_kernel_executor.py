"""The executor on thread pools: results, failures, limits and bad input."""

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, wait
from typing import Any

import pytest
import torch
from executor_helpers import THREADS, Always, executors

from hybrid_scheduler.core import Decision, InvalidInputError, Online, Outcome, Task, UnknownNameError, View
from hybrid_scheduler.profiling import machine_info
from hybrid_scheduler.profiling.calibration import calibrate
from hybrid_scheduler.profiling.hardware_profile import profile_named
from hybrid_scheduler.profiling.kernels import KERNELS
from hybrid_scheduler.profiling.machine_info import THREAD_POOL, Gpu
from hybrid_scheduler.runtime import device_discovery
from hybrid_scheduler.runtime.accelerators import CpuBackend, TorchAccelerator, backend_for, is_out_of_memory
from hybrid_scheduler.runtime.device_discovery import DevicePool, as_platform, pools_for
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor
from hybrid_scheduler.runtime.kernel_split import DIVISIONS
from hybrid_scheduler.runtime.kernel_tasks import LATE
from hybrid_scheduler.runtime.submission import ExecutionRecord, KernelCall

WITH_GPU = (THREADS[0], DevicePool("gpu_0", "gpu", "cpu", memory=100.0))


@pytest.fixture
def make() -> Iterator[Callable[..., KernelExecutor]]:
    with executors("round_robin", pools=THREADS) as build:
        yield build


def _reference(kind: str, size: int) -> Any:
    kernel = KERNELS[kind]
    return kernel.run(kernel.make(size, torch.Generator().manual_seed(size)))


def _last(one: KernelExecutor) -> ExecutionRecord:
    return one.records[-1]


# ------------------------------------------------------------------------------------------ results


@pytest.mark.parametrize("kind", list(KERNELS))
def test_every_kernel_on_every_device_equals_the_reference(kind: str, make: Callable[..., KernelExecutor]) -> None:
    run = make()
    for name in ("cpu_wide", "cpu_narrow"):
        result = run.submit_kernel(KernelCall(kind, 64), device=name).result()
        assert _last(run).device == name
        for actual, expected in zip(result, _reference(kind, 64), strict=True):
            torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("fraction", [0.01, 0.37, 0.99])
@pytest.mark.parametrize("kind", list(DIVISIONS))
def test_split_kernels_equal_the_reference(
    kind: str, fraction: float, make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid_scheduler.runtime.kernel_split.MIN_BYTES", 1)
    run = make(Always(fraction))
    result = run.submit_kernel(KernelCall(kind, 96)).result()
    for actual, expected in zip(result, _reference(kind, 96), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-3)
    record = _last(run)
    assert record.fraction == pytest.approx(fraction)
    assert record.cpu_seconds > 0
    assert record.accelerator_seconds > 0


def test_small_and_indivisible_kernels_are_not_split(make: Callable[..., KernelExecutor]) -> None:
    run = make(Always(0.6))
    run.submit_kernel(KernelCall("matmul", 64)).result()
    run.submit_kernel(KernelCall("sort", 64)).result()
    assert [record.fraction for record in run.records] == [1.0, 1.0]
    never = make(Always(0.4), split=False)
    never.submit_kernel(KernelCall("elementwise", 1024)).result()
    assert (_last(never).device, _last(never).fraction) == ("cpu_wide", 0.0)


def test_given_data_is_used_and_not_changed(make: Callable[..., KernelExecutor]) -> None:
    data = (torch.tensor([3.0, 1.0, 2.0]),)
    (result,) = make().submit_kernel(KernelCall("sort", 2, inputs=data)).result()
    assert result.tolist() == [1.0, 2.0, 3.0]
    assert data[0].tolist() == [3.0, 1.0, 2.0]


# ------------------------------------------------------------------------------------------ the standard interface


def test_submit_and_map_run_callables(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    assert run.submit(pow, 2, 5).result() == 32
    assert run.submit(sorted, [2, 1], reverse=True).result() == [2, 1]
    assert list(run.map(lambda x: x * x, range(5))) == [0, 1, 4, 9, 16]
    assert {record.kind for record in run.records} == {"callable"}


def test_errors_are_carried_to_the_future(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    future = run.submit_variants(cpu=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        future.result()
    assert (_last(run).status, _last(run).error) == ("failed", "ZeroDivisionError: division by zero")
    assert run.submit(int, "7").result() == 7


def test_waiting_task_can_be_cancelled(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    gate, begun = threading.Event(), threading.Event()

    def hold() -> int:
        begun.set()
        gate.wait()
        return 1

    first = run.submit(hold)
    second = run.submit_variants(cpu=lambda: 2, device="cpu_wide")
    begun.wait()
    assert second.cancel()
    assert not first.cancel()
    gate.set()
    assert first.result() == 1
    with pytest.raises(CancelledError):
        second.result()
    assert run.submit(lambda: 3).result() == 3
    assert run.counts["cancelled"] == 1


def test_shutdown_runs_waiting_tasks(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    futures = [run.submit(time.sleep, 0.001) for _ in range(5)]
    run.shutdown()
    assert all(future.done() for future in futures)
    with pytest.raises(RuntimeError, match="after shutdown"):
        run.submit(int)
    run.shutdown()


def test_shutdown_can_cancel_waiting_tasks(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    gate, begun = threading.Event(), threading.Event()

    def hold() -> int:
        begun.set()
        gate.wait()
        return 1

    first = run.submit(hold)
    begun.wait()
    rest = [run.submit(int) for _ in range(5)]
    run.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in rest)
    gate.set()
    assert first.result() == 1
    run.shutdown()
    assert run.counts["cancelled"] == 5


def test_dropped_results_are_freed_at_once(make: Callable[..., KernelExecutor]) -> None:
    class Large:
        """Stands for a large result."""

    gone: list[weakref.ref[Large]] = []

    def work() -> Large:
        made = Large()
        gone.append(weakref.ref(made))
        return made

    run = make()
    gc.disable()
    try:
        for _ in range(3):
            run.submit_variants(cpu=work, device="cpu_wide").exception()
        run.submit_variants(cpu=int, device="cpu_wide").result()  # by now the worker has dropped the last one
        assert [ref() for ref in gone] == [None, None, None]
    finally:
        gc.enable()


def test_thread_counts_of_other_threads_do_not_change(make: Callable[..., KernelExecutor]) -> None:
    found: list[int] = []

    def ask() -> None:
        found.append(torch.get_num_threads())

    before = threading.Thread(target=ask)
    before.start()
    before.join()
    run = make(pools=(DevicePool("cpu_wide", "cpu", threads=3), DevicePool("cpu_narrow", THREAD_POOL, threads=2)))
    inside = [run.submit_variants(cpu=torch.get_num_threads, device=p.name).result() for p in run.pools]
    after = threading.Thread(target=ask)
    after.start()
    after.join()
    assert inside == [3, 2]
    assert found[0] == found[1]


def test_leaving_the_context_waits_for_tasks() -> None:
    with KernelExecutor("cpu_only", pools=THREADS) as run:
        future = run.submit(int, 3)
    assert future.done()


# ------------------------------------------------------------------------------------------ timeouts, dead workers


def test_timeout_ends_a_hanging_task_and_replaces_its_worker(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    gate = threading.Event()
    future = run.submit_variants(cpu=gate.wait, timeout=0.05, device="cpu_wide")
    with pytest.raises(TimeoutError, match=r"took longer than 0\.05 s"):
        future.result()
    assert _last(run).status == "timed_out"
    assert run.submit(int, 4).result() == 4  # the worker was replaced
    assert run.workers_replaced == 1
    gate.set()
    for _ in range(1000):
        if run.counts[LATE]:
            break
        time.sleep(0.005)
    assert run.counts[LATE] == 1
    assert len(run.records) == 2


def test_worker_goes_on_after_an_exit_of_its_task(make: Callable[..., KernelExecutor]) -> None:
    run = make()

    def die() -> None:
        raise SystemExit(3)

    future = run.submit_variants(cpu=die, device="cpu_narrow")
    waiting = run.submit_variants(cpu=lambda: 5, device="cpu_narrow")
    assert isinstance(future.exception(), SystemExit)
    assert waiting.result() == 5
    assert _last(run).status == "done"


class OutOfMemoryBackend(CpuBackend):
    """A device that is out of memory."""

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self.pool.kind != "cpu":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return super().run(function, args, kwargs)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_out_of_memory_is_retried_on_the_cpu(
    fraction: float, make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid_scheduler.runtime.kernel_split.MIN_BYTES", 1)
    run = make(Always(fraction), pools=WITH_GPU, backend=OutOfMemoryBackend)
    (result,) = run.submit_kernel(KernelCall("matmul", 64)).result()
    torch.testing.assert_close(result, _reference("matmul", 64)[0], rtol=1e-4, atol=1e-4)
    assert (_last(run).status, run.counts["retried"]) == ("retried", 1)
    assert _last(run).device == ("cpu_wide" if fraction == 1.0 else "gpu_0")


def test_out_of_memory_errors_are_recognised() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("no"))
    assert is_out_of_memory(RuntimeError("CUBLAS: Out of Memory"))
    assert not is_out_of_memory(RuntimeError("shapes"))
    assert not is_out_of_memory(ValueError("out of memory"))


# ------------------------------------------------------------------------------------------ variants


def test_variants_move_to_the_cpu_if_the_gpu_cannot_run_them(make: Callable[..., KernelExecutor]) -> None:
    run = make(Always(1.0), pools=WITH_GPU, backend=CpuBackend)
    assert run.submit_variants(cpu=lambda x: ("cpu", x), gpu=lambda x: ("gpu", x), args=(1,)).result() == ("gpu", 1)
    assert run.submit_variants(cpu=lambda: "cpu").result() == "cpu"
    assert _last(run).status == "moved"
    assert run.submit_variants(cpu=lambda: "cpu", gpu=lambda: "gpu", memory=95.0).result() == "cpu"
    assert run.counts["moved"] == 2


def test_command_results_failures_and_timeouts(make: Callable[..., KernelExecutor]) -> None:
    run = make()
    done = run.submit_variants(cpu=[sys.executable, "-c", "print(6 * 7)"]).result()
    assert done.stdout.strip() == "42"
    with pytest.raises(Exception, match="returned non-zero exit status 3"):
        run.submit_variants(cpu=[sys.executable, "-c", "raise SystemExit(3)"]).result()
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(TimeoutError, match="was ended"):
        run.submit_variants(cpu=slow, timeout=0.2).result()
    assert _last(run).status == "timed_out"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu": 3}, "a callable or a command"),
        ({"cpu": []}, "a callable or a command"),
        ({"cpu": int, "gpu": "ls"}, "a callable or a command"),
        ({"cpu": int, "size": 0}, "finite and > 0"),
        ({"cpu": int, "memory": -1}, ">= 0 MB"),
        ({"cpu": int, "intensity": 2.0}, r"\[0, 1\]"),
    ],
)
def test_bad_variants_are_refused(
    make: Callable[..., KernelExecutor], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make().submit_variants(**options)


# ------------------------------------------------------------------------------------------ deciding and learning


def test_record_has_decision_and_measurements(make: Callable[..., KernelExecutor]) -> None:
    run = make("gpu_only")
    for _ in range(3):
        run.submit_kernel(KernelCall("fft", 64)).result()
    record = _last(run)
    assert (record.kind, record.size, record.device, record.fraction, record.status) == (
        "fft", 64.0, "cpu_narrow", 1.0, "done",
    )  # fmt: skip
    assert record.predicted is not None
    assert record.measured is not None
    assert record.measured >= record.accelerator_seconds > 0
    assert record.wait is not None
    assert record.wait >= 0
    assert record.decision_seconds > 0
    assert run.records[0].predicted is None  # nothing was known yet


def test_scheduler_sees_the_backlogs_of_devices(make: Callable[..., KernelExecutor]) -> None:
    seen: list[float] = []

    class Watching(Online):
        def decide(self, task: Task, view: View) -> Decision:
            seen.append(float(view.backlog[0]))
            return Decision(0, 0.0)

    run = make(Watching())
    run.submit_variants(cpu=time.sleep, args=(0.02,), kind="nap").result()
    gate = threading.Event()
    held = run.submit(gate.wait)
    futures = [run.submit_variants(cpu=time.sleep, args=(0.0,), kind="nap") for _ in range(3)]
    gate.set()
    wait([held, *futures])
    assert seen[0] == 0.0
    assert 0.0 < seen[1] < 1e-4  # its duration is unknown, but it counts
    assert seen[2] >= 0.02
    assert seen[3] >= 0.04


@pytest.mark.parametrize("second", [THREADS[1], DevicePool("gpu_0", "gpu", "cpu")])
@pytest.mark.parametrize("spec", ["hybrid_ml", "rl_agent"])
def test_learners_observe_executed_tasks_only(
    spec: str, second: DevicePool, make: Callable[..., KernelExecutor]
) -> None:
    run = make(spec, pools=(THREADS[0], second), backend=CpuBackend)
    for i in range(24):
        run.submit_kernel(KernelCall(("sort", "fft")[i % 2], 64)).result()
    run.learn()
    policy: Any = run.policy
    assert policy.duration_model_.seen == 24
    assert policy.state != "warming"


def test_preparation_time_is_not_observed(
    make: Callable[..., KernelExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Preparing(CpuBackend):
        """Counts its whole run as preparation, as a GPU counts page-locked memory."""

        def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            began = time.perf_counter()
            result = function(*args, **kwargs)
            self.preparing += time.perf_counter() - began
            return result

    observed: list[Outcome] = []
    policy = Always(1.0)
    monkeypatch.setattr(policy, "observe", observed.append)
    run = make(policy, backend=Preparing)
    run.submit_kernel(KernelCall("sort", 512)).result()
    run.learn()
    (outcome,) = observed
    measured = _last(run).measured
    assert measured is not None
    assert outcome.accelerator_time < 0.5 * measured


def test_schedulers_that_know_durations_need_a_calibration(make: Callable[..., KernelExecutor]) -> None:
    with pytest.raises(InvalidInputError, match="must know durations") as caught:
        make("earliest_finish")
    assert caught.value.hint is not None
    run = make("earliest_finish", calibration=calibrate(profile_named("cpu_only")))
    run.submit_kernel(KernelCall("sort", 128)).result()
    assert _last(run).predicted is not None


def test_oracle_is_refused_on_real_devices(make: Callable[..., KernelExecutor]) -> None:
    with pytest.raises(InvalidInputError, match="before a task has run"):
        make("oracle", calibration=calibrate(profile_named("cpu_only")))


def test_set_scheduler_changes_the_policy(make: Callable[..., KernelExecutor]) -> None:
    run = make("cpu_only")
    run.submit_kernel(KernelCall("sort", 16)).result()
    run.set_scheduler("gpu_only")
    run.submit_kernel(KernelCall("sort", 16)).result()
    assert [record.device for record in run.records] == ["cpu_wide", "cpu_narrow"]


# ------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (KernelCall("sortt", 64), "did you mean|one of"),
        (KernelCall("sparse", 17), "a multiple of 16"),
        (KernelCall("sort", 2.5), "a whole number"),  # type: ignore[arg-type]
        (KernelCall("matmul", 4_000_000), "fits into"),
    ],
)
def test_impossible_kernel_is_refused(make: Callable[..., KernelExecutor], call: KernelCall, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make().submit_kernel(call)


def test_unknown_device_is_refused(make: Callable[..., KernelExecutor]) -> None:
    with pytest.raises(UnknownNameError, match="one of cpu_narrow, cpu_wide"):
        make(devices=["gpu_7"])
    with pytest.raises(UnknownNameError):
        make().submit_kernel(KernelCall("sort", 16), device="gpu_7")
    assert [pool.name for pool in make(devices=["cpu_wide"]).pools] == ["cpu_wide"]


@pytest.mark.parametrize("limit", [0.0, -1.0, float("inf")])
def test_bad_timeout_is_refused(limit: float) -> None:
    with pytest.raises(InvalidInputError, match="timeout"):
        KernelExecutor(pools=THREADS, timeout=limit)


def test_decision_out_of_range_is_refused(make: Callable[..., KernelExecutor]) -> None:
    class Wild(Online):
        def decide(self, task: Task, view: View) -> Decision:
            return Decision(9, 1.0)

    with pytest.raises(InvalidInputError, match="a device below 2"):
        make(Wild()).submit_kernel(KernelCall("sort", 16))


def test_cuda_that_cannot_be_used_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_info, "find_cuda", lambda: "the driver is too old")
    with pytest.warns(UserWarning, match="cuda cannot be used, the CPU is used instead: the driver is too old"):
        found = device_discovery.find_pools("auto")
    assert [pool.name for pool in found] == ["cpu_wide", "cpu_narrow"]
    monkeypatch.setattr(machine_info, "find_cuda", lambda: None)
    with pytest.raises(InvalidInputError, match="an accelerator of this machine"):
        device_discovery.find_pools("cuda")


def test_machine_with_gpus_has_one_pool_per_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = pools_for(Gpu("cuda", "G", 10**10), 16)
    assert [(p.name, p.where, p.threads) for p in found] == [
        ("cpu", "cpu", 8), ("gpu_0", "cuda:0", 4), ("gpu_1", "cuda:1", 4),
    ]  # fmt: skip
    assert [device.memory for device in as_platform(found).devices][1] == pytest.approx(10_000)
    assert pools_for(None, 1)[0].threads == 1
    with pytest.raises(InvalidInputError):
        pools_for(None, 0)


# ------------------------------------------------------------------------------------------ copies to a GPU


class _Copied:
    """Stands for the event and the stream of a copy, which ends at once."""

    def record_event(self) -> Any:
        return self

    def synchronize(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("shape", [(10_000,), (300, 70), (3, 50, 40)])
@pytest.mark.parametrize("cut", [False, True])
def test_chunks_of_a_staged_copy_arrive_complete(
    shape: tuple[int, ...], cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffers are used again for later chunks, and rows of a larger matrix need not lie side by side."""
    monkeypatch.setattr("hybrid_scheduler.runtime.accelerators.STAGING_BYTES", 4096)
    backend = backend_for(DevicePool("gpu_0", "gpu", "mps", memory=100.0))
    assert isinstance(backend, TorchAccelerator)
    backend._staging = [torch.empty(4096, dtype=torch.uint8) for _ in range(4)]
    backend._staged, backend._copies = [None] * 4, _Copied()
    source = torch.rand(shape)
    source = source[..., ::2] if cut else source
    target = torch.zeros(source.shape)
    backend._stage(source, target)
    assert torch.equal(source, target)


def test_executor_and_kernel_call_are_exported() -> None:
    from hybrid_scheduler import runtime

    assert runtime.KernelExecutor is KernelExecutor
    assert runtime.KernelCall is KernelCall
