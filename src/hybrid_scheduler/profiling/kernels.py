"""Eight kernels that real tasks are made of, from bandwidth-bound to compute-bound.

One measure of size for all: a kernel of size n reads n² float32 numbers (matmul and elementwise 2n², sparse n²
non-zeros), so that kernels of one size move about as many bytes and differ in what they compute. Data is made on
the host; `run` works on whatever device its tensors are on and leaves its inputs as they are.

This is the one file of the room that needs torch to be imported.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cache
from typing import ClassVar

import torch
from torch import Generator, Tensor

from ..core.errors import InvalidInputError, UnknownNameError

Tensors = tuple[Tensor, ...]

_FLOAT = 4
_INDEX = 4


class Kernel(ABC):
    """`make` data on the host, `run` it on any device; the rest says how much of everything that takes."""

    name: ClassVar[str]
    summary: ClassVar[str]
    #: Sizes are multiples of it.
    step: ClassVar[int] = 1
    smallest: ClassVar[int] = 1

    @abstractmethod
    def make(self, size: int, generator: Generator) -> Tensors:
        """The inputs, in host memory."""

    @abstractmethod
    def run(self, inputs: Tensors) -> Tensors:
        """The results, on the device of the inputs."""

    @abstractmethod
    def bytes_in(self, size: int) -> int: ...

    @abstractmethod
    def bytes_out(self, size: int) -> int: ...

    @abstractmethod
    def flops(self, size: int) -> float:
        """An estimate of the operations, of any library: for sort these are comparisons."""

    def workspace(self, size: int) -> int:
        """Bytes needed besides inputs and results."""
        return 0

    def memory(self, size: int) -> int:
        """Bytes that one run needs on the device where it runs."""
        return self.bytes_in(size) + self.bytes_out(size) + self.workspace(size)

    def check(self, size: int) -> None:
        """Refuse a size that this kernel cannot have."""
        if size < self.smallest or size % self.step:
            multiple = f"a multiple of {self.step}, " if self.step > 1 else ""
            raise InvalidInputError(f"size of {self.name}", f"{multiple}at least {self.smallest}", size)


def _normal(*shape: int, generator: Generator) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float32)


class MatMul(Kernel):
    name = "matmul"
    summary = "product of two n × n matrices"

    def make(self, size: int, generator: Generator) -> Tensors:
        return _normal(size, size, generator=generator), _normal(size, size, generator=generator)

    def run(self, inputs: Tensors) -> Tensors:
        left, right = inputs
        return (left @ right,)

    def bytes_in(self, size: int) -> int:
        return 2 * _FLOAT * size**2

    def bytes_out(self, size: int) -> int:
        return _FLOAT * size**2

    def flops(self, size: int) -> float:
        return 2.0 * size**3


class Conv(Kernel):
    name = "conv"
    summary = "3 × 3 convolution, 16 to 16 channels, of an n/4 × n/4 image"
    step = smallest = 4
    channels: ClassVar[int] = 16
    width: ClassVar[int] = 3

    def make(self, size: int, generator: Generator) -> Tensors:
        side = size // 4
        image = _normal(1, self.channels, side, side, generator=generator)
        return image, _normal(self.channels, self.channels, self.width, self.width, generator=generator)

    def run(self, inputs: Tensors) -> Tensors:
        image, weight = inputs
        return (torch.nn.functional.conv2d(image, weight, padding=self.width // 2),)

    def bytes_in(self, size: int) -> int:
        return _FLOAT * (size**2 + (self.channels * self.width) ** 2)

    def bytes_out(self, size: int) -> int:
        return _FLOAT * size**2

    def flops(self, size: int) -> float:
        return 2.0 * self.width**2 * self.channels * size**2

    def workspace(self, size: int) -> int:
        return self.bytes_in(size) + self.bytes_out(size)  # libraries copy into a layout of their own


class Sort(Kernel):
    name = "sort"
    summary = "n² numbers in ascending order"

    def make(self, size: int, generator: Generator) -> Tensors:
        return (_normal(size**2, generator=generator),)

    def run(self, inputs: Tensors) -> Tensors:
        return (inputs[0].sort().values,)

    def bytes_in(self, size: int) -> int:
        return _FLOAT * size**2

    def bytes_out(self, size: int) -> int:
        return _FLOAT * size**2

    def flops(self, size: int) -> float:
        return size**2 * math.log2(max(2, size**2))

    def workspace(self, size: int) -> int:
        return 28 * size**2  # torch also sorts 8-byte positions; a GPU's radix sort keeps both sets twice


class Reduction(Kernel):
    name = "reduction"
    summary = "sum of n² numbers"

    def make(self, size: int, generator: Generator) -> Tensors:
        return (_normal(size, size, generator=generator),)

    def run(self, inputs: Tensors) -> Tensors:
        return (inputs[0].sum(),)

    def bytes_in(self, size: int) -> int:
        return _FLOAT * size**2

    def bytes_out(self, size: int) -> int:
        return _FLOAT

    def flops(self, size: int) -> float:
        return float(size**2)


class Elementwise(Kernel):
    name = "elementwise"
    summary = "a + 0.5 b of two n × n matrices"

    def make(self, size: int, generator: Generator) -> Tensors:
        return _normal(size, size, generator=generator), _normal(size, size, generator=generator)

    def run(self, inputs: Tensors) -> Tensors:
        left, right = inputs
        return (left.add(right, alpha=0.5),)

    def bytes_in(self, size: int) -> int:
        return 2 * _FLOAT * size**2

    def bytes_out(self, size: int) -> int:
        return _FLOAT * size**2

    def flops(self, size: int) -> float:
        return 2.0 * size**2


class Fft(Kernel):
    name = "fft"
    summary = "two-dimensional Fourier transform of n × n real numbers"
    smallest = 2

    def make(self, size: int, generator: Generator) -> Tensors:
        return (_normal(size, size, generator=generator),)

    def run(self, inputs: Tensors) -> Tensors:
        return (torch.fft.rfft2(inputs[0]),)

    def bytes_in(self, size: int) -> int:
        return _FLOAT * size**2

    def bytes_out(self, size: int) -> int:
        return 2 * _FLOAT * size * (size // 2 + 1)  # the other half of the spectrum is its mirror image

    def flops(self, size: int) -> float:
        return 2.5 * size**2 * math.log2(size**2)

    def workspace(self, size: int) -> int:
        return self.bytes_out(size)


@cache
def _hear_beta_warning() -> None:
    """Torch warns once per process that this format is a beta: here, where nobody listens and nothing is timed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Checking every matrix is off by default; saying so keeps newer versions from warning about that, too.
        torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
        torch.eye(1).to_sparse_csr()


