"""The clock and the roads of one accelerator: kernels on it, copies to it and back.

Data lives on the host, so a task on the accelerator is copy in, kernel, copy out. Copies go from ordinary
(pageable) memory into a fresh tensor and back, as `tensor.to(...)` does it, or between page-locked (pinned) buffers
that are used again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from .machine_info import need_torch
from .timing import Sample, timed

if TYPE_CHECKING:
    from .kernels import Kernel, Tensors

#: Clock cycles for which a GPU is kept busy while the host lines up what is measured: some 100 µs.
_HEAD_START = 200_000


class Accelerator:
    """A device by torch's name for it: cuda, mps, or cpu as a stand-in that copies within main memory."""

    def __init__(self, kind: str) -> None:
        self._torch = need_torch()
        self.kind = kind
        self.can_pin = kind == "cuda"

    def synchronize(self) -> None:
        """Wait until everything that was started there is done."""
        if self.kind == "cuda":
            self._torch.cuda.synchronize()
        elif self.kind == "mps":
            self._torch.mps.synchronize()

    def free_memory(self) -> int | None:
        """Bytes that can be taken now; None if nobody can say."""
        if self.kind == "cuda":
            # What torch holds without using it can be taken, too.
            self._torch.cuda.empty_cache()
            return int(self._torch.cuda.mem_get_info()[0])
        if self.kind == "mps":
            torch = self._torch
            return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
        return None

    def release(self) -> None:
        """Give memory back that the last kernel no longer needs."""
        with suppress(RuntimeError):  # after some failures a GPU refuses everything, and the kernel's was recorded
            if self.kind == "cuda":
                self._torch.cuda.empty_cache()
            elif self.kind == "mps":
                self._torch.mps.empty_cache()

    # ---------------------------------------------------------------- roads

    def upload(self, tensors: Tensors) -> Tensors:
        return tuple(tensor.to(self.kind, copy=True, non_blocking=True) for tensor in tensors)

    def download(self, tensors: Tensors) -> Tensors:
        return tuple(tensor.to("cpu", copy=True) for tensor in tensors)

    def pinned(self, tensors: Tensors) -> Tensors:
        """The same data in page-locked host memory."""
        return tuple(tensor.pin_memory() for tensor in tensors)

    def pinned_like(self, results: Tensors) -> Tensors:
        """Page-locked buffers for these results."""
        empty = self._torch.empty
        return tuple(empty(result.shape, dtype=result.dtype, pin_memory=True) for result in results)

    def download_into(self, buffers: Tensors, results: Tensors) -> None:
        for buffer, result in zip(buffers, results, strict=True):
            buffer.copy_(result, non_blocking=True)

    # ---------------------------------------------------------------- clocks

    def wall(self, action: Callable[[], object]) -> Sample:
        return timed(action, self.synchronize)

    def kernel(self, kernel: Kernel, inputs: Tensors) -> Sample:
        """Seconds that the device itself works; without such a clock, until the host knows that it is done."""
        if self.kind != "cuda":
            return self.wall(lambda: kernel.run(inputs))
        cuda = self._torch.cuda

        def sample() -> float:
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            # Behind a short sleep everything is in the queue when the kernel's turn comes: no launch gaps inside.
            cuda._sleep(_HEAD_START)
            start.record()
            kept = kernel.run(inputs)
            end.record()
            end.synchronize()
            del kept
            return float(start.elapsed_time(end)) / 1e3

        return sample

    def launch(self) -> Sample:
        """Starting a kernel that has next to nothing to do, and hearing that it is done."""
        one = self._torch.ones(1, device=self.kind)
        return self.wall(lambda: one.add(1))

    def copy_within(self, count: int) -> Sample:
        """Reading and writing `count` bytes of the device's own memory."""
        source = self._torch.ones(count // 4, device=self.kind)
        target = self._torch.zeros_like(source)
        return self.wall(lambda: target.copy_(source))
