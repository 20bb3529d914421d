"""Splitting of kernels between two devices, and how a kernel runs on one.

Rows of a product, of a sum and of a sparse matrix do not depend on each other, and a sum is the sum of its parts.
Sorts, transforms, factorisations and convolutions (whose rows depend on their neighbours) are not split: their
parts would have to exchange data.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..profiling.machine_info import need_torch
from .accelerators import AcceleratorBackend
from .device_discovery import DevicePool

Tensors = tuple[Any, ...]
#: Runs a task, or a part of one, on the backend of a device.
RunPart = Callable[[Any, DevicePool], Any]
#: Below this many bytes of input the second launch and the joining cost more than the division gains.
MIN_BYTES = 4_000_000


class Division(NamedTuple):
    """How a kernel is split.

    Attributes
    ----------
    parts : callable
        Returns the inputs of the first part and of the rest.
    join : callable
        Makes one result of two.
    result_shape : callable or None
        Shape of the result, if both parts write their rows into one memory: joining afterwards would copy
        everything once more.
    into : callable or None
        Runs a part with its result written into given memory.
    """

    parts: Callable[[Tensors, float], tuple[Tensors, Tensors]]
    join: Callable[[Tensors, Tensors], Tensors]
    result_shape: Callable[[Tensors], tuple[int, ...]] | None = None
    into: Callable[[Tensors, Any], object] | None = None

    def runs(
        self, kernel: Callable[[Tensors], Tensors], inputs: Tensors, fraction: float, *, pinned: bool
    ) -> list[RunPart]:
        """Return what runs a fraction of a kernel on one device, and what runs the rest on another.

        Parameters
        ----------
        kernel : callable
            The kernel.
        inputs : tuple of tensors
            Its inputs, in main memory.
        fraction : float
            Share of the first device.
        pinned : bool
            Whether memory that both parts write to is page-locked.
        """
        shares = self.parts(inputs, fraction)
        if self.result_shape is None:
            return [_alone(kernel, share) for share in shares]
        memory = _ResultMemory(self.result_shape(inputs), pinned=pinned)
        rows = self.result_shape(shares[0])[0]
        return [
            _into_rows(kernel, share, memory, place, self.into)
            for share, place in zip(shares, (slice(None, rows), slice(rows, None)), strict=True)
        ]


def run_kernel(backend: AcceleratorBackend, kernel: Callable[[Tensors], Tensors], inputs: Tensors) -> Tensors:
    """Run a kernel from beginning to end on a device; inputs and results are in main memory."""
    results = _started(backend, kernel, inputs)
    event = backend.mark()
    return tuple(backend.download(value, event) if backend.holds(value) else value for value in results)


def _started(backend: AcceleratorBackend, kernel: Callable[[Tensors], Tensors], inputs: Tensors) -> Tensors:
    """Copy inputs to a device and run there; the results are on the device and may not be complete."""
    copies = tuple(map(backend.upload, inputs))
    backend.mark()  # what is started from now on waits for the copies
    results: Tensors = backend.run(kernel, (copies,), {})
    return results


def _alone(kernel: Callable[[Tensors], Tensors], inputs: Tensors) -> RunPart:
    """Return what runs a part with a result of its own."""
    return lambda backend, _: run_kernel(backend, kernel, inputs)


def _into_rows(
    kernel: Callable[[Tensors], Tensors],
    inputs: Tensors,
    memory: _ResultMemory,
    rows: slice,
    into: Callable[[Tensors, Any], object] | None,
) -> RunPart:
    """Return what runs a part that writes its rows into the memory of the whole result."""

    def run(backend: AcceleratorBackend, pool: DevicePool) -> Tensors:
        whole = memory.get(backend)
        if into is not None and not pool.is_accelerator:
            into(inputs, whole[rows])
        else:
            whole[rows].copy_(_started(backend, kernel, inputs)[0])
        return (whole,)

    return run


class _ResultMemory:
    """Memory of a result, allocated by the first part that runs: tasks in a queue hold none."""

    def __init__(self, shape: Sequence[int], *, pinned: bool) -> None:
        self._shape = shape
        self._pinned = pinned
        self._lock = threading.Lock()
        self._made = None

    def get(self, backend: Any) -> Any:
        began = time.perf_counter()
        with self._lock:
            if self._made is None:
                self._made = need_torch().empty(self._shape, pin_memory=self._pinned)
        backend.preparing += time.perf_counter() - began
        return self._made


# ------------------------------------------------------------------------------------------ divisible kernels


def _cut(rows: int, fraction: float) -> int:
    """Return the row at which to cut, with at least one row on each side."""
    return min(max(round(rows * fraction), 1), rows - 1)


def _by_rows(shared: int) -> Callable[[Tensors, float], tuple[Tensors, Tensors]]:
    """Divide the first inputs by rows; the last `shared` ones go to both parts."""

    def parts(inputs: Tensors, fraction: float) -> tuple[Tensors, Tensors]:
        own = inputs[: len(inputs) - shared]
        common = inputs[len(inputs) - shared :]
        at = _cut(len(own[0]), fraction)
        return (*(x[:at] for x in own), *common), (*(x[at:] for x in own), *common)

    return parts


def _sparse_rows(inputs: Tensors, fraction: float) -> tuple[Tensors, Tensors]:
    ends, places, values, vector = inputs
    at = _cut(len(ends) - 1, fraction)
    middle = int(ends[at])
    first = ends[: at + 1], places[:middle], values[:middle], vector
    return first, (ends[at:] - ends[at], places[middle:], values[middle:], vector)


def _first(first: Tensors, rest: Tensors) -> Tensors:
    """Return the first result: both parts wrote into the same memory."""
    return first


def _add(first: Tensors, rest: Tensors) -> Tensors:
    return tuple(a + b for a, b in zip(first, rest, strict=True))


def _product_into(inputs: Tensors, target: Any) -> object:
    import torch

    return torch.mm(inputs[0], inputs[1], out=target)


def _sum_into(inputs: Tensors, target: Any) -> object:
    import torch

    return torch.add(inputs[0], inputs[1], alpha=0.5, out=target)


DIVISIONS: dict[str, Division] = {
    "matmul": Division(_by_rows(1), _first, lambda x: (len(x[0]), x[1].shape[1]), _product_into),
    "elementwise": Division(_by_rows(0), _first, lambda x: tuple(x[0].shape), _sum_into),
    "reduction": Division(_by_rows(0), _add),
    "sparse": Division(_sparse_rows, _first, lambda x: (len(x[0]) - 1,)),
}


def can_split(kind: str, bytes_in: float) -> bool:
    """Return whether a kernel can be split, and its inputs are large enough for that to gain time."""
    return kind in DIVISIONS and bytes_in >= MIN_BYTES