class Sparse(Kernel):
    name = "sparse"
    summary = "sparse matrix with n² non-zeros, 16 in each row, times a vector"
    step = smallest = 16
    per_row: ClassVar[int] = 16

    def _rows(self, size: int) -> int:
        return size**2 // self.per_row

    def make(self, size: int, generator: Generator) -> Tensors:
        _hear_beta_warning()
        rows, each = self._rows(size), self.per_row
        # One non-zero in each of 16 strips: random places that are sorted and distinct, as the format demands.
        strip = rows // each
        places = torch.randint(strip, (rows, each), generator=generator) + strip * torch.arange(each)
        # 32-bit indices: with 64-bit ones the CPU's library is not used, and a product takes fifty times as long.
        ends = torch.arange(0, rows * each + 1, each, dtype=torch.int32)
        return (
            ends,
            places.reshape(-1).to(torch.int32),
            _normal(rows * each, generator=generator),
            _normal(rows, generator=generator),
        )

    def run(self, inputs: Tensors) -> Tensors:
        ends, places, values, vector = inputs
        shape = len(ends) - 1, len(vector)  # some of the rows are a product, too
        matrix = torch.sparse_csr_tensor(ends, places, values, shape, check_invariants=False)
        return (matrix @ vector,)

    def bytes_in(self, size: int) -> int:
        rows = self._rows(size)
        return (_FLOAT + _INDEX) * rows * self.per_row + _INDEX * (rows + 1) + _FLOAT * rows

    def bytes_out(self, size: int) -> int:
        return _FLOAT * self._rows(size)

    def flops(self, size: int) -> float:
        return 2.0 * size**2


class Cholesky(Kernel):
    name = "cholesky"
    summary = "Cholesky factor of an n × n matrix"

    def make(self, size: int, generator: Generator) -> Tensors:
        square = _normal(size, size, generator=generator)
        # Symmetric with a heavy diagonal is positive definite, and costs n² to make instead of n³.
        return ((square + square.T) / 2 + 2 * size * torch.eye(size),)

    def run(self, inputs: Tensors) -> Tensors:
        # The variant that raises on a bad matrix waits for the GPU to find out.
        return (torch.linalg.cholesky_ex(inputs[0]).L,)

    def bytes_in(self, size: int) -> int:
        return _FLOAT * size**2

    def bytes_out(self, size: int) -> int:
        return _FLOAT * size**2

    def flops(self, size: int) -> float:
        return size**3 / 3

    def workspace(self, size: int) -> int:
        return _FLOAT * size**2


KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (MatMul(), Conv(), Sort(), Reduction(), Elementwise(), Fft(), Sparse(), Cholesky())
}


def kernels_named(names: Iterable[str] | None = None) -> list[Kernel]:
    """These kernels in this order, each once; all of them if none are named."""
    chosen = list(dict.fromkeys(KERNELS if names is None else names))
    if not chosen:
        raise InvalidInputError("kernels", "at least one of " + ", ".join(sorted(KERNELS)), chosen)
    for name in chosen:
        if name not in KERNELS:
            raise UnknownNameError("kernel", name, KERNELS)
    return [KERNELS[name] for name in chosen]
