"""Helper process: owns torch, the GPU and page-locked memory, and computes calls for the programs of one user.

It stays for some minutes after its last program, so that the next one finds it warm. Every program has a thread,
and a block of shared memory that the next program uses again.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..profiling.machine_info import available_memory
from ..runtime.duration_store import DurationStore
from .helper_protocol import PAGE, is_own, receive, send
from .variants import DeclinedError, Variant, variant_named

#: Seconds after the last program until it ends.
_IDLE_SECONDS = 300.0
#: Bytes of a program's block, and its share of the free memory at most.
_BLOCK_BYTES = 4 << 30
_MEMORY_SHARE = 0.125
#: Blocks, and so programs at the same time, at most.
_MAX_BLOCKS = 4
#: Seconds for which a program's own threads go before those that start the helper.
_POLITE_SECONDS = 3.0


class HelperBackend(Protocol):
    """Device of the helper, which computes with NumPy arrays on the block.

    Attributes
    ----------
    device : str
        Name under which run times are kept.
    """

    device: str

    def lock_pages(self, block: Any) -> None:
        """Prepare a block of memory for fast copies."""

    def run(self, variant: Variant, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the values of a result: arrays of the device, or numbers."""

    def store(self, value: Any, target: Any, axes: tuple[int, ...]) -> None:
        """Copy an array of the device into a NumPy array, whose axes are in memory order."""


