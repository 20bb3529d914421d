"""Devices of the executor beside the CPU's cores: accelerators with a memory of their own, and pools of threads.

A CUDA GPU has a compute stream and a copy stream. Arrays go to it through a ring of page-locked buffers, so that
one chunk is transferred while the next is being copied, beside the kernels that run. That is several times faster
than a copy from ordinary memory, which the driver stages chunk after chunk. The compute stream is torch's default
one, so that tasks are in order with what the program itself does on the GPU, whichever thread starts them. A thread
that starts a task does not wait for kernels: it prepares the next task, which is how inputs are prefetched.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..profiling.machine_info import Gpu, need_torch, usable_cores
from .cpu_cores import set_torch_threads
from .device_discovery import DevicePool
from .task_function import is_tensor

#: Smaller arrays are copied to the GPU as they are: another stream and threads that fill buffers take longer.
_STAGED_FROM = 4 * 2**20
#: Arrays of fewer bytes are copied to a GPU without waiting, and results to ordinary memory.
_SMALL = 64 * 1024
STAGING_BYTES = 8 * 2**20
_CHUNKS = 4
#: Most threads that fill the buffers: a few reach the link's bandwidth, and more would take cores from the program.
_STAGING_THREADS = 8
#: Larger results go into ordinary memory: page-locked memory is taken from all programs.
_MAX_LOCKED = 4 * 2**30
_NOTHING: AbstractContextManager[Any] = nullcontext()
#: Share of a GPU's memory for arrays that are kept there; the rest is for the kernels' own use.
_SHARE = 0.8


class DeviceLostError(RuntimeError):
    """Error of a device that can no longer be used: its tasks must run elsewhere."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a GPU was out of memory: torch has an exception type for it, libraries below it a message."""
    if type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "out of memory" in str(error).lower()


