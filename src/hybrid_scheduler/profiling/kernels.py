"""Eight kernels for real tasks, from bandwidth-bound to compute-bound.

All share one measure of size: a kernel of size n reads n² float32 numbers (matmul and elementwise 2n², sparse n²
non-zeros). So kernels of one size move about as many bytes and differ in what they compute. Data is made on the
host; `run` works on the device of its inputs and does not change them. Inputs are torch tensors, or NumPy arrays
where torch is not installed: those are made by a NumPy generator, and run on the CPU alone.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ..core.errors import InvalidInputError, UnknownNameError
from .machine_info import need_torch, optional_torch

#: A tensor of torch, or an array of NumPy.
Tensor = Any
Tensors = tuple[Tensor, ...]
#: A random generator of torch, or one of NumPy.
Generator = Any

_FLOAT = 4
_INDEX = 4


class Kernel(ABC):
    """A kernel: makes its data on the host, runs on any device, and states its bytes and operations."""

    name: ClassVar[str]
    summary: ClassVar[str]
    #: Sizes are multiples of it.
    step: ClassVar[int] = 1
    smallest: ClassVar[int] = 1
    #: Estimated operations: a factor and a power of the size.
    operations: ClassVar[tuple[float, int]] = (2.0, 2)

    def make(self, size: int, generator: Generator) -> Tensors:
        """Return input data in host memory; by default n × n random numbers."""
        return (_normal(size, size, generator=generator),)

    @abstractmethod
    def run(self, inputs: Tensors) -> Tensors:
        """Return the results, on the device of the inputs."""

    def bytes_in(self, size: int) -> int:
        """Return bytes of the inputs; by default those of n × n numbers."""
        return _FLOAT * size**2

    def bytes_out(self, size: int) -> int:
        """Return bytes of the results; by default those of n × n numbers."""
        return _FLOAT * size**2

    def flops(self, size: int) -> float:
        """Return an estimate of the operations; for sort these are comparisons."""
        factor, power = self.operations
        return float(factor * size**power)

    def workspace(self, size: int) -> int:
        """Return bytes needed besides inputs and results."""
        return 0

    def memory_bytes(self, size: int) -> int:
        """Return bytes that one run needs on its device."""
        return self.bytes_in(size) + self.bytes_out(size) + self.workspace(size)

    def check(self, size: int) -> None:
        """Raise InvalidInputError for a size that this kernel cannot have."""
        if size < self.smallest or size % self.step:
            multiple = f"a multiple of {self.step}, " if self.step > 1 else ""
            raise InvalidInputError(f"size of {self.name}", f"{multiple}at least {self.smallest}", size)


def data_generator(seed: int) -> Generator:
    """Return the random generator for `Kernel.make`: torch's, or NumPy's where torch is not installed."""
    torch = optional_torch()
    return np.random.default_rng(seed) if torch is None else torch.Generator().manual_seed(seed)


def _is_numpy(value: Any) -> bool:
    """Return whether a value is NumPy's: an array or a generator."""
    return isinstance(value, np.ndarray | np.random.Generator)


def _normal(*shape: int, generator: Generator) -> Tensor:
    if isinstance(generator, np.random.Generator):
        return generator.standard_normal(shape, dtype=np.float32)
    torch = need_torch()
    return torch.randn(*shape, generator=generator, dtype=torch.float32)


class _TwoMatrices(Kernel):
    """Kernel with two n × n matrices as its inputs."""

    def make(self, size: int, generator: Generator) -> Tensors:
        """Return input data in host memory."""
        return _normal(size, size, generator=generator), _normal(size, size, generator=generator)

    def bytes_in(self, size: int) -> int:
        """Return bytes of the inputs."""
        return 2 * _FLOAT * size**2


class _MatMul(_TwoMatrices):
    """Product of two matrices."""

    name = "matmul"
    summary = "product of two n × n matrices"
    operations = (2.0, 3)

    def run(self, inputs: Tensors) -> Tensors:
        """Return the result, on the device of the inputs."""
        left, right = inputs
        return (left @ right,)