class TorchBackend:
    """Computes variants with torch on the GPU or, to compare numbers, on the CPU.

    Parameters
    ----------
    where : {"cuda", "cpu"}
        Torch's name of the device.
    """

    def __init__(self, where: str) -> None:
        import torch

        self._torch = torch
        self._where = where
        self.device = "torch on the CPU"
        if where == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
            self.device = torch.cuda.get_device_name()
            small = torch.eye(16, dtype=torch.float64, device=where)  # loads the libraries
            torch.linalg.lu_factor_ex(torch.linalg.cholesky(small @ small))
            torch.fft.fft(small)
            torch.cuda.synchronize()

    def lock_pages(self, block: Any) -> None:
        """Register a block with CUDA, which makes copies several times as fast."""
        if self._where == "cuda":
            runtime: Any = self._torch.cuda.cudart()  # type: ignore[no-untyped-call]
            runtime.cudaHostRegister(block.ctypes.data, block.nbytes, 0)

    def run(self, variant: Variant, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Run a variant on tensors."""
        tensors = [self._tensor(value) if isinstance(value, np.ndarray) else value for value in args]
        with self._torch.inference_mode():
            try:
                result = variant.run(self._torch, *tensors, **kwargs)
            except self._torch.cuda.OutOfMemoryError:
                self._torch.cuda.empty_cache()
                raise
            values = list(result) if isinstance(result, tuple) else [result]
            if variant.finite:
                for value in values:
                    self._check(value)
        return values

    def _tensor(self, array: Any) -> Any:
        return self._torch.from_numpy(array).to(self._where, non_blocking=True)

    def _check(self, value: Any) -> None:
        if isinstance(value, self._torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            total = value.sum().abs()  # one pass; an overflow of the sum alone costs a second look
            if not bool(self._torch.isfinite(total)) and not bool(self._torch.isfinite(value).all()):
                raise DeclinedError("a result is not finite")

    def store(self, value: Any, target: Any, axes: tuple[int, ...]) -> None:
        """Copy a tensor; the copy is complete on return."""
        self._torch.from_numpy(target).copy_(value.permute(axes))
        if self._where == "cuda":
            self._torch.cuda.synchronize()


class _FakeBackend:
    """Computes with the library itself, in this process; for tests on machines without a GPU."""

    device = "fake accelerator"

    def __init__(self) -> None:
        self._seconds = float(os.environ.get("HYBRID_SCHEDULER_FAKE_SECONDS") or 0.0)

    def lock_pages(self, block: Any) -> None:
        """Do nothing."""

    def run(self, variant: Variant, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Call the library function, after an artificial delay."""
        time.sleep(self._seconds)
        module, _, name = variant.name.rpartition(".")
        with np.errstate(all="raise", under="ignore"):
            result = getattr(import_module(module), name)(*args, **kwargs)
        return list(result) if isinstance(result, tuple) else [result]

    def store(self, value: Any, target: Any, axes: tuple[int, ...]) -> None:
        """Copy an array."""
        target[...] = np.asarray(value).transpose(axes)


BACKENDS: dict[str, Callable[[], HelperBackend]] = {
    "cuda": lambda: TorchBackend("cuda"),
    "torch-cpu": lambda: TorchBackend("cpu"),
    "fake": _FakeBackend,
}


def compute(
    backend: HelperBackend, memory: Any, name: str, args: list[Any], kwargs: dict[str, Any], forms: Any, space: Any
) -> list[Any]:
    """Compute a call, store its arrays in the free part of the block, and return what to send.

    Parameters
    ----------
    backend : HelperBackend
        The device.
    memory : object
        The block, as a buffer.
    name : str
        Full name of the function.
    args, kwargs : list and dict
        Arguments; an array is ("array", offset, shape in memory, type, axes in memory order).
    forms : list
        Type and axes in memory order of each value of the result; None for numbers and scalars.
    space : tuple
        Offset and size of the free part.

    Raises
    ------
    DeclinedError
        If the library must compute the call.
    """
    values = backend.run(variant_named(name), [_argument(memory, value) for value in args], kwargs)
    if len(values) != len(forms):
        raise DeclinedError("a result of another form")
    offset, size = space
    sent: list[Any] = []
    for value, (dtype, axes) in zip(values, forms, strict=True):
        if isinstance(value, int):
            sent.append(value)
            continue
        shape = tuple(value.shape)
        order = axes if axes is not None else ()
        if str(value.dtype).removeprefix("torch.") != np.dtype(dtype).name or len(shape) != len(order):
            raise DeclinedError("a result of another type")
        stored = tuple(shape[axis] for axis in order)
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        pages = -(-max(nbytes, 1) // PAGE) * PAGE
        if pages > size:
            raise DeclinedError("the shared block is full")
        backend.store(value, np.ndarray(stored, dtype, memory, offset), order)
        sent.append((offset, stored, dtype, nbytes))
        offset += pages
        size -= pages
    return sent


def _argument(memory: Any, value: Any) -> Any:
    if type(value) is not tuple or not value or value[0] != "array":
        return value
    _, offset, shape, dtype, order = value
    return np.ndarray(shape, dtype, memory, offset).transpose(np.argsort(order))


class _Helper:
    """Server of one backend.

    Parameters
    ----------
    backend : HelperBackend
        The device.
    """

    def __init__(self, backend: HelperBackend) -> None:
        self._backend = backend
        self._store = DurationStore(True, [f"{backend.device} (helper process)"])
        self._lock = threading.Lock()
        self._blocks: list[tuple[int, mmap.mmap]] = []
        self._made = 0
        self._programs = 0
        self._last_used = time.monotonic()
        self._blocks.append(self._new_block())

    def serve(self, path: Path) -> None:
        """Serve programs until none has come for some minutes."""
        idle = float(os.environ.get("HYBRID_SCHEDULER_HELPER_IDLE") or _IDLE_SECONDS)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(FileNotFoundError):
            path.unlink()
        listener.bind(os.fspath(path))
        listener.listen(8)
        listener.settimeout(min(1.0, idle))
        while self._programs or time.monotonic() < self._last_used + idle:
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                self._programs += 1
                threading.Thread(target=self._attend, args=(connection,), daemon=True).start()
        path.unlink(missing_ok=True)  # from here on a program starts a new helper
        listener.close()

    def _new_block(self) -> tuple[int, mmap.mmap]:
        size = min(_BLOCK_BYTES, int((available_memory() or _BLOCK_BYTES) * _MEMORY_SHARE)) // PAGE * PAGE
        descriptor = os.memfd_create("hybrid-scheduler")
        os.ftruncate(descriptor, size)
        memory = mmap.mmap(descriptor, size)
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)  # where the system allows it for shared memory
        self._backend.lock_pages(np.frombuffer(memory, np.uint8))
        self._made += 1
        return descriptor, memory

    def _attend(self, connection: socket.socket) -> None:
        block: tuple[int, mmap.mmap] | None = None
        try:
            if not is_own(connection):
                return
            with self._lock:
                if not self._blocks and self._made < _MAX_BLOCKS:
                    self._blocks.append(self._new_block())
                block = self._blocks.pop() if self._blocks else None
            if block is not None:
                socket.send_fds(connection, [b"b"], [block[0]])
                send(connection, "ready", self._backend.device, len(block[1]), self._store.load())
                while True:
                    self._answer(connection, block[1], *receive(connection))
        except OSError:  # the program has ended
            pass
        finally:
            connection.close()
            with self._lock:
                if block is not None:
                    self._blocks.append(block)
                self._programs -= 1
                self._last_used = time.monotonic()

    def _answer(self, connection: socket.socket, memory: mmap.mmap, kind: str, *message: Any) -> None:
        if kind == "learned":
            self._store.save(message[0])
        elif kind == "stop":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            name, args, kwargs, forms, *space = message
            try:
                send(connection, "done", compute(self._backend, memory, name, args, kwargs, forms, space))
            except OSError:
                raise
            except Exception as error:
                send(connection, "declined", f"{type(error).__name__}: {error}"[:200])
                if "CUDA error" in str(error):  # nothing runs on the GPU in this process any more
                    os._exit(1)


def _become_polite() -> None:
    """Let the program's threads go first for some seconds: a script may be over before the helper is needed."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    def end() -> None:
        time.sleep(_POLITE_SECONDS)
        for thread in os.listdir("/proc/self/task"):
            with suppress(OSError):
                os.sched_setscheduler(int(thread), os.SCHED_OTHER, os.sched_param(0))

    threading.Thread(target=end, daemon=True).start()


def main() -> None:
    """Run the helper: arguments are the path of the socket and the name of the backend."""
    path = Path(sys.argv[1])
    os.setsid()
    os.chdir("/")
    with open(path.with_suffix(".lock"), "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # another one is starting
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        try:
            _become_polite()
            _Helper(BACKENDS[sys.argv[2]]()).serve(path)
        except Exception:
            path.with_suffix(".log").write_text(traceback.format_exc(), encoding="utf-8")
