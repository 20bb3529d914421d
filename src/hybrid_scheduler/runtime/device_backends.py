"""Device backends: code that runs a task on a device, with its data in main memory before and after.

On a CUDA GPU data goes through page-locked buffers. It is copied in chunks, so that one chunk is transferred while
the next is being copied, and back straight into page-locked results. That is several times faster than copies from
ordinary memory, which the driver stages chunk after chunk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ..profiling.machine_info import need_torch
from .cpu_cores import set_torch_threads
from .device_pools import DevicePool
from .submission import KernelCall, Variant, Variants, run_variant

Tensors = tuple[Any, ...]
Run = Callable[[Tensors], Tensors]
Into = Callable[[Tensors, Any], object]

#: Smaller inputs are copied as they are: staging them costs a copy and gains nothing.
_STAGED = 64 * 1024
_CHUNK = 4 * 2**20
#: Most page-locked bytes for one device: other programs cannot use this memory.
_MOST_STAGING = 4 * 2**30
_ALIGNED = 512


class CpuBackend:
    """Backend of the CPU, where the data already is.

    Parameters
    ----------
    pool : DevicePool
        The device.
    """

    def __init__(self, pool: DevicePool) -> None:
        self.pool = pool
        #: Seconds of the current run that went into memory which later runs reuse.
        self.preparing = 0.0

    def enter(self) -> None:
        """Prepare the worker's thread; torch keeps the number of kernel threads per calling thread."""
        set_torch_threads(need_torch(), self.pool.threads)

    def execute(self, run: Run, inputs: Tensors) -> Tensors:
        """Run a function of tensors; inputs and results are in main memory."""
        return run(inputs)

    def execute_into(self, run: Run, into: Into | None, inputs: Tensors, target: Any) -> None:
        """Run a function of tensors and write its result into existing memory."""
        if into is not None:
            into(inputs, target)
        else:
            target.copy_(run(inputs)[0])

    def kernel(self, call: KernelCall) -> Tensors:
        """Run a kernel call that has its inputs."""
        assert call.inputs is not None
        return self.execute(call.kernel.run, call.inputs)

    def call(self, work: Variants, variant: Variant, timeout: float | None) -> Any:
        """Run a user's variant, which moves its data itself."""
        return run_variant(work, variant, timeout)

    def synchronize(self) -> None:
        """Wait until the device has finished its work."""

    def recover(self) -> None:
        """Free unused memory after a run that was out of memory."""


class CudaBackend(CpuBackend):
    """Backend of a GPU: copy in, run, copy out."""

    def __init__(self, pool: DevicePool) -> None:
        super().__init__(pool)
        self._torch = need_torch()
        self._cuda = pool.where.startswith("cuda")
        self._buffer: Any = None

    def enter(self) -> None:
        """Prepare the worker's thread and select its GPU."""
        super().enter()
        if self._cuda:
            self._torch.cuda.set_device(self.pool.where)

    def execute(self, run: Run, inputs: Tensors) -> Tensors:
        """Copy inputs to the GPU, run there, and copy results back."""
        results = run(self._upload(inputs))
        return self._download(results)

    def execute_into(self, run: Run, into: Into | None, inputs: Tensors, target: Any) -> None:
        """Copy inputs to the GPU, run there, and copy the result into existing memory."""
        target.copy_(run(self._upload(inputs))[0], non_blocking=self._cuda)

    def synchronize(self) -> None:
        """Wait until the GPU has finished its work."""
        if self._cuda:
            self._torch.cuda.current_stream().synchronize()
        elif self.pool.where == "mps":
            self._torch.mps.synchronize()

    def recover(self) -> None:
        """Free unused memory after a run that was out of memory."""
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
            self._buffer = None  # frees the old one first
            self._buffer = self._page_locked((max(need, _CHUNK),), self._torch.uint8)
        return self._buffer

    def _page_locked(self, shape: Sequence[int], dtype: Any) -> Any:
        """Allocate page-locked memory; torch reuses it, but its first allocation takes longer than most kernels."""
        began = time.perf_counter()
        made = self._torch.empty(shape, dtype=dtype, pin_memory=True)
        self.preparing += time.perf_counter() - began
        return made

    def _staged(self, tensor: Any, buffer: Any, place: int) -> Any:
        source = tensor.contiguous()
        on_device = self._torch.empty(source.shape, dtype=source.dtype, device=self.pool.where)
        flat = source.view(-1)
        staging = buffer[place : place + source.nbytes].view(source.dtype)
        target = on_device.view(-1)
        step = max(1, _CHUNK // source.element_size())
        for at in range(0, len(flat), step):
            staging[at : at + step].copy_(flat[at : at + step])
            target[at : at + step].copy_(staging[at : at + step], non_blocking=True)
        return on_device

    def _download(self, results: Tensors) -> Tensors:
        if not self._cuda:
            return tuple(result.to("cpu") for result in results)
        on_host = tuple(self._page_locked(result.shape, result.dtype) for result in results)
        for target, result in zip(on_host, results, strict=True):
            target.copy_(result, non_blocking=True)
        return on_host


def backend_for(pool: DevicePool) -> CpuBackend:
    """Return a new backend for a device."""
    return CudaBackend(pool) if pool.is_accelerator else CpuBackend(pool)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a GPU was out of memory: torch has an exception type for it, libraries below it a message."""
    if type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and "out of memory" in text


class DeviceLostError(RuntimeError):
    """Error of a device that can no longer be used: its tasks must run elsewhere."""