class AcceleratorBackend:
    """Device with a memory of its own, as the executor uses it; what is not defined is that of main memory.

    Several threads call it: `upload`, `mark` after it, `run` and `recover` one at a time, the others at any time.

    Attributes
    ----------
    name : str
        Name of the device.
    device_class : str
        Devices of one class share what was learned about run times.
    capacity : float
        Bytes of arrays that are kept there at most.
    preparing : float
        Seconds so far that went into memory for results, which later results use again.
    """

    name: str
    device_class: str
    capacity: float
    preparing: float = 0.0

    def enter(self) -> None:
        """Prepare the worker's thread; raises an error if the device cannot be used."""

    def holds(self, array: Any) -> bool:
        """Return whether an array is in its memory."""
        return False

    def upload(self, array: Any) -> Any:
        """Return a copy of a host array in its memory, for the tasks that are started after the next `mark`."""
        return array

    def download(self, array: Any, event: Any) -> Any:
        """Return a copy of an array in main memory, after the event; any thread may call it."""
        return array

    def release(self, array: Any, event: Any) -> None:
        """Free a copy that is no longer needed, if its last reference does not do that."""

    def mark(self, *, timed: bool = True) -> Any:
        """Return an event that happens when everything started so far has ended; None if it has.

        An event that is not timed costs less, and `seconds` cannot be asked about it.
        """

    def is_complete(self, event: Any) -> bool:
        """Return whether an event has happened."""
        return True

    def finish(self, event: Any) -> None:
        """Wait for an event in the calling thread; raises the error of a kernel that failed."""

    def seconds(self, start: Any, end: Any, measured: float) -> float:
        """Return the seconds between two events; `measured` is what the host's clock says."""
        return measured

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Start a function of arrays in its memory and return its result, which may not be complete yet."""
        return function(*args, **kwargs)

    def recover(self) -> None:
        """Free unused memory after an error for lack of it."""


class TorchAccelerator(AcceleratorBackend):
    """A GPU that torch can use: CUDA, or Apple's MPS.

    Parameters
    ----------
    gpu : Gpu
        The GPU.
    number : int
        Its number among the GPUs of its kind.
    capacity : float, optional
        Bytes of arrays that are kept on it; four fifths of its memory by default.
    threads : int, optional
        Host threads that fill its buffers; up to eight by default.
    """

    def __init__(
        self, gpu: Gpu, number: int = 0, *, capacity: float | None = None, threads: int | None = None
    ) -> None:
        self._torch = need_torch()
        self._cuda = gpu.kind == "cuda"
        self.where = f"cuda:{number}" if self._cuda else gpu.kind
        self.name = f"gpu_{number}"
        self.device_class = gpu.name
        self.capacity = capacity if capacity is not None else (gpu.memory or math.inf) * _SHARE
        self._threads = threads or max(1, min(_STAGING_THREADS, usable_cores() // 2))
        #: Seconds so far that went into page-locked memory for results, which later results use again.
        self.preparing = 0.0
        self._staging: list[Any] = []
        self._staged: list[Any] = []
        self._next = 0
        self._uploading = False
        self._device = self._torch.device(self.where)
        if self._cuda:
            self._compute = self._torch.cuda.default_stream(self.where)
            self._raw = self._compute.cuda_stream
            self._event = self._torch.cuda.Event
            inner = self._torch._C  # torch's own functions check each time whether CUDA was started
            self._current: Callable[[int], int] | None = getattr(inner, "_cuda_getCurrentRawStream", None)
            self._current_device: Callable[[], int] = getattr(
                inner, "_cuda_getDevice", self._torch.cuda.current_device
            )
            self._copies = self._torch.cuda.Stream(self.where)
            self._downloads = self._torch.cuda.Stream(self.where)
        # The executor never writes to arrays that it reads through a tensor.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")

    def enter(self) -> None:
        """Allocate buffers for copies, and load the libraries of common kernels."""
        torch = self._torch
        set_torch_threads(torch, self._threads)
        if not self._cuda:
            return
        torch.cuda.set_device(self.where)
        self._staging = [torch.empty(STAGING_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(_CHUNKS)]
        self._staged = [None] * _CHUNKS
        small = torch.eye(8, device=self.where)
        torch.linalg.cholesky(small @ small)
        self._compute.synchronize()

    def holds(self, array: Any) -> bool:
        """Return whether a tensor is in this GPU's memory."""
        if not isinstance(array, self._torch.Tensor):
            return False
        if self._cuda:
            return bool(array.is_cuda) and array.get_device() == self._device.index
        return array.device.type == self._device.type and array.device.index in (None, 0)

    # ---------------------------------------------------------------- copies

    def upload(self, array: Any) -> Any:
        """Copy to the GPU; kernels that are started after the next `mark` wait for the copy."""
        torch = self._torch
        source = array if is_tensor(array) else torch.from_numpy(_with_positive_strides(array))
        if not self._cuda:
            return source.to(self.where)
        small = source.nbytes < _STAGED_FROM
        if small and (source.nbytes <= _SMALL or self._compute.query()):
            with self._in_stream():
                return source.to(self.where, non_blocking=True)
        # A copy from ordinary memory waits for what runs in its stream, so that kernels need another one.
        with torch.cuda.stream(self._copies):
            if small or source.is_pinned():
                target = source.to(self.where, non_blocking=True)
            else:
                target = torch.empty(source.shape, dtype=source.dtype, device=self.where)
                self._stage(source, target)
        target.record_stream(self._compute)
        self._uploading = True
        return target

    def _stage(self, source: Any, target: Any) -> None:
        """Copy chunk by chunk: rows of a matrix that is a part of a larger one need not lie side by side."""
        if source.is_contiguous() or source[0].nbytes > STAGING_BYTES:
            source = source.contiguous().view(-1)
            target = target.view(-1)
        step = max(1, STAGING_BYTES // max(1, source[0].nbytes))
        for at in range(0, len(source), step):
            slot = self._next
            self._next = (self._next + 1) % _CHUNKS
            if self._staged[slot] is not None:
                self._staged[slot].synchronize()
            part = source[at : at + step]
            chunk = self._staging[slot][: part.nbytes].view(part.dtype).view(part.shape)
            chunk.copy_(part)
            target[at : at + step].copy_(chunk, non_blocking=True)
            self._staged[slot] = self._copies.record_event()

    def download(self, array: Any, event: Any) -> Any:
        """Copy to main memory and wait for the copy."""
        torch = self._torch
        if not self._cuda:
            return array.to("cpu")
        if event is not None and array.nbytes < _SMALL:
            if not self._is_current():  # else the copy comes after the task in the same stream
                event.synchronize()
            return array.to("cpu")
        with torch.cuda.stream(self._downloads):
            if event is not None:
                self._downloads.wait_event(event)
            else:  # an array of the program itself
                self._downloads.wait_stream(self._compute)
            locked = array.nbytes <= _MAX_LOCKED
            began = time.perf_counter()
            target = torch.empty(array.shape, dtype=array.dtype, pin_memory=locked)
            self.preparing += time.perf_counter() - began
            target.copy_(array, non_blocking=True)
            array.record_stream(self._downloads)
            self._downloads.synchronize()
        return target

    # ---------------------------------------------------------------- running

    def mark(self, *, timed: bool = True) -> Any:
        """Return an event on the compute stream."""
        if not self._cuda:
            return None
        if self._uploading:  # what is started from now on waits for the copies
            self._compute.wait_stream(self._copies)
            self._uploading = False
        event = self._event(timed)
        event.record(self._compute)
        return event

    def is_complete(self, event: Any) -> bool:
        """Return whether an event has happened."""
        return event is None or bool(event.query())

    def finish(self, event: Any) -> None:
        """Wait for an event."""
        if event is not None:
            event.synchronize()
        elif not self._cuda:
            self._torch.mps.synchronize()

    def seconds(self, start: Any, end: Any, measured: float) -> float:
        """Return the seconds between two events as the GPU measured them."""
        return measured if start is None or end is None else float(start.elapsed_time(end)) / 1e3

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Start a function on the compute stream."""
        with self._in_stream():
            return function(*args, **kwargs)

    def _in_stream(self) -> AbstractContextManager[Any]:
        """Return a context in which the compute stream is current; it does nothing where that is so already."""
        if not self._cuda or self._is_current():
            return _NOTHING
        context: AbstractContextManager[Any] = self._torch.cuda.stream(self._compute)
        return context

    def _is_current(self) -> bool:
        """Return whether the calling thread uses the compute stream of this GPU."""
        current = self._current
        index = self._device.index
        return current is not None and current(index) == self._raw and self._current_device() == index

    def recover(self) -> None:
        """Free what torch's allocator keeps for later."""
        if self._cuda:
            self._compute.synchronize()
            self._torch.cuda.empty_cache()


class CpuBackend(AcceleratorBackend):
    """A pool of CPU threads as a device.

    Parameters
    ----------
    pool : DevicePool
        The pool.
    """

    def __init__(self, pool: DevicePool) -> None:
        self.pool = pool
        self.name = pool.name
        self.device_class = pool.kind
        self.capacity = pool.memory * 1e6

    def enter(self) -> None:
        """Prepare the worker's thread; torch keeps the number of kernel threads per calling thread."""
        set_torch_threads(need_torch(), self.pool.threads)


def backend_for(pool: DevicePool) -> AcceleratorBackend:
    """Return a new backend for a device."""
    if not pool.is_accelerator:
        return CpuBackend(pool)
    kind, _, number = pool.where.partition(":")
    memory = int(pool.memory * 1e6) if math.isfinite(pool.memory) else None
    return TorchAccelerator(Gpu(kind, pool.name, memory), int(number or 0), threads=pool.threads)


def find_accelerators(gpu: Gpu | None) -> list[TorchAccelerator]:
    """Return the GPUs of this machine that are of the given kind."""
    if gpu is None:
        return []
    count = need_torch().cuda.device_count() if gpu.kind == "cuda" else 1
    return [TorchAccelerator(gpu, number) for number in range(count)]


def measured_bandwidth(accelerator: AcceleratorBackend, nbytes: int = 2**24) -> float:
    """Return bytes per second of a copy to an accelerator; called by its worker."""
    block = np.zeros(nbytes, np.uint8)
    accelerator.upload(block)
    accelerator.finish(accelerator.mark())
    began = time.perf_counter()
    copy = accelerator.upload(block)
    accelerator.finish(accelerator.mark())
    seconds = max(time.perf_counter() - began, 1e-9)
    accelerator.release(copy, None)
    return nbytes / seconds


def _with_positive_strides(array: Any) -> Any:
    """Return an array that torch can view; it does not know negative strides."""
    return array if all(stride >= 0 for stride in array.strides) else np.ascontiguousarray(array)
