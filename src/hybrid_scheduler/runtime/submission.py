"""What can be submitted, and what is written down about it."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core import InvalidInputError, UnknownNameError

Command = Sequence[str]
Variant = Callable[..., Any] | Command

#: Operations per byte at which the intensity is one half: where today's CPUs turn from memory to arithmetic.
_BALANCE = 10.0


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One of the eight kernels at a size. Data is made from the seed unless it is given."""

    kind: str
    size: int
    seed: int = 0
    inputs: tuple[Any, ...] | None = None

    @property
    def kernel(self) -> Any:
        from ..profiling.kernels import KERNELS

        if self.kind not in KERNELS:
            raise UnknownNameError("kernel", self.kind, KERNELS)
        return KERNELS[self.kind]

    @property
    def memory(self) -> float:
        """MB on the device where it runs."""
        return float(self.kernel.memory(self.size)) / 1e6

    @property
    def intensity(self) -> float:
        """Operations per byte, pressed into [0, 1]."""
        kernel = self.kernel
        per_byte = kernel.flops(self.size) / (kernel.bytes_in(self.size) + kernel.bytes_out(self.size))
        return float(per_byte / (per_byte + _BALANCE))

    def check(self) -> None:
        if type(self.size) is not int:  # whatever its annotation says, it may come from a file
            raise InvalidInputError(f"size of {self.kind}", "a whole number", self.size)
        self.kernel.check(self.size)


@dataclass(frozen=True, slots=True)
class Variants:
    """A piece of work of the user's own, with a variant for the CPU and maybe one for the GPU.

    A variant is called with `args` and `kwargs`, or is a command line: its completed process is the result, and a
    status other than 0 an error. `size` orders tasks of one `kind`: whatever the time grows with.
    """

    cpu: Variant
    gpu: Variant | None = None
    kind: str = "user"
    size: float = 1.0
    memory: float = 0.0
    intensity: float = 0.5
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def on(self, accelerator: bool) -> Variant:
        """The variant for such a device."""
        return self.gpu if accelerator and self.gpu is not None else self.cpu

    def check(self) -> None:
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
    """A task's time limit; None for no limit."""
    if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
        raise InvalidInputError("timeout", "a finite number of seconds > 0, or None for no limit", timeout)
    return timeout


def _is_command(variant: object) -> bool:
    return isinstance(variant, list | tuple) and len(variant) > 0 and all(isinstance(word, str) for word in variant)


def run_variant(work: Variants, variant: Variant, timeout: float | None) -> Any:
    """Call it, or run the command; a command is ended at its timeout."""
    if callable(variant):
        return variant(*work.args, **work.kwargs)
    try:
        return subprocess.run(list(variant), capture_output=True, text=True, check=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{variant[0]} took longer than {timeout:g} s and was ended") from None


#: What became of a task. `retried`: no room on the GPU, so the CPU did it. `moved`: it could not have gone there.
DONE, RETRIED, MOVED, FAILED, CANCELLED, TIMED_OUT = "done", "retried", "moved", "failed", "cancelled", "timed_out"
STATUSES = (DONE, RETRIED, MOVED, FAILED, CANCELLED, TIMED_OUT)


@dataclass(slots=True)
class ExecutionRecord:
    """One task, measured. Times are seconds; moments count from the executor's start."""

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
    #: When the part there began; None where there was none.
    cpu_started: float | None = None
    accelerator_started: float | None = None
    wait: float | None = None
    joules: float | None = None
    decision_seconds: float = 0.0
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
