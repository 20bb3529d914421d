"""Splitting of kernels into two parts with the same joined result.

Rows of a product, of a sum and of a sparse matrix do not depend on each other, and a sum is the sum of its parts.
Sorts, transforms, factorisations and convolutions (whose rows depend on their neighbours) are not split: their
parts would have to exchange data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Tensors = tuple[Any, ...]
#: Below this many bytes of input the second launch and the joining cost more than the division gains.
LEAST_BYTES = 4_000_000


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


def _cut(rows: int, share: float) -> int:
    """Return the row at which to cut, with at least one row on each side."""
    return min(max(round(rows * share), 1), rows - 1)


def _by_rows(shared: int) -> Callable[[Tensors, float], tuple[Tensors, Tensors]]:
    """Divide the first inputs by rows; the last `shared` ones go to both parts."""

    def parts(inputs: Tensors, share: float) -> tuple[Tensors, Tensors]:
        own, common = inputs[: len(inputs) - shared], inputs[len(inputs) - shared :]
        at = _cut(len(own[0]), share)
        return (*(x[:at] for x in own), *common), (*(x[at:] for x in own), *common)

    return parts


def _sparse_rows(inputs: Tensors, share: float) -> tuple[Tensors, Tensors]:
    ends, places, values, vector = inputs
    at = _cut(len(ends) - 1, share)
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
    return kind in DIVISIONS and bytes_in >= LEAST_BYTES
