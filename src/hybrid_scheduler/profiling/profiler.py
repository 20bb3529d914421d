"""Measures every kernel at every size, on the CPU and on the accelerator, within a budget of time.

On machines without the whole program's packages:

    python -m hybrid_scheduler.profiling.profiler --out profile.json --budget 60
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

from ..core.errors import HybridSchedulerError, InvalidInputError
from .accelerator_timing import Accelerator
from .energy_meters import WINDOW, Meter, cpu_meter, gpu_meter, joules_per_run
from .hardware_profile import AnyPath, Copies, Method, Point, Profile, Skipped
from .hardware_profile import save_profile as save
from .machine_info import Gpu, available_memory, describe_machine, find_gpu, need_torch, usable_cores
from .timing import FEWEST_RUNS, RepetitionLimits, Timing, fixed_threads, repeat, timed

if TYPE_CHECKING:
    from .kernels import Kernel, Tensors

DEFAULT_SIZES = (256, 512, 1024, 2048)
#: What is going on, and how many pairs of kernel and size are done.
Progress = Callable[[str, int], None]

#: The rest is for everybody else on the machine, and for what libraries take without asking.
_HOST_SHARE, _GPU_SHARE = 0.8, 0.9
#: Larger than the caches of today's CPUs, so that a copy is a matter of memory.
_COPY_BYTES = 256 * 2**20
#: With fewer seconds than these the copy is smaller: the kernels are what was asked for.
_HURRY = 10.0
#: Load per core from which a profile should be read with care.
_BUSY = 0.5


class HardwareProfiler:
    """Profile this machine: `profile_range`, then `save_profile`.

    `device_type` auto takes an accelerator if one can be used. The CPU is always measured, with `threads` threads
    (torch's own choice if None). `budget` bounds the seconds of one call of `profile_range`: measurements become
    shorter, and what would no longer fit is skipped and listed. The same `seed` gives the same data.
    """

    def __init__(
        self,
        device_type: str = "auto",
        *,
        kernels: Iterable[str] | None = None,
        threads: int | None = None,
        budget: float | None = None,
        energy: bool = True,
        patience: RepetitionLimits | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise InvalidInputError("threads", "a whole number >= 1", threads)
        if budget is not None and not (math.isfinite(budget) and budget > 0):
            raise InvalidInputError("budget", "a finite number of seconds > 0", budget)
        if seed < 0:
            raise InvalidInputError("seed", "a whole number >= 0", seed)
        torch = need_torch()
        from .kernels import kernels_named

        self.kernels = kernels_named(kernels)
        self.threads = threads or int(torch.get_num_threads())
        self.budget = budget
        self.energy = energy
        self.patience = patience or RepetitionLimits()
        self.seed = seed
        self.progress = progress
        self.gpu, self.notes = _find_gpu(device_type)
        self.accelerator = Accelerator(self.gpu.kind) if self.gpu else None
        self.profile_: Profile | None = None

    def profile_range(self, sizes: Sequence[int] = DEFAULT_SIZES) -> Profile:
        """Measure every kernel at every size, small sizes first."""
        session = _Session(self, checked_sizes(sizes))
        with fixed_threads(self.threads):
            try:
                self.profile_ = session.run()
            finally:
                session.close()
        return self.profile_

    def save_profile(self, path: AnyPath) -> None:
        """Write the latest profile to a JSON file."""
        if self.profile_ is None:
            raise HybridSchedulerError("there is no profile to save yet", hint="call profile_range first")
        save(self.profile_, path)


def checked_sizes(sizes: Iterable[object]) -> list[int]:
    """Ascending, each once."""
    checked: set[int] = set()
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise InvalidInputError("sizes", "whole numbers >= 1", size)
        checked.add(size)
    if not checked:
        raise InvalidInputError("sizes", "at least one whole number", [])
    return sorted(checked)


def _find_gpu(device_type: str) -> tuple[Gpu | None, tuple[str, ...]]:
    """The accelerator, and what there was to warn about: heard by the caller and kept in the profile."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        gpu = find_gpu(device_type)
    notes = tuple(str(warning.message) for warning in heard)
    for note in notes:
        warnings.warn(note, stacklevel=3)
    return gpu, notes


class _Session:
    """One call of `profile_range`."""

    def __init__(self, profiler: HardwareProfiler, sizes: list[int]) -> None:
        self.profiler = profiler
        self.accelerator = profiler.accelerator
        self.work = [(kernel, size) for size in sizes for kernel in profiler.kernels]
        self.began = time.perf_counter()
        self.notes = [*profiler.notes, *_busy()]
        self.points: list[Point] = []
        self.skipped: list[Skipped] = []
        self.cpu_meter = cpu_meter() if profiler.energy else None
        self.gpu_meter = _meter_of(profiler.gpu) if profiler.energy else None
        self._reads_energy = False
        #: Of each kernel the last size and how long all variants took together, once each.
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
            method=Method(
                device=profiler.gpu.kind if profiler.gpu else "cpu",
                seed=profiler.seed,
                precision=profiler.patience.precision,
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
        """What reading energy counters at all these points takes; 0 where that is too much, and none are read."""
        meters = (self.cpu_meter is not None) + (self.gpu_meter is not None)
        seconds = points_left * meters * WINDOW
        return seconds if seconds <= self._left() / 2 else 0.0

    def _patience(self, points_left: int) -> RepetitionLimits:
        """As told, or less where the budget is short: every measurement still to come gets the same share."""
        there = self.accelerator
        measurements = 2 if there is None else 8 if there.can_pin else 5
        seconds = self._left() - self._energy_seconds(points_left)
        share = max(0.001, seconds / (points_left * measurements))
        patience = self.profiler.patience
        return replace(
            patience,
            seconds=min(patience.seconds, share),
            warmup_seconds=min(patience.warmup_seconds, share / 4),
        )

    def _too_long(self, kernel: Kernel, size: int) -> str | None:
        """Why a point would not fit into the budget any more; the last size tells how long it will take."""
        left = self._left()
        if left <= 0:
            return f"the budget of {self.profiler.budget:g} s was used up"
        if kernel.name not in self._last:
            return None
        before, seconds = self._last[kernel.name]
        growth = max(kernel.flops(size) / kernel.flops(before), kernel.memory(size) / kernel.memory(before))
        expected = seconds * growth * (FEWEST_RUNS + 1)
        if expected <= left:
            return None
        return f"it would take about {expected:.3g} s, and {left:.3g} s of the budget are left"

    # ---------------------------------------------------------------- one point

    def _measure(self, kernel: Kernel, size: int, points_left: int) -> None:
        refusal = self._refusal(kernel, size)
        if refusal:
            self._skip(kernel, size, "cpu", refusal)
            return
        patience = self._patience(points_left)
        self._reads_energy = self._energy_seconds(points_left) > 0
        try:
            inputs = self._inputs(kernel, size)
        except Exception as error:
            self._skip(kernel, size, "cpu", _reason(error))
            return
        found: dict[str, Any] = {}
        measurers: list[tuple[str, Callable[[Kernel, Tensors, RepetitionLimits], dict[str, Any]]]] = [
            ("cpu", self._cpu)
        ]
        if self.accelerator is not None:
            measurers.append(("gpu", self._gpu))
        for device, measure in measurers:
            try:
                self._check_gpu_memory(kernel, size, device)
                found |= measure(kernel, inputs, patience)
            except Exception as error:
                # One kernel that fails, on one device, is a result like any other.
                self._skip(kernel, size, device, _reason(error))
        if self.accelerator is not None:
            del inputs
            self.accelerator.release()
        if found:
            bytes_in, bytes_out, flops = kernel.bytes_in(size), kernel.bytes_out(size), kernel.flops(size)
            point = Point(kernel.name, size, bytes_in, bytes_out, flops, **found)
            self.points.append(point)
            self._last[kernel.name] = size, sum(timing.median for timing in _timings(point))

    def _inputs(self, kernel: Kernel, size: int) -> Tensors:
        torch = need_torch()
        return kernel.make(size, torch.Generator().manual_seed(self.profiler.seed * 2**20 + size))

    def _cpu(self, kernel: Kernel, inputs: Tensors, patience: RepetitionLimits) -> dict[str, Any]:
        def run() -> object:
            return kernel.run(inputs)

        found: dict[str, Any] = {"cpu_seconds": repeat(timed(run), patience)}
        if self.accelerator is None and self.profiler.threads > 1:
            with fixed_threads(1):
                found["cpu_one_thread_seconds"] = repeat(timed(run), patience)
        if self._reads_energy:
            found["cpu_joules"] = joules_per_run(self.cpu_meter, run, window=WINDOW)
        return found

    def _gpu(self, kernel: Kernel, inputs: Tensors, patience: RepetitionLimits) -> dict[str, Any]:
        """Kernel, copies and the whole way, from ordinary memory and, where there is such a thing, from pinned."""
        there = self.accelerator
        assert there is not None
        resident = there.upload(inputs)
        results = kernel.run(resident)

        def wall(action: Callable[[], object]) -> Timing:
            return repeat(there.wall(action), patience)

        def whole_way() -> object:
            return there.download(kernel.run(there.upload(inputs)))

        kernel_seconds = repeat(there.kernel(kernel, resident), patience)
        copy_in = Copies(wall(lambda: there.upload(inputs)))
        copy_out = Copies(wall(lambda: there.download(results)))
        whole = Copies(wall(whole_way))
        if there.can_pin:
            source, target = there.pinned(inputs), there.pinned_like(results)

            def whole_way_pinned() -> None:
                there.download_into(target, kernel.run(there.upload(source)))

            copy_in = replace(copy_in, pinned=wall(lambda: there.upload(source)))
            copy_out = replace(copy_out, pinned=wall(lambda: there.download_into(target, results)))
            whole = replace(whole, pinned=wall(whole_way_pinned))
        joules = None
        if self._reads_energy:
            joules = joules_per_run(self.gpu_meter, whole_way, window=WINDOW, synchronize=there.synchronize)
        return {
            "gpu_kernel_seconds": kernel_seconds,
            "host_to_device_seconds": copy_in,
            "device_to_host_seconds": copy_out,
            "gpu_seconds": whole,
            "gpu_joules": joules,
        }

    def _skip(self, kernel: Kernel, size: int, device: str, reason: str) -> None:
        self.skipped.append(Skipped(kernel.name, size, device, reason))

    # ---------------------------------------------------------------- memory

    def _refusal(self, kernel: Kernel, size: int) -> str | None:
        """Why a point is not even tried: the size, the host's memory or the time."""
        try:
            kernel.check(size)
        except InvalidInputError as error:
            return str(error)
        copies = 2 + (1 if self.accelerator else 0)  # making data takes as much again; pinned memory is a copy
        need = kernel.memory(size) + copies * kernel.bytes_in(size)
        free = available_memory()
        if free is not None and need > _HOST_SHARE * free:
            return f"needs {_gigabytes(need)} of memory, {_gigabytes(free)} are free"
        return self._too_long(kernel, size)

    def _check_gpu_memory(self, kernel: Kernel, size: int, device: str) -> None:
        free = self.accelerator.free_memory() if device == "gpu" and self.accelerator else None
        # The inputs lie there twice while a copy is measured, and so do the results.
        need = kernel.memory(size) + kernel.bytes_in(size) + kernel.bytes_out(size)
        if free is not None and need > _GPU_SHARE * free:
            raise MemoryError(f"needs {_gigabytes(need)} of GPU memory, {_gigabytes(free)} are free")

    # ---------------------------------------------------------------- the machine itself

    def _bandwidth(self, where: Accelerator) -> float | None:
        free = (available_memory() if where.kind == "cpu" else where.free_memory()) or _COPY_BYTES * 16
        budget = self.profiler.budget
        hurried = budget is not None and budget < _HURRY
        count = min(_COPY_BYTES // 8 if hurried else _COPY_BYTES, free // 16)
        try:
            seconds = repeat(where.copy_within(count), self._patience(len(self.work))).median
        except Exception:
            return None
        finally:
            where.release()
        return 2 * count / seconds

    def _launch_overhead(self) -> Timing | None:
        if self.accelerator is None:
            return None
        try:
            return repeat(self.accelerator.launch(), self._patience(len(self.work)))
        except Exception:
            return None


def _meter_of(gpu: Gpu | None) -> Meter | None:
    if gpu is None or gpu.kind != "cuda":
        return None
    uuid = getattr(need_torch().cuda.get_device_properties(0), "uuid", None)
    return gpu_meter(gpu.kind, None if uuid is None else str(uuid))


def _busy() -> list[str]:
    """A note if other programs are at work: threads that wait for each other suffer far more than their share."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows
        return []
    cores = usable_cores()
    busy = f"other programs were running (load {load:.1f} on {cores} cores), which makes times longer"
    return [f"{busy}; OMP_WAIT_POLICY=passive helps"] if load > _BUSY * cores else []


def _timings(point: Point) -> list[Timing]:
    """Everything that was measured of it, each variant once."""
    copies = [point.host_to_device_seconds, point.device_to_host_seconds, point.gpu_seconds]
    found = [point.cpu_seconds, point.cpu_one_thread_seconds, point.gpu_kernel_seconds]
    found += [timing for pair in copies if pair for timing in (pair.pageable, pair.pinned)]
    return [timing for timing in found if timing is not None]


def _float32_precision() -> str:
    """Reduced precision makes products faster and less exact: it belongs to the result."""
    torch = need_torch()
    try:
        convolution = "tf32" if torch.backends.cudnn.allow_tf32 else "float32"
        return f"matmul {torch.get_float32_matmul_precision()}, GPU convolution {convolution}"
    except RuntimeError:  # set through torch's newer switches, which the old ones refuse to read
        return "set by the program"


def _reason(error: Exception) -> str:
    text = next(iter(str(error).splitlines()), "")
    return text if isinstance(error, MemoryError) and text else f"{type(error).__name__}: {text}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"


if __name__ == "__main__":
    import sys

    from .profiler_cli import main

    sys.exit(main())
