"""Repeated timing with robust statistics, on the CPU and on accelerators.

Warm-up runs are discarded: they load libraries, fill caches and raise clocks. Of the rest the median is reported,
with the median absolute deviation as its spread, so that single interrupted runs change neither. Runs are repeated
until the median is precise or the time is up, at least three times: of two runs it is unknown which was disturbed.

Data is on the host, so a task on an accelerator is copy in, kernel, copy out. Copies go from ordinary (pageable)
memory into a new tensor and back, as `tensor.to(...)` does, or between page-locked (pinned) buffers that are
reused.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InvalidInputError
from ..workload.argument_checks import positive_number
from .machine_info import need_torch, optional_torch

if TYPE_CHECKING:
    from .kernels import Kernel, Tensors

TimerFunction = Callable[[], float]
#: Does something once and returns how many seconds it took.
Sample = Callable[[], float]

MIN_RUNS = 3
#: Standard deviation of a normal distribution over its median absolute deviation.
_MAD_TO_SIGMA = 1.4826
#: Standard error of a median over that of a mean.
_MEDIAN_TO_MEAN = math.sqrt(math.pi / 2)
_CHECK_EVERY = 10


@dataclass(frozen=True, slots=True)
class Timing:
    """Statistics of a run's seconds.

    Attributes
    ----------
    median : float
        Median.
    spread : float
        Robust standard deviation.
    low, high : float
        Quartiles.
    n : int
        Number of runs.
    """

    median: float = field(metadata={"above": 0.0})
    spread: float
    low: float
    high: float
    n: int = field(metadata={"least": 1})

    def __post_init__(self) -> None:
        if not self.low <= self.median <= self.high:
            raise InvalidInputError("median", "between low and high", self.median)

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Return the statistics of measured seconds."""
        values = np.asarray(seconds, dtype=float)
        low, median, high = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
        spread = _MAD_TO_SIGMA * float(np.median(np.abs(values - median)))
        return cls(median, spread, low, high, len(values))

    @property
    def uncertainty(self) -> float:
        """Standard error of the median, as a share of it."""
        return _MEDIAN_TO_MEAN * self.spread / math.sqrt(self.n) / self.median if self.median > 0 else 0.0


@dataclass(frozen=True, slots=True)
class RepetitionLimits:
    """Limits of repeated timing.

    Attributes
    ----------
    precision : float
        Standard error of the median, as a share of it, at which to stop.
    seconds : float
        Time limit.
    most_runs : int
        Most runs.
    warmup_runs, warmup_seconds
        Least warm-up.
    """

    precision: float = 0.005
    seconds: float = 1.0
    most_runs: int = 500
    warmup_runs: int = 2
    warmup_seconds: float = 0.02

    def __post_init__(self) -> None:
        for name in ("precision", "seconds"):
            positive_number(name, getattr(self, name))


def repeat(sample: Sample, limits: RepetitionLimits, clock: TimerFunction = time.perf_counter) -> Timing:
    """Warm up, then sample until the median is precise or a limit is reached.

    Parameters
    ----------
    sample : callable
        Does something once and returns its seconds.
    limits : RepetitionLimits
        When to stop.
    clock : callable, optional
        Returns seconds.
    """
    began = clock()
    warm = 0
    while warm < limits.warmup_runs or clock() - began < limits.warmup_seconds:
        sample()
        warm += 1
        if clock() - began >= limits.seconds:
            break
    began = clock()
    seconds: list[float] = []
    while len(seconds) < limits.most_runs:
        seconds.append(sample())
        late = clock() - began >= limits.seconds
        if late and len(seconds) >= MIN_RUNS:
            break
        if len(seconds) % _CHECK_EVERY == 0 and Timing.of(seconds).uncertainty <= limits.precision:
            break
    return Timing.of(seconds)


def timed(
    action: Callable[[], Any],
    synchronize: Callable[[], None] | None = None,
    clock: TimerFunction = time.perf_counter,
) -> Sample:
    """Return a sampler of an action's wall-clock seconds.

    Parameters
    ----------
    action : callable
        What is timed.
    synchronize : callable, optional
        Waits for the device, before and after the action.
    clock : callable, optional
        Returns seconds.
    """

    def sample() -> float:
        if synchronize is not None:
            synchronize()
        began = clock()
        kept = action()
        if synchronize is not None:
            synchronize()
        seconds = clock() - began
        del kept  # only now: freeing memory is not timed
        return seconds

    return sample


