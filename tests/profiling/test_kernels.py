"""Results and memory of every kernel."""

from typing import Any

import numpy as np
import pytest
import torch

from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.profiling.kernels import KERNELS, Kernel, kernels_named

EVERY = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))


def inputs_of(kernel: Kernel, size: int, seed: int = 1) -> tuple[torch.Tensor, ...]:
    return kernel.make(size, torch.Generator().manual_seed(seed))


def convolution(image: np.ndarray, weight: np.ndarray) -> np.ndarray:
    padded = np.pad(image[0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("chwij,ocij->ohw", windows, weight)[None]


def sparse_product(ends: np.ndarray, places: np.ndarray, values: np.ndarray, vector: np.ndarray) -> np.ndarray:
    dense = np.zeros((len(vector), len(vector)))
    rows = np.repeat(np.arange(len(vector)), np.diff(ends))
    np.add.at(dense, (rows, places), values)
    return dense @ vector


REFERENCES = {
    "matmul": lambda a, b: a @ b,
    "conv": convolution,
    "sort": np.sort,
    "reduction": np.sum,
    "elementwise": lambda a, b: a + b / 2,
    "fft": np.fft.rfft2,
    "sparse": sparse_product,
    "cholesky": np.linalg.cholesky,
}


@EVERY
@pytest.mark.parametrize("size", [16, 48])
def test_kernel_results_equal_those_of_numpy(kernel: Kernel, size: int) -> None:
    inputs = inputs_of(kernel, size)
    untouched = [tensor.clone() for tensor in inputs]
    (result,) = kernel.run(inputs)
    arrays = [t.numpy().astype(float) if t.is_floating_point() else t.numpy() for t in inputs]
    np.testing.assert_allclose(result.numpy(), REFERENCES[kernel.name](*arrays), rtol=2e-4, atol=2e-4)
    assert all(torch.equal(before, after) for before, after in zip(untouched, inputs, strict=True))


@EVERY
@pytest.mark.parametrize("size", [16, 48])
def test_numpy_runs_the_same_kernels(kernel: Kernel, size: int) -> None:
    inputs: Any = kernel.make(size, np.random.default_rng(1))  # type: ignore[arg-type]
    untouched = [array.copy() for array in inputs]
    (result,) = kernel.run(inputs)
    assert kernel.bytes_in(size) == sum(array.nbytes for array in inputs)
    assert kernel.bytes_out(size) == np.asarray(result).nbytes
    arrays = [array.astype(float) if array.dtype.kind == "f" else array for array in inputs]
    np.testing.assert_allclose(result, REFERENCES[kernel.name](*arrays), rtol=2e-4, atol=2e-4)
    assert all(np.array_equal(before, after) for before, after in zip(untouched, inputs, strict=True))


@EVERY
def test_bytes_are_those_of_the_tensors(kernel: Kernel) -> None:
    inputs = inputs_of(kernel, 32)
    assert kernel.bytes_in(32) == sum(tensor.nbytes for tensor in inputs)
    assert kernel.bytes_out(32) == sum(tensor.nbytes for tensor in kernel.run(inputs))
    assert kernel.memory_bytes(32) >= kernel.bytes_in(32) + kernel.bytes_out(32)
    assert kernel.flops(64) > kernel.flops(32) > 0


@EVERY
def test_same_seed_same_data(kernel: Kernel) -> None:
    once, again, other = inputs_of(kernel, 16), inputs_of(kernel, 16), inputs_of(kernel, 16, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(once, other, strict=True))
    assert all(tensor.device.type == "cpu" for tensor in once)


@EVERY
def test_every_kernel_runs_at_its_smallest_size(kernel: Kernel) -> None:
    kernel.check(kernel.smallest)
    (result,) = kernel.run(inputs_of(kernel, kernel.smallest))
    assert torch.isfinite(result).all()


@EVERY
def test_smaller_sizes_are_refused(kernel: Kernel) -> None:
    with pytest.raises(InvalidInputError, match=f"size of {kernel.name}"):
        kernel.check(kernel.smallest - 1)


@pytest.mark.parametrize(("name", "size"), [("conv", 30), ("sparse", 24)])
def test_size_that_is_no_multiple_of_the_step_is_refused(name: str, size: int) -> None:
    with pytest.raises(InvalidInputError, match="a multiple of"):
        KERNELS[name].check(size)


def test_kernels_are_found_by_name() -> None:
    assert [kernel.name for kernel in kernels_named(["sort", "fft", "sort"])] == ["sort", "fft"]
    assert len(kernels_named()) == 8
    with pytest.raises(UnknownNameError) as caught:
        kernels_named(["matmull"])
    assert caught.value.hint == "did you mean 'matmul'?"
    with pytest.raises(InvalidInputError, match="at least one"):
        kernels_named([])
