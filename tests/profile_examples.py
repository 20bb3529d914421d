"""Synthetic profiles of a machine with a GPU and of one without."""

import math
from dataclasses import replace

from hybrid_scheduler.profiling.hardware_profile import (
    CopyTimings,
    MeasurementMethod,
    Profile,
    ProfilePoint,
    SkippedPoint,
)
from hybrid_scheduler.profiling.kernels import KERNELS
from hybrid_scheduler.profiling.machine_info import Gpu, MachineInfo
from hybrid_scheduler.profiling.timing import Timing

#: Of each kernel GFLOP/s on a made-up CPU and GPU.
_RATES = {
    "matmul": (900, 40_000),
    "conv": (300, 9_000),
    "sort": (0.3, 60),
    "reduction": (12, 900),
    "elementwise": (3, 700),
    "fft": (20, 4_000),
    "sparse": (4, 300),
    "cholesky": (250, 2_500),
}


def timing(seconds: float, spread: float = 0.04, n: int = 40) -> Timing:
    return Timing(seconds, spread * seconds, seconds * (1 - spread), seconds * (1 + 2 * spread), n)


def machine(gpu: bool = True) -> MachineInfo:
    device = Gpu("cuda", "Example GPU 9000", 140 * 2**30, "580.1", "13.0") if gpu else None
    return MachineInfo("Example CPU @ 3.00GHz", "x86_64", 16, 16, 128 * 2**30, "Linux", "3.12.3", "2.11.0", device)


def _point(name: str, size: int, gpu: bool) -> ProfilePoint:
    kernel = KERNELS[name]
    cpu_rate, gpu_rate = (1e9 * rate for rate in _RATES[name])
    flops, arriving, leaving = kernel.flops(size), kernel.bytes_in(size), kernel.bytes_out(size)
    cpu = 5e-6 + flops / cpu_rate
    point = ProfilePoint(name, size, arriving, leaving, flops, cpu_seconds=timing(cpu))
    if not gpu:
        return replace(point, cpu_one_thread_seconds=timing(cpu * math.sqrt(10)))
    inner = 4e-6 + flops / gpu_rate
    there, back = 1e-5 + arriving / 8e9, 1e-5 + leaving / 6e9
    quick_there, quick_back = 1e-5 + arriving / 5e10, 1e-5 + leaving / 5e10
    return replace(
        point,
        gpu_kernel_seconds=timing(inner, 0.01),
        host_to_device_seconds=CopyTimings(timing(there), timing(quick_there)),
        device_to_host_seconds=CopyTimings(timing(back), timing(quick_back)),
        gpu_seconds=CopyTimings(timing(inner + there + back), timing(inner + quick_there + quick_back)),
        gpu_joules=300 * (inner + there + back),
    )


def profile(gpu: bool = True, sizes: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)) -> Profile:
    return Profile(
        created="2026-01-02T03:04:05+00:00",
        machine=machine(gpu),
        method=MeasurementMethod(
            "cuda" if gpu else "cpu", 0, 0.005, 60.0, 41.5, "matmul highest", None, "nvml" if gpu else None
        ),
        points=tuple(_point(name, size, gpu) for size in sizes for name in KERNELS),
        skipped=(SkippedPoint("sort", 8192, "cpu", "it would take about 9 s, and 2 s of the budget are left"),),
        notes=("made up",),
        cpu_memory_bandwidth=1.2e11,
        gpu_memory_bandwidth=4.2e12 if gpu else None,
        launch_overhead_seconds=timing(9e-6) if gpu else None,
    )