class _Conv(Kernel):
    """Convolution of an image."""

    name = "conv"
    summary = "3 × 3 convolution, 16 to 16 channels, of an n/4 × n/4 image"
    step = smallest = 4
    channels: ClassVar[int] = 16
    width: ClassVar[int] = 3

    def make(self, size: int, generator: Generator) -> Tensors:
        """Return input data in host memory."""
        side = size // 4
        image = _normal(1, self.channels, side, side, generator=generator)
        return image, _normal(self.channels, self.channels, self.width, self.width, generator=generator)

    def run(self, inputs: Tensors) -> Tensors:
        """Return the result, on the device of the inputs."""
        image, weight = inputs
        if _is_numpy(image):
            return (self._numpy(image, weight),)
        torch = need_torch()
        return (torch.nn.functional.conv2d(image, weight, padding=self.width // 2),)

    def _numpy(self, image: Tensor, weight: Tensor) -> Tensor:
        margin = self.width // 2
        padded = np.pad(image[0], ((0, 0), (margin, margin), (margin, margin)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (self.width, self.width), axis=(1, 2))
        return np.tensordot(weight, windows, axes=((1, 2, 3), (0, 3, 4)))[None]

    def bytes_in(self, size: int) -> int:
        """Return bytes of the inputs."""
        return _FLOAT * (size**2 + (self.channels * self.width) ** 2)

    def flops(self, size: int) -> float:
        """Return an estimate of the operations."""
        return 2.0 * self.width**2 * self.channels * size**2

    def workspace(self, size: int) -> int:
        """Return bytes needed besides inputs and result."""
        return self.bytes_in(size) + self.bytes_out(size)  # libraries copy into their own layout


class _Sort(Kernel):
    """Sort of random numbers."""

    name = "sort"
    summary = "n² numbers in ascending order"

    def make(self, size: int, generator: Generator) -> Tensors:
        """Return input data in host memory."""
        return (_normal(size**2, generator=generator),)

    def run(self, inputs: Tensors) -> Tensors:
        """Return the result, on the device of the inputs."""
        if _is_numpy(inputs[0]):
            return (np.sort(inputs[0]),)
        return (inputs[0].sort().values,)

    def flops(self, size: int) -> float:
        """Return an estimate of the operations."""
        return size**2 * math.log2(max(2, size**2))

    def workspace(self, size: int) -> int:
        """Return bytes needed besides inputs and result."""
        return 28 * size**2  # torch also sorts 8-byte positions; a GPU's radix sort keeps both sets twice


class _Reduction(Kernel):
    """Sum of all numbers of a matrix."""

    name = "reduction"
    summary = "sum of n² numbers"
    operations = (1.0, 2)

    def run(self, inputs: Tensors) -> Tensors:
        """Return the result, on the device of the inputs."""
        return (inputs[0].sum(),)

    def bytes_out(self, size: int) -> int:
        """Return bytes of the result."""
        return _FLOAT


class _Elementwise(_TwoMatrices):
    """Weighted sum of two matrices."""

    name = "elementwise"
    summary = "a + 0.5 b of two n × n matrices"

    def run(self, inputs: Tensors) -> Tensors:
        """Return the result, on the device of the inputs."""
        left, right = inputs
        if _is_numpy(left):
            return (left + np.float32(0.5) * right,)
        return (left.add(right, alpha=0.5),)


class _Fft(Kernel):
    """Two-dimensional Fourier transform."""

    name = "fft"
    summary = "two-dimensional Fourier transform of n × n real numbers"
    smallest = 2

    def run(self, inputs: Tensors) -> Tensors:
        """Return the result, on the device of the inputs."""
        library = np if _is_numpy(inputs[0]) else need_torch()
        return (library.fft.rfft2(inputs[0]),)

    def bytes_out(self, size: int) -> int:
        """Return bytes of the result."""
        return 2 * _FLOAT * size * (size // 2 + 1)  # the other half of the spectrum is its mirror image

    def flops(self, size: int) -> float:
        """Return an estimate of the operations."""
        return 2.5 * size**2 * math.log2(size**2)

    def workspace(self, size: int) -> int:
        """Return bytes needed besides inputs and result."""
        return self.bytes_out(size)


@cache
def _trigger_beta_warning() -> None:
    """Trigger and ignore torch's warning, once per process, that this format is a beta; outside of timed code."""
    torch = need_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Checks of every matrix are off by default; newer versions warn unless this is set explicitly.
        torch.sparse.check_sparse_tensor_invariants.disable()
        torch.eye(1).to_sparse_csr()


class _Sparse(Kernel):
    """Product of a sparse matrix and a vector."""

    name = "sparse"
    summary = "sparse matrix with n² non-zeros, 16 in each row, times a vector"
    step = smallest = 16
    per_row: ClassVar[int] = 16

    def _rows(self, size: int) -> int:
        return size**2 // self.per_row

    def make(self, size: int, generator: Generator) -> Tensors:
        """Return input data in host memory."""
        rows = self._rows(size)
        each = self.per_row
        strip = rows // each
        # One non-zero in each of 16 strips: random places that are sorted and distinct, as the format demands.
        # 32-bit indices: with 64-bit ones the CPU's library is not used, and a product takes fifty times as long.
        if isinstance(generator, np.random.Generator):
            places = generator.integers(strip, size=(rows, each)) + strip * np.arange(each)
            ends = np.arange(0, rows * each + 1, each, dtype=np.int32)
            columns = places.reshape(-1).astype(np.int32)
        else:
            _trigger_beta_warning()
            torch = need_torch()
            places = torch.randint(strip, (rows, each), generator=generator) + strip * torch.arange(each)
            ends = torch.arange(0, rows * each + 1, each, dtype=torch.int32)
            columns = places.reshape(-1).to(torch.int32)
        return ends, columns, _normal(rows * each, generator=generator), _normal(rows, generator=generator)

    def run(self, inputs: Tensors) -> Tensors:
        """Return the result, on the device of the inputs."""
        ends, places, values, vector = inputs
        shape = len(ends) - 1, len(vector)  # also right for some of the rows, when the kernel is split
        if _is_numpy(values):
            from scipy.sparse import csr_array

            return (csr_array((values, places, ends), shape=shape) @ vector,)
        torch = need_torch()
        matrix = torch.sparse_csr_tensor(ends, places, values, shape, check_invariants=False)
        return (matrix @ vector,)

    def bytes_in(self, size: int) -> int:
        """Return bytes of the inputs."""
        rows = self._rows(size)
        return (_FLOAT + _INDEX) * rows * self.per_row + _INDEX * (rows + 1) + _FLOAT * rows

    def bytes_out(self, size: int) -> int:
        """Return bytes of the result."""
        return _FLOAT * self._rows(size)


class _Cholesky(Kernel):
    """Cholesky factorisation."""

    name = "cholesky"
    summary = "Cholesky factor of an n × n matrix"

    def make(self, size: int, generator: Generator) -> Tensors:
        """Return input data in host memory."""
        (square,) = super().make(size, generator)
        # Symmetric with a heavy diagonal is positive definite, and costs n² to make instead of n³.
        library = np if _is_numpy(square) else need_torch()
        return ((square + square.T) / 2 + 2 * size * library.eye(size, dtype=library.float32),)

    def run(self, inputs: Tensors) -> Tensors:
        """Return the result, on the device of the inputs."""
        if _is_numpy(inputs[0]):
            return (np.linalg.cholesky(inputs[0]),)
        torch = need_torch()
        # The variant that raises on a bad matrix waits for the GPU to find out.
        return (torch.linalg.cholesky_ex(inputs[0]).L,)

    def flops(self, size: int) -> float:
        """Return an estimate of the operations."""
        return size**3 / 3

    def workspace(self, size: int) -> int:
        """Return bytes needed besides inputs and result."""
        return _FLOAT * size**2


KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (_MatMul(), _Conv(), _Sort(), _Reduction(), _Elementwise(), _Fft(), _Sparse(), _Cholesky())
}


def kernels_named(names: Iterable[str] | None = None) -> list[Kernel]:
    """Return kernels by name, in this order and each once; all if `names` is None."""
    chosen = list(dict.fromkeys(KERNELS if names is None else names))
    if not chosen:
        raise InvalidInputError("kernels", "at least one of " + ", ".join(sorted(KERNELS)), chosen)
    for name in chosen:
        if name not in KERNELS:
            raise UnknownNameError("kernel", name, KERNELS)
    return [KERNELS[name] for name in chosen]
