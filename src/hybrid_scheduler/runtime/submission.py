"""Kernels, commands and pairs of variants that can be measured, and the records of their execution."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..core import InvalidInputError, UnknownNameError
from .kernel_split import DIVISIONS, Division, Tensors, can_split, run_kernel

if TYPE_CHECKING:
    from .accelerators import AcceleratorBackend

Command = Sequence[str]
Variant = Callable[..., Any] | Command

#: Operations per byte at which the intensity is one half: roughly where CPUs turn from memory-bound to
#: compute-bound.
_BALANCE = 10.0


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Call of one of the package's kernels.

    Attributes
    ----------
    kind : str
        Kernel name.
    size : int
        Kernel size n, see `profiling.kernels`.
    seed : int
        Seed of the input data.
    inputs : tuple of tensors, optional
        Input data; made from the seed if left out.

    Examples
    --------
    >>> import hybrid_scheduler as hs
    >>> call = hs.KernelCall("matmul", 1024)
    >>> round(call.memory, 1), round(call.intensity, 2)
    (12.6, 0.94)
    """

    kind: str
    size: int
    seed: int = 0
    inputs: tuple[Any, ...] | None = None

    @property
    def kernel(self) -> Any:
        """The kernel itself."""
        from ..profiling.kernels import KERNELS

        if self.kind not in KERNELS:
            raise UnknownNameError("kernel", self.kind, KERNELS)
        return KERNELS[self.kind]

    @property
    def memory(self) -> float:
        """Megabytes needed on the device where it runs."""
        return float(self.kernel.memory_bytes(self.size)) / 1e6

    @property
    def intensity(self) -> float:
        """Compute intensity in [0, 1], from operations per byte."""
        kernel = self.kernel
        per_byte = kernel.flops(self.size) / (kernel.bytes_in(self.size) + kernel.bytes_out(self.size))
        return float(per_byte / (per_byte + _BALANCE))

    @property
    def split(self) -> Division | None:
        """How it is split between two devices; None if it is not."""
        return DIVISIONS[self.kind] if can_split(self.kind, self.kernel.bytes_in(self.size)) else None

    def can_run(self, *, accelerator: bool) -> bool:
        """Return True: kernels run everywhere."""
        return True

    def is_watched(self, *, accelerator: bool) -> bool:
        """Return whether the executor must watch its time limit."""
        return True

    def run(self, backend: AcceleratorBackend, timeout: float | None, *, accelerator: bool) -> Tensors:
        """Run it to the end on a device; its inputs must be given."""
        assert self.inputs is not None
        return run_kernel(backend, self.kernel.run, self.inputs)

    def check(self) -> None:
        """Raise InvalidInputError if there is no such kernel or size."""
        if type(self.size) is not int:  # it may come from a file
            raise InvalidInputError(f"size of {self.kind}", "a whole number", self.size)
        self.kernel.check(self.size)


@dataclass(frozen=True, slots=True)
class Variants:
    """A user's task with a variant for the CPU and possibly one for the GPU.

    A variant is called with `args` and `kwargs`, or is a command: its completed process is the result, and a status
    other than 0 an error. Runtimes of one `kind` grow with `size`.
    """

    cpu: Variant
    gpu: Variant | None = None
    kind: str = "user"
    size: float = 1.0
    memory: float = 0.0
    intensity: float = 0.5
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    #: It runs on one device.
    split: ClassVar[Division | None] = None

    def can_run(self, *, accelerator: bool) -> bool:
        """Return whether it has a variant for the CPU, or for an accelerator."""
        return not accelerator or self.gpu is not None

    def is_watched(self, *, accelerator: bool) -> bool:
        """Return whether the executor must watch its time limit, here and when the CPU retries it.

        Commands end by themselves.
        """
        return callable(self.cpu) or callable(self._on(accelerator))

    def run(self, backend: AcceleratorBackend, timeout: float | None, *, accelerator: bool) -> Any:
        """Call the variant for a device, or run its command, which is ended at its timeout."""
        variant = self._on(accelerator)
        kwargs = self.kwargs or {}
        result = variant(*self.args, **kwargs) if callable(variant) else _run_command(variant, timeout)
        backend.finish(backend.mark())
        return result

    def _on(self, accelerator: bool) -> Variant:
        return self.gpu if accelerator and self.gpu is not None else self.cpu

    def check(self) -> None:
        """Raise InvalidInputError if a value is not allowed."""
        for name, variant in (("cpu", self.cpu), ("gpu", self.gpu)):
            if variant is None and name == "gpu":
                continue
            if not callable(variant) and not _is_command(variant):
                raise InvalidInputError(f"{name} variant", "a callable or a command as a list of words", variant)
        if not (math.isfinite(self.size) and self.size > 0):
            raise InvalidInputError("size", "finite and > 0", self.size)
        if not (math.isfinite(self.memory) and self.memory >= 0):
            raise InvalidInputError("memory", "finite and >= 0 MB", self.memory)
        if not 0.0 <= self.intensity <= 1.0:
            raise InvalidInputError("intensity", "a number in [0, 1]", self.intensity)


def checked_limit(timeout: float | None) -> float | None:
    """Return the time limit of a task, checked; None is no limit."""
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise InvalidInputError("timeout", "a finite number of seconds > 0, or None for no limit", timeout)
    return timeout


def _is_command(variant: object) -> bool:
    return isinstance(variant, list | tuple) and len(variant) > 0 and all(isinstance(word, str) for word in variant)


def _run_command(words: Command, timeout: float | None) -> Any:
    try:
        return subprocess.run(list(words), capture_output=True, text=True, check=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{words[0]} took longer than {timeout:g} s and was ended") from None


#: Final status of a task. `retried`: the GPU was out of memory, so the CPU ran it. `moved`: it could not run on the
#: chosen device, so the CPU ran it.
DONE = "done"
RETRIED = "retried"
MOVED = "moved"
FAILED = "failed"
CANCELLED = "cancelled"
TIMED_OUT = "timed_out"


@dataclass(slots=True)
class ExecutionRecord:
    """Measurements of one task, in seconds; points in time count from the executor's start.

    Attributes
    ----------
    task_id : int
        Number of the task.
    kind : str
        Kernel kind.
    size : float
        Task size.
    device : str
        Device of the scheduler's decision, after what could not be carried out was changed.
    fraction : float
        Fraction of the task on that device; the rest runs on the CPU.
    status : str
        done, retried, moved, failed, cancelled or timed_out.
    submitted, started, finished : float
        Points in time; None if it has not begun or ended.
    predicted, measured : float
        Expected and measured seconds from the first part's start to the last one's end; None if unknown.
    cpu_seconds, accelerator_seconds : float
        Seconds of the part on each side; 0 if there was none.
    cpu_started, accelerator_started : float
        Start of the part on each side; None if there was none.
    wait : float
        Seconds in the queue.
    joules : float
        Energy; None if it was not measured.
    decision_seconds : float
        Seconds that the scheduler took to decide.
    error : str
        Message of the error; None without one.
    """

    task_id: int
    kind: str
    size: float
    device: str
    fraction: float
    status: str
    submitted: float
    predicted: float | None
    started: float | None = None
    finished: float | None = None
    #: From the first part's start to the last one's end.
    measured: float | None = None
    cpu_seconds: float = 0.0
    accelerator_seconds: float = 0.0
    #: Start of the part on each side; None if there was none.
    cpu_started: float | None = None
    accelerator_started: float | None = None
    wait: float | None = None
    joules: float | None = None
    decision_seconds: float = 0.0
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a dictionary."""
        return asdict(self)