@contextmanager
def fixed_threads(count: int) -> Iterator[None]:
    """Let CPU kernels use this many threads inside the context."""
    torch = optional_torch()
    if torch is None:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        with threadpool_limits(count):
            yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ------------------------------------------------------------------------------------------ accelerators

#: Clock cycles (about 100 µs) for which a GPU is kept busy while the host queues what is measured.
_HEAD_START = 200_000


class Accelerator:
    """Accelerator that is measured.

    Parameters
    ----------
    kind : {"cuda", "mps", "cpu"}
        Torch's name of the device; ``cpu`` is a stand-in that copies within main memory, also without torch.
    """

    def __init__(self, kind: str) -> None:
        self.torch: Any = optional_torch() if kind == "cpu" else need_torch()
        self.kind = kind
        self.can_pin = kind == "cuda"

    def synchronize(self) -> None:
        """Wait until the device has finished its work."""
        if self.kind == "cuda":
            self.torch.cuda.synchronize()
        elif self.kind == "mps":
            self.torch.mps.synchronize()

    def free_memory(self) -> int | None:
        """Return bytes that can be allocated now; None if unknown."""
        if self.kind == "cuda":
            # Memory that torch holds without using it counts as free.
            self.torch.cuda.empty_cache()
            return int(self.torch.cuda.mem_get_info()[0])
        if self.kind == "mps":
            torch = self.torch
            return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
        return None

    def release(self) -> None:
        """Free memory that the last kernel no longer needs."""
        # After some failures a GPU refuses every call; the kernel's own error was recorded.
        with suppress(RuntimeError):
            if self.kind == "cuda":
                self.torch.cuda.empty_cache()
            elif self.kind == "mps":
                self.torch.mps.empty_cache()

    # ---------------------------------------------------------------- copies

    def upload(self, tensors: Tensors) -> Tensors:
        """Copy tensors to the device."""
        return tuple(tensor.to(self.kind, copy=True, non_blocking=True) for tensor in tensors)

    def download(self, tensors: Tensors) -> Tensors:
        """Copy tensors to the host, into new memory."""
        return tuple(tensor.to("cpu", copy=True) for tensor in tensors)

    def pinned(self, tensors: Tensors) -> Tensors:
        """Return copies in page-locked host memory."""
        return tuple(tensor.pin_memory() for tensor in tensors)

    def pinned_like(self, results: Tensors) -> Tensors:
        """Return page-locked buffers for these results."""
        empty = self.torch.empty
        return tuple(empty(result.shape, dtype=result.dtype, pin_memory=True) for result in results)

    def download_into(self, buffers: Tensors, results: Tensors) -> None:
        """Copy results to the host, into existing buffers."""
        for buffer, result in zip(buffers, results, strict=True):
            buffer.copy_(result, non_blocking=True)

    # ---------------------------------------------------------------- clocks

    def wall(self, action: Callable[[], object]) -> Sample:
        """Return a sampler of an action's wall-clock seconds."""
        return timed(action, self.synchronize)

    def kernel(self, kernel: Kernel, inputs: Tensors) -> Sample:
        """Return a sampler of a kernel's seconds by the device's own clock, or else by the wall clock."""
        if self.kind != "cuda":
            return self.wall(lambda: kernel.run(inputs))
        cuda = self.torch.cuda

        def sample() -> float:
            start = cuda.Event(enable_timing=True)
            end = cuda.Event(enable_timing=True)
            # After a short sleep everything is queued before the kernel starts: no launch gaps are measured.
            cuda._sleep(_HEAD_START)
            start.record()
            kept = kernel.run(inputs)
            end.record()
            end.synchronize()
            del kept
            return float(start.elapsed_time(end)) / 1e3

        return sample

    def launch(self) -> Sample:
        """Return a sampler of launch overhead: a kernel with almost no work."""
        one = self.torch.ones(1, device=self.kind)
        return self.wall(lambda: one.add(1))

    def copy_within(self, count: int) -> Sample:
        """Return a sampler of a copy of `count` bytes within the device's memory."""
        if self.torch is None:
            numbers = np.ones(count // 4, dtype=np.float32)
            copied = np.zeros_like(numbers)
            return self.wall(lambda: np.copyto(copied, numbers))
        source = self.torch.ones(count // 4, device=self.kind)
        target = self.torch.zeros_like(source)
        return self.wall(lambda: target.copy_(source))
