"""The profiler on the CPU and on a fake accelerator."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hybrid_scheduler.core import HybridSchedulerError, InvalidInputError, UnknownNameError
from hybrid_scheduler.profiling import HardwareProfiler, load_profile, profiler, timing
from hybrid_scheduler.profiling.kernels import KERNELS, Kernel
from hybrid_scheduler.profiling.machine_info import Gpu
from hybrid_scheduler.profiling.timing import Accelerator, RepetitionLimits

QUICK = RepetitionLimits(precision=0.5, seconds=0.005, warmup_runs=1, warmup_seconds=0.0)


@pytest.fixture(autouse=True)
def _small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "COPY_BYTES", 2**20)


class StandIn(Accelerator):
    """Main memory as the memory of an accelerator, ordinary memory as pinned memory."""

    def __init__(self, _: str) -> None:
        super().__init__("cpu")
        self.can_pin = True
        self.free: int | None = None

    def free_memory(self) -> int | None:
        return self.free

    def pinned(self, tensors: Any) -> Any:
        return tuple(tensor.clone() for tensor in tensors)

    def pinned_like(self, results: Any) -> Any:
        return tuple(torch.empty_like(result) for result in results)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "find_gpu", lambda _: Gpu("fake", "Stand-in", 2**30))
    monkeypatch.setattr(profiler, "Accelerator", StandIn)


class Broken(Kernel):
    """Raises an error in the calls that `on` selects."""

    name = "broken"
    summary = "fails"

    def __init__(self, on: Callable[[int], bool]) -> None:
        self.on, self.calls = on, 0

    def make(self, size: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        return (torch.ones(size),)

    def run(self, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        self.calls += 1
        if self.on(self.calls):
            raise RuntimeError("it broke\nat length")
        return inputs

    def bytes_in(self, size: int) -> int:
        return 4 * size

    def bytes_out(self, size: int) -> int:
        return 4 * size

    def flops(self, size: int) -> float:
        return float(size)


def test_cpu_profile_has_all_kernels_and_sizes(tmp_path: Any) -> None:
    seen: list[tuple[str, int]] = []
    machine = HardwareProfiler("cpu", threads=2, limits=QUICK, progress=lambda *one: seen.append(one))
    before = torch.get_num_threads()
    profile = machine.profile_range(sizes=[32, 16, 32])
    assert torch.get_num_threads() == before
    assert profile.kernels == list(KERNELS)
    assert [point.size for point in profile.of("matmul")] == [16, 32]
    assert profile.skipped == ()
    assert (profile.machine.threads, profile.method.device) == (2, "cpu")
    assert profile.cpu_memory_bandwidth is not None
    for point in profile.points:
        assert point.cpu_seconds is not None
        assert point.cpu_seconds.n >= 3
        assert point.cpu_seconds.median > 0
        assert point.cpu_one_thread_seconds is not None
        assert point.gpu_seconds is None
        assert point.gpu_fraction is None
    assert seen[0] == ("matmul 16", 0)
    assert seen[-1] == ("done", 16)
    machine.save_profile(tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == profile


def test_accelerator_profile_has_kernel_and_copy_times(gpu: None) -> None:
    profile = HardwareProfiler(limits=QUICK, threads=1).profile_range([16])
    assert profile.machine.gpu is not None
    assert profile.launch_overhead_seconds is not None
    assert profile.gpu_memory_bandwidth is not None
    for point in profile.points:
        assert point.cpu_one_thread_seconds is None
        assert point.gpu_kernel_seconds is not None
        for copies in (point.host_to_device_seconds, point.device_to_host_seconds, point.gpu_seconds):
            assert copies is not None
            assert copies.pinned is not None
        assert point.cpu_gpu_ratio is not None
        assert point.gpu_fraction == pytest.approx(point.cpu_gpu_ratio / (1 + point.cpu_gpu_ratio))


def test_energy_is_measured_on_cpu_and_gpu(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Meter:
        source, total = "fake", 0.0

        def joules(self) -> float:
            self.total += 1.0
            return self.total

        def close(self) -> None:
            self.source = "closed"

    meters = [Meter(), Meter()]
    monkeypatch.setattr(profiler, "cpu_meter", lambda: meters[0])
    monkeypatch.setattr(profiler, "meter_of", lambda _: meters[1])
    monkeypatch.setattr(profiler, "WINDOW", 0.1)
    profile = HardwareProfiler(limits=QUICK, kernels=["sort"]).profile_range([16])
    (point,) = profile.points
    assert point.cpu_joules is not None
    assert point.gpu_joules is not None
    assert 0 < point.gpu_joules < 1
    assert profile.method.gpu_energy == "fake"
    assert [meter.source for meter in meters] == ["closed", "closed"]
    monkeypatch.setattr(profiler, "WINDOW", 1000.0)
    hurried = HardwareProfiler(limits=QUICK, kernels=["sort"], budget=60.0).profile_range([16])
    assert hurried.points[0].gpu_joules is None  # the budget is for times


@pytest.mark.parametrize(
    ("on", "measured", "failed"),
    [(lambda call: call == 1, "gpu_seconds", "cpu"), (lambda call: call > 4, "cpu_seconds", "gpu")],
)
def test_kernel_that_raises_is_recorded(
    on: Callable[[int], bool], measured: str, failed: str, gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KERNELS, "broken", Broken(on))
    limits = RepetitionLimits(precision=0.5, seconds=1e-9, warmup_runs=1, warmup_seconds=0.0)
    profile = HardwareProfiler(limits=limits, kernels=["broken", "sort"], threads=1).profile_range([16])
    (broken,) = profile.of("broken")
    assert getattr(broken, measured) is not None
    assert [(one.kernel, one.device, one.reason) for one in profile.skipped] == [
        ("broken", failed, "RuntimeError: it broke")
    ]
    assert len(profile.of("sort")) == 1


def test_sizes_that_do_not_fit_into_memory_are_skipped(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one = HardwareProfiler(limits=QUICK, kernels=["matmul"], threads=1)
    monkeypatch.setattr(profiler, "available_memory", lambda: 10**6)
    profile = one.profile_range([16, 4096])
    assert [point.size for point in profile.points] == [16]
    assert [(s.size, s.device) for s in profile.skipped] == [(4096, "cpu")]
    assert "GB of memory, 0.001 GB are free" in profile.skipped[0].reason
    assert isinstance(one.accelerator, StandIn)
    one.accelerator.free = 4000
    profile = one.profile_range([8, 16])
    assert [(s.size, s.device) for s in profile.skipped] == [(16, "gpu")]
    assert "of GPU memory" in profile.skipped[0].reason
    assert profile.of("matmul")[1].cpu_seconds is not None


def test_sizes_that_a_kernel_cannot_have_are_skipped() -> None:
    profile = HardwareProfiler("cpu", kernels=["conv", "sort"], limits=QUICK).profile_range([15])
    assert [point.kernel for point in profile.points] == ["sort"]
    assert [skipped.reason for skipped in profile.skipped] == [
        "size of conv: must be a multiple of 4, at least 4, got 15"
    ]


def test_profile_without_any_point_is_an_error() -> None:
    with pytest.raises(HybridSchedulerError, match=r"nothing could be measured; matmul at size 10\*?"):
        HardwareProfiler("cpu", kernels=["matmul"], limits=QUICK).profile_range([10**9])


def test_budget_is_kept_and_later_sizes_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    class Slow(Broken):
        def run(self, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            nonlocal now
            now += len(inputs[0]) * 1e-3
            return inputs

    monkeypatch.setitem(KERNELS, "broken", Slow(lambda _: False))
    monkeypatch.setattr(profiler, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(profiler, "timed", lambda run: timing.timed(run, clock=lambda: now))
    monkeypatch.setattr(profiler, "repeat", lambda sample, limits: timing.repeat(sample, limits, lambda: now))
    monkeypatch.setattr(profiler._ProfilingRun, "_bandwidth", lambda *_: None)
    one = HardwareProfiler("cpu", kernels=["broken"], budget=100.0, threads=1)
    profile = one.profile_range([10, 100, 1000, 10_000, 100_000, 1_000_000])
    assert now <= 100.0
    assert [point.size for point in profile.points] == [10, 100, 1000, 10_000]
    assert [skipped.size for skipped in profile.skipped] == [100_000, 1_000_000]
    assert all("of the budget are left" in skipped.reason for skipped in profile.skipped)
    one.profile_range([10])  # a new call has a new budget


def test_spent_budget_leaves_one_point_so_that_a_busy_machine_has_a_profile() -> None:
    profile = HardwareProfiler("cpu", kernels=["sort", "fft"], budget=1e-6, limits=QUICK).profile_range([16])
    assert [(point.kernel, point.size) for point in profile.points] == [("sort", 16)]
    assert [one.reason for one in profile.skipped] == ["the budget of 1e-06 s was used up"]


@pytest.mark.parametrize("sizes", [[], [0], [-5], [1.5], [True], ["256"]])
def test_bad_sizes_are_refused(sizes: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match="sizes: must be"):
        HardwareProfiler("cpu").profile_range(sizes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device_type": "gpu"}, "device_type: must be one of auto, cpu, cuda, mps"),
        ({"kernels": ["sorts"]}, "kernel: must be one of"),
        ({"threads": 0}, "threads: must be a whole number >= 1"),
        ({"budget": -1.0}, "budget: must be"),
        ({"budget": float("nan")}, "budget: must be"),
        ({"seed": -1}, "seed: must be"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        HardwareProfiler(**options)
    if "kernels" in options:
        assert isinstance(caught.value, UnknownNameError)


def test_saving_before_measuring_is_an_error(tmp_path: Any) -> None:
    with pytest.raises(HybridSchedulerError, match="no profile to save yet"):
        HardwareProfiler("cpu").save_profile(tmp_path / "p.json")


def test_fallback_to_the_cpu_warns_and_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    def unusable(_: str) -> None:
        warnings.warn("cuda cannot be used", stacklevel=1)

    monkeypatch.setattr(profiler, "find_gpu", unusable)
    with pytest.warns(UserWarning, match="cuda cannot be used"):
        one = HardwareProfiler("cuda", kernels=["sort"], limits=QUICK)
    assert "cuda cannot be used" in one.profile_range([16]).notes


def test_missing_device_is_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="this machine has no mps device"):
        one = HardwareProfiler("mps", kernels=["sort"], limits=QUICK)
    profile = one.profile_range([16])
    assert profile.notes[0] == "the CPU alone is measured: this machine has no mps device"
    assert profile.method.device == "cpu"


def test_busy_machine_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    one = HardwareProfiler("cpu", kernels=["sort"], limits=QUICK)
    monkeypatch.setattr(os, "getloadavg", lambda: (400.0, 1.0, 1.0), raising=False)
    (note,) = one.profile_range([16]).notes
    assert "other programs were running (load 400.0" in note
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 1.0, 1.0), raising=False)
    assert one.profile_range([16]).notes == ()


def test_cuda_time_is_taken_between_events() -> None:
    order: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            order.append("record")

        def synchronize(self) -> None:
            order.append("synchronize")

        def elapsed_time(self, other: "Event") -> float:
            return 2.5

    one = Accelerator("cpu")
    one.kind = "cuda"
    one.torch = SimpleNamespace(
        cuda=SimpleNamespace(
            Event=Event, _sleep=lambda cycles: order.append("sleep"), synchronize=lambda: order.append("all")
        )
    )

    def run_noted(_: int) -> bool:
        order.append("run")
        return False

    kernel = Broken(run_noted)
    assert one.kernel(kernel, (torch.ones(3),))() == pytest.approx(0.0025)
    assert order == ["sleep", "record", "run", "record", "synchronize"]
    one.synchronize()
    assert order[-1] == "all"


def test_stand_in_accelerator_copies_data() -> None:
    one = Accelerator("cpu")
    data = (torch.arange(4.0),)
    (there,) = one.upload(data)
    (back,) = one.download((there,))
    assert there.data_ptr() != data[0].data_ptr() != back.data_ptr()
    assert torch.equal(back, data[0])
    target = (torch.empty(4),)
    one.download_into(target, (there,))
    assert torch.equal(target[0], data[0])
