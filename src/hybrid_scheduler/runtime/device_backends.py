"""How a kernel is run on a device, with its data in main memory before and after.

On a CUDA GPU data goes through page-locked buffers: copied in pieces, so that one piece is on its way while the
next is being copied, and back straight into page-locked results. That is several times faster than copies from
ordinary memory, which the driver stages by itself, piece after piece.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..profiling.machine_info import need_torch
from .device_pools import DevicePool
from .submission import KernelCall, Variant, Variants, run_variant

Tensors = tuple[Any, ...]
Run = Callable[[Tensors], Tensors]
Into = Callable[[Tensors, Any], object]

#: Smaller inputs are copied as they are: staging them costs a copy and gains nothing.
_STAGED = 64 * 1024
_PIECE = 4 * 2**20
#: Page-locked memory is taken from everybody: no more of it than this for one device.
_MOST_STAGING = 4 * 2**30
_ALIGNED = 512
_entering = threading.Lock()


class CpuBackend:
    """There is no way to go: the kernel runs where the data is."""

    def __init__(self, pool: DevicePool) -> None:
        self.pool = pool
        #: Seconds of the run at hand that went into memory which later ones find ready.
        self.preparing = 0.0

    def enter(self) -> None:
        """Called by the worker's own thread: how many threads kernels may use is a matter of each thread."""
        torch = need_torch()
        with _entering:
            # A thread takes over the number that any thread set last when it is first asked for its own: ask it
            # now, and let a third thread set that number back, or the program's own threads would inherit ours.
            before = torch.get_num_threads()
            torch.set_num_threads(self.pool.threads)
            restore = threading.Thread(target=torch.set_num_threads, args=(before,))
            restore.start()
            restore.join()

    def carry(self, run: Run, inputs: Tensors) -> Tensors:
        return run(inputs)

    def carry_into(self, run: Run, into: Into | None, inputs: Tensors, target: Any) -> None:
        """The same, with the result written into memory that is there already."""
        if into is not None:
            into(inputs, target)
        else:
            target.copy_(run(inputs)[0])

    def kernel(self, call: KernelCall) -> Tensors:
        """Run a kernel whose data is there."""
        assert call.inputs is not None
        return self.carry(call.kernel.run, call.inputs)

    def call(self, work: Variants, variant: Variant, timeout: float | None) -> Any:
        """Run a variant of somebody's own: it knows its way by itself."""
        return run_variant(work, variant, timeout)

    def synchronize(self) -> None:
        pass

    def recover(self) -> None:
        pass


class CudaBackend(CpuBackend):
    """Copy in, run, copy out."""

    def __init__(self, pool: DevicePool) -> None:
        super().__init__(pool)
        self._torch = need_torch()
        self._cuda = pool.where.startswith("cuda")
        self._buffer: Any = None

    def enter(self) -> None:
        super().enter()
        if self._cuda:
            self._torch.cuda.set_device(self.pool.where)

    def carry(self, run: Run, inputs: Tensors) -> Tensors:
        results = run(self._upload(inputs))
        return self._download(results)

    def carry_into(self, run: Run, into: Into | None, inputs: Tensors, target: Any) -> None:
        target.copy_(run(self._upload(inputs))[0], non_blocking=self._cuda)

    def synchronize(self) -> None:
        if self._cuda:
            self._torch.cuda.current_stream().synchronize()
        elif self.pool.where == "mps":
            self._torch.mps.synchronize()

    def recover(self) -> None:
        """After a failure for want of memory: give back what is held without being used."""
        self._buffer = None
        if self._cuda:
            self._torch.cuda.empty_cache()

    # ---------------------------------------------------------------- copies

    def _upload(self, inputs: Tensors) -> Tensors:
        if not self._cuda:
            return tuple(tensor.to(self.pool.where) for tensor in inputs)
        places, need = [], 0
        for tensor in inputs:
            staged = tensor.nbytes >= _STAGED and not tensor.is_pinned()
            places.append(need if staged else None)
            need += -(-tensor.nbytes // _ALIGNED) * _ALIGNED if staged else 0
        if need > _MOST_STAGING:
            return tuple(tensor.to(self.pool.where) for tensor in inputs)
        buffer = self._staging(need)
        return tuple(
            tensor.to(self.pool.where, non_blocking=True) if place is None else self._staged(tensor, buffer, place)
            for tensor, place in zip(inputs, places, strict=True)
        )

    def _staging(self, need: int) -> Any:
        if self._buffer is None or len(self._buffer) < need:
            self._buffer = None  # the old one goes first
            self._buffer = self._page_locked((max(need, _PIECE),), self._torch.uint8)
        return self._buffer

    def _page_locked(self, shape: Sequence[int], dtype: Any) -> Any:
        """Torch keeps such memory for the next one; the first of its size pays, more than most kernels take."""
        began = time.perf_counter()
        made = self._torch.empty(shape, dtype=dtype, pin_memory=True)
        self.preparing += time.perf_counter() - began
        return made

    def _staged(self, tensor: Any, buffer: Any, place: int) -> Any:
        source = tensor.contiguous()
        there = self._torch.empty(source.shape, dtype=source.dtype, device=self.pool.where)
        flat = source.view(-1)
        between = buffer[place : place + source.nbytes].view(source.dtype)
        target = there.view(-1)
        step = max(1, _PIECE // source.element_size())
        for at in range(0, len(flat), step):
            between[at : at + step].copy_(flat[at : at + step])
            target[at : at + step].copy_(between[at : at + step], non_blocking=True)
        return there

    def _download(self, results: Tensors) -> Tensors:
        if not self._cuda:
            return tuple(result.to("cpu") for result in results)
        here = tuple(self._page_locked(result.shape, result.dtype) for result in results)
        for target, result in zip(here, results, strict=True):
            target.copy_(result, non_blocking=True)
        return here


def backend_for(pool: DevicePool) -> CpuBackend:
    return CudaBackend(pool) if pool.is_accelerator else CpuBackend(pool)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a GPU had no room. Torch says so by a type of its own, libraries below it by their message."""
    if type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and "out of memory" in text


class DeviceLostError(RuntimeError):
    """The device is gone, with its node: what it was given must be done elsewhere."""
