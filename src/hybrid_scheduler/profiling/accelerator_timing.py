"""Timing of kernels on an accelerator and of copies to it and back.

Data is on the host, so a task on the accelerator is copy in, kernel, copy out. Copies go from ordinary (pageable)
memory into a new tensor and back, as `tensor.to(...)` does, or between page-locked (pinned) buffers that are
reused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from .machine_info import need_torch
from .timing import Sample, timed

if TYPE_CHECKING:
    from .kernels import Kernel, Tensors

#: Clock cycles (about 100 µs) for which a GPU is kept busy while the host queues what is measured.
_HEAD_START = 200_000


class Accelerator:
    """Accelerator that is measured.

    Parameters
    ----------
    kind : {"cuda", "mps", "cpu"}
        Torch's name of the device; ``cpu`` is a stand-in that copies within main memory.
    """

    def __init__(self, kind: str) -> None:
        self._torch = need_torch()
        self.kind = kind
        self.can_pin = kind == "cuda"

    def synchronize(self) -> None:
        """Wait until the device has finished its work."""
        if self.kind == "cuda":
            self._torch.cuda.synchronize()
        elif self.kind == "mps":
            self._torch.mps.synchronize()

    def free_memory(self) -> int | None:
        """Return bytes that can be allocated now; None if unknown."""
        if self.kind == "cuda":
            # Memory that torch holds without using it counts as free.
            self._torch.cuda.empty_cache()
            return int(self._torch.cuda.mem_get_info()[0])
        if self.kind == "mps":
            torch = self._torch
            return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
        return None

    def release(self) -> None:
        """Free memory that the last kernel no longer needs."""
        # After some failures a GPU refuses every call; the kernel's own error was recorded.
        with suppress(RuntimeError):
            if self.kind == "cuda":
                self._torch.cuda.empty_cache()
            elif self.kind == "mps":
                self._torch.mps.empty_cache()

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
        empty = self._torch.empty
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
        cuda = self._torch.cuda

        def sample() -> float:
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
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
        one = self._torch.ones(1, device=self.kind)
        return self.wall(lambda: one.add(1))

    def copy_within(self, count: int) -> Sample:
        """Return a sampler of a copy of `count` bytes within the device's memory."""
        source = self._torch.ones(count // 4, device=self.kind)
        target = self._torch.zeros_like(source)
        return self.wall(lambda: target.copy_(source))
