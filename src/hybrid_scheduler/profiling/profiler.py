"""Hardware profiler: measures kernels at several sizes on the CPU and the accelerator, within a time budget.

It needs NumPy alone, and torch for an accelerator, so that it runs where the command line does not.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..core.errors import HybridSchedulerError, InvalidInputError, MissingExtraError, UnknownNameError
from ..workload.argument_checks import positive_number, whole_number
from .energy_meters import WINDOW, Meter, cpu_meter, gpu_meter, joules_per_run
from .hardware_profile import AnyPath, CopyTimings, MeasurementMethod, Profile, ProfilePoint, SkippedPoint
from .hardware_profile import save_profile as save
from .machine_info import (
    DEVICE_TYPES,
    Gpu,
    available_memory,
    default_threads,
    describe_machine,
    find_gpu,
    need_torch,
    optional_torch,
    usable_cores,
)
from .timing import MIN_RUNS, Accelerator, RepetitionLimits, Timing, fixed_threads, repeat, timed

if TYPE_CHECKING:
    from .kernels import Kernel, Tensors

_DEFAULT_SIZES = (256, 512, 1024, 2048)
#: Called with a description and the number of pairs of kernel and size that are done.
Progress = Callable[[str, int], None]

#: Shares of free memory that a kernel may need; the rest is for other programs and for libraries.
_HOST_SHARE = 0.8
_GPU_SHARE = 0.9
#: Larger than CPU caches, so that a copy measures memory.
COPY_BYTES = 256 * 2**20
#: With a smaller budget than these seconds the copy is smaller: the kernels have priority.
_SHORT_BUDGET = 10.0
#: Load per core from which a profile gets a note.
_BUSY = 0.5


class HardwareProfiler:
    """Profiler of this machine.

    Without torch the kernels run in NumPy on the CPU alone, and the profile says so in its notes.

    Parameters
    ----------
    device_type : {"auto", "cpu", "cuda", "mps"}, optional
        Accelerator to measure beside the CPU; ``auto`` takes one if there is one. One that is
        missing is left out with a warning, so that a program written for another machine runs.
    kernels : iterable of str, optional
        Kernels to measure; all if left out.
    threads : int, optional
        CPU threads; torch's own choice if left out, or all cores without torch.
    budget : float, optional
        Time limit of one call of `profile_range` in seconds. Measurements become shorter, and what does not fit is
        skipped and listed.
    energy : bool, optional
        Whether to measure joules where counters can be read.
    limits : RepetitionLimits, optional
        Limits of each measurement.
    seed : int, optional
        The same seed gives the same data.
    progress : callable, optional
        Called with a description and the number of measured points.

    Examples
    --------
    >>> from hybrid_scheduler.profiling import HardwareProfiler
    >>> profiler = HardwareProfiler("cpu", kernels=["sort"], budget=1.0)
    >>> [point.size for point in profiler.profile_range([16, 32]).points]
    [16, 32]
    """

    def __init__(
        self,
        device_type: str = "auto",
        *,
        kernels: Iterable[str] | None = None,
        threads: int | None = None,
        budget: float | None = None,
        energy: bool = True,
        limits: RepetitionLimits | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        if threads is not None:
            whole_number("threads", threads, 1)
        if budget is not None:
            positive_number("budget", budget)
        whole_number("seed", seed, 0)
        from .kernels import kernels_named

        self.kernels = kernels_named(kernels)
        self.threads = threads or default_threads()
        self.budget = budget
        self.energy = energy
        self.limits = limits or RepetitionLimits()
        self.seed = seed
        self.progress = progress
        self.gpu, self.notes = _find_gpu(device_type)
        self.accelerator = Accelerator(self.gpu.kind) if self.gpu else None
        self.profile_: Profile | None = None

    def profile_range(self, sizes: Sequence[int] = _DEFAULT_SIZES) -> Profile:
        """Measure every kernel at every size, small sizes first.

        Parameters
        ----------
        sizes : sequence of int, optional
            Kernel sizes.

        Returns
        -------
        Profile
            Also kept as `profile_`.

        Raises
        ------
        HybridSchedulerError
            If no point could be measured.
        """
        run = _ProfilingRun(self, _checked_sizes(sizes))
        with fixed_threads(self.threads):
            try:
                self.profile_ = run.run()
            finally:
                run.close()
        return self.profile_

    def save_profile(self, path: AnyPath) -> None:
        """Write the latest profile to a JSON file."""
        if self.profile_ is None:
            raise HybridSchedulerError("there is no profile to save yet", hint="call profile_range first")
        save(self.profile_, path)


def _checked_sizes(sizes: Iterable[object]) -> list[int]:
    """Return the sizes in ascending order, each once."""
    checked = {whole_number("sizes", size, 1) for size in sizes}
    if not checked:
        raise InvalidInputError("sizes", "at least one whole number", [])
    return sorted(checked)


def _find_gpu(device_type: str) -> tuple[Gpu | None, tuple[str, ...]]:
    """Return the accelerator and the warnings about it, which the profile keeps as notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gpu = _accelerator(device_type)
    notes = tuple(str(warning.message) for warning in caught)
    for note in notes:
        warnings.warn(note, stacklevel=3)
    return gpu, notes


def _accelerator(device_type: str) -> Gpu | None:
    """Return the accelerator; warn and return None where there is none of that kind, or no torch to drive it."""
    if device_type not in DEVICE_TYPES:
        raise UnknownNameError("device_type", device_type, DEVICE_TYPES)
    if optional_torch() is None:
        if device_type != "cpu":
            missing = MissingExtraError("torch", "measuring a GPU")
            warnings.warn(f"the CPU alone is measured, with NumPy: {missing}", stacklevel=2)
        return None
    try:
        return find_gpu(device_type)
    except InvalidInputError:
        warnings.warn(f"the CPU alone is measured: this machine has no {device_type} device", stacklevel=2)
        return None


class _ProfilingRun:
    """One call of `profile_range`."""

    def __init__(self, profiler: HardwareProfiler, sizes: list[int]) -> None:
        self.profiler = profiler
        self.accelerator = profiler.accelerator
        self.work = [(kernel, size) for size in sizes for kernel in profiler.kernels]
        self.began = time.perf_counter()
        self.notes = [*profiler.notes, *_busy()]
        self.points: list[ProfilePoint] = []
        self.skipped: list[SkippedPoint] = []
        self.cpu_meter = cpu_meter() if profiler.energy else None
        self.gpu_meter = meter_of(profiler.gpu) if profiler.energy else None
        self._reads_energy = False
        #: Last size of each kernel, and seconds of one run of all its variants together.
        self._last: dict[str, tuple[int, float]] = {}

    def close(self) -> None:
        for meter in (self.cpu_meter, self.gpu_meter):
            if meter is not None:
                meter.close()

    def run(self) -> Profile:
        profiler = self.profiler
        bandwidth = self._bandwidth(Accelerator("cpu"))
        gpu_bandwidth = self._bandwidth(self.accelerator) if self.accelerator else None
        launch = self._launch_overhead()
        for done, (kernel, size) in enumerate(self.work):
            if profiler.progress:
                profiler.progress(f"{kernel.name} {size}", done)
            self._measure(kernel, size, len(self.work) - done)
        if profiler.progress:
            profiler.progress("done", len(self.work))
        if not self.points:
            first = self.skipped[0]
            reason = f"{first.kernel} at size {first.size}: {first.reason}"
            raise HybridSchedulerError(f"nothing could be measured; {reason}", hint="try other sizes")
        return Profile(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=describe_machine(profiler.gpu, profiler.threads),
            method=MeasurementMethod(
                device=profiler.gpu.kind if profiler.gpu else "cpu",
                seed=profiler.seed,
                precision=profiler.limits.precision,
                budget_seconds=profiler.budget,
                elapsed_seconds=round(time.perf_counter() - self.began, 3),
                float32_precision=_float32_precision(),
                cpu_energy=self.cpu_meter.source if self.cpu_meter else None,
                gpu_energy=self.gpu_meter.source if self.gpu_meter else None,
            ),
            points=tuple(self.points),
            skipped=tuple(self.skipped),
            notes=tuple(self.notes),
            cpu_memory_bandwidth=bandwidth,
            gpu_memory_bandwidth=gpu_bandwidth,
            launch_overhead_seconds=launch,
        )

    # ---------------------------------------------------------------- time

    def _left(self) -> float:
        budget = self.profiler.budget
        return math.inf if budget is None else budget - (time.perf_counter() - self.began)

    def _energy_seconds(self, points_left: int) -> float:
        """Return seconds for energy counters at all these points; 0 if that is too long, and none are read."""
        meters = (self.cpu_meter is not None) + (self.gpu_meter is not None)
        seconds = points_left * meters * WINDOW
        return seconds if seconds <= self._left() / 2 else 0.0

    def _limits(self, points_left: int) -> RepetitionLimits:
        """Return the given limits, reduced to an equal share of the budget for each measurement still to come."""
        accelerator = self.accelerator
        measurements = 2 if accelerator is None else 8 if accelerator.can_pin else 5
        seconds = self._left() - self._energy_seconds(points_left)
        share = max(0.001, seconds / (points_left * measurements))
        limits = self.profiler.limits
        return replace(
            limits,
            seconds=min(limits.seconds, share),
            warmup_seconds=min(limits.warmup_seconds, share / 4),
        )

    def _too_long(self, kernel: Kernel, size: int) -> str | None:
        """Return why a point does not fit into the budget, judged by the last size; None if it does."""
        left = self._left()
        if left <= 0 and self.points:  # a profile has a point, however busy the machine is
            return f"the budget of {self.profiler.budget:g} s was used up"
        if kernel.name not in self._last:
            return None
        before, seconds = self._last[kernel.name]
        growth = max(
            kernel.flops(size) / kernel.flops(before), kernel.memory_bytes(size) / kernel.memory_bytes(before)
        )
        expected = seconds * growth * (MIN_RUNS + 1)
        if expected <= left:
            return None
        return f"it would take about {expected:.3g} s, and {left:.3g} s of the budget are left"

    # ---------------------------------------------------------------- points

    def _measure(self, kernel: Kernel, size: int, points_left: int) -> None:
        refusal = self._refusal(kernel, size)
        if refusal:
            self._skip(kernel, size, "cpu", refusal)
            return
        limits = self._limits(points_left)
        self._reads_energy = self._energy_seconds(points_left) > 0
        try:
            inputs = self._inputs(kernel, size)
        except Exception as error:
            self._skip(kernel, size, "cpu", _reason(error))
            return
        measured: dict[str, Any] = {}
        for device in ("cpu",) if self.accelerator is None else ("cpu", "gpu"):
            try:
                if device == "gpu":
                    self._check_gpu_memory(kernel, size)
                    measured |= self._gpu(kernel, inputs, limits)
                else:
                    measured |= self._cpu(kernel, inputs, limits)
            except Exception as error:
                # A kernel that fails on one device is recorded, and the profile goes on.
                self._skip(kernel, size, device, _reason(error))
        if self.accelerator is not None:
            del inputs
            self.accelerator.release()
        if measured:
            bytes_in = kernel.bytes_in(size)
            bytes_out = kernel.bytes_out(size)
            flops = kernel.flops(size)
            point = ProfilePoint(kernel.name, size, bytes_in, bytes_out, flops, **measured)
            self.points.append(point)
            self._last[kernel.name] = size, sum(timing.median for timing in _timings(point))

    def _inputs(self, kernel: Kernel, size: int) -> Tensors:
        from .kernels import data_generator

        return kernel.make(size, data_generator(self.profiler.seed * 2**20 + size))

    def _cpu(self, kernel: Kernel, inputs: Tensors, limits: RepetitionLimits) -> dict[str, Any]:
        def run() -> object:
            return kernel.run(inputs)

        measured: dict[str, Any] = {"cpu_seconds": repeat(timed(run), limits)}
        if self.accelerator is None and self.profiler.threads > 1:
            with fixed_threads(1):
                measured["cpu_one_thread_seconds"] = repeat(timed(run), limits)
        if self._reads_energy:
            measured["cpu_joules"] = joules_per_run(self.cpu_meter, run, window=WINDOW)
        return measured

    def _gpu(self, kernel: Kernel, inputs: Tensors, limits: RepetitionLimits) -> dict[str, Any]:
        """Measure kernel, copies and both together, from pageable and, if possible, from pinned memory."""
        device = self.accelerator
        assert device is not None
        resident = device.upload(inputs)
        results = kernel.run(resident)

        def wall(action: Callable[[], object]) -> Timing:
            return repeat(device.wall(action), limits)

        def with_copies() -> object:
            return device.download(kernel.run(device.upload(inputs)))

        kernel_seconds = repeat(device.kernel(kernel, resident), limits)
        copy_in = CopyTimings(wall(lambda: device.upload(inputs)))
        copy_out = CopyTimings(wall(lambda: device.download(results)))
        whole = CopyTimings(wall(with_copies))
        if device.can_pin:
            source = device.pinned(inputs)
            target = device.pinned_like(results)

            def with_pinned_copies() -> None:
                device.download_into(target, kernel.run(device.upload(source)))

            copy_in = replace(copy_in, pinned=wall(lambda: device.upload(source)))
            copy_out = replace(copy_out, pinned=wall(lambda: device.download_into(target, results)))
            whole = replace(whole, pinned=wall(with_pinned_copies))
        joules = None
        if self._reads_energy:
            joules = joules_per_run(self.gpu_meter, with_copies, window=WINDOW, synchronize=device.synchronize)
        return {
            "gpu_kernel_seconds": kernel_seconds,
            "host_to_device_seconds": copy_in,
            "device_to_host_seconds": copy_out,
            "gpu_seconds": whole,
            "gpu_joules": joules,
        }

    def _skip(self, kernel: Kernel, size: int, device: str, reason: str) -> None:
        self.skipped.append(SkippedPoint(kernel.name, size, device, reason))

    # ---------------------------------------------------------------- memory

    def _refusal(self, kernel: Kernel, size: int) -> str | None:
        """Return why a point is not measured (size, host memory or time); None if it is."""
        try:
            kernel.check(size)
        except InvalidInputError as error:
            return str(error)
        copies = 2 + (1 if self.accelerator else 0)  # making data needs as much again; pinned memory is a copy
        need = kernel.memory_bytes(size) + copies * kernel.bytes_in(size)
        free = available_memory()
        if free is not None and need > _HOST_SHARE * free:
            return f"needs {_gigabytes(need)} of memory, {_gigabytes(free)} are free"
        return self._too_long(kernel, size)

    def _check_gpu_memory(self, kernel: Kernel, size: int) -> None:
        free = self.accelerator.free_memory() if self.accelerator else None
        # Inputs and results are in GPU memory twice while a copy is measured.
        need = kernel.memory_bytes(size) + kernel.bytes_in(size) + kernel.bytes_out(size)
        if free is not None and need > _GPU_SHARE * free:
            raise MemoryError(f"needs {_gigabytes(need)} of GPU memory, {_gigabytes(free)} are free")

    # ---------------------------------------------------------------- machine

    def _bandwidth(self, where: Accelerator) -> float | None:
        free = (available_memory() if where.kind == "cpu" else where.free_memory()) or COPY_BYTES * 16
        budget = self.profiler.budget
        short = budget is not None and budget < _SHORT_BUDGET
        count = min(COPY_BYTES // 8 if short else COPY_BYTES, free // 16)
        try:
            seconds = repeat(where.copy_within(count), self._limits(len(self.work))).median
        except Exception:
            return None
        finally:
            where.release()
        return 2 * count / seconds

    def _launch_overhead(self) -> Timing | None:
        if self.accelerator is None:
            return None
        try:
            return repeat(self.accelerator.launch(), self._limits(len(self.work)))
        except Exception:
            return None


def meter_of(gpu: Gpu | None) -> Meter | None:
    """Return the energy meter of a CUDA device; there is none for other devices."""
    if gpu is None or gpu.kind != "cuda":
        return None
    uuid = getattr(need_torch().cuda.get_device_properties(0), "uuid", None)
    return gpu_meter(gpu.kind, None if uuid is None else str(uuid))


def _busy() -> list[str]:
    """Return a note if other programs are running: kernels with several threads become much slower."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return []
    cores = usable_cores()
    busy = f"other programs were running (load {load:.1f} on {cores} cores), which makes times longer"
    return [f"{busy}; OMP_WAIT_POLICY=passive helps"] if load > _BUSY * cores else []


def _timings(point: ProfilePoint) -> list[Timing]:
    """Return all timings of a point, each variant once."""
    copies = [point.host_to_device_seconds, point.device_to_host_seconds, point.gpu_seconds]
    timings = [point.cpu_seconds, point.cpu_one_thread_seconds, point.gpu_kernel_seconds]
    timings += [timing for pair in copies if pair for timing in (pair.pageable, pair.pinned)]
    return [timing for timing in timings if timing is not None]


def _float32_precision() -> str:
    """Describe the precision of products: reduced precision is faster and less exact."""
    torch = optional_torch()
    if torch is None:
        return "float32"
    try:
        convolution = "tf32" if torch.backends.cudnn.allow_tf32 else "float32"
        return f"matmul {torch.get_float32_matmul_precision()}, GPU convolution {convolution}"
    except RuntimeError:  # set through torch's newer API, after which the old one cannot be read
        return "set by the program"


def _reason(error: Exception) -> str:
    text = next(iter(str(error).splitlines()), "")
    return text if isinstance(error, MemoryError) and text else f"{type(error).__name__}: {text}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
