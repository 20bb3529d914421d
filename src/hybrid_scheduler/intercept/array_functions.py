"""GPU variants of NumPy's products, sorting, and functions of single values that take longer than a copy.

Sums and roots have none, because memory bounds them and the copy alone takes as long; nor has `partition`, whose
result is any of many orders, so that the GPU would return another one than NumPy.
"""

from __future__ import annotations

from typing import Any

from .variants import BOTH, DeclinedError, gpu_variant

_SORTABLE = "fdbBhilq"
_LONG = 1 << 15
_START = 1 << 20


def _sums(subscripts: str, a: Any, b: Any, **_: Any) -> bool:
    """Return whether an Einstein sum is plain: NumPy also broadcasts, or returns a view if nothing is summed."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    first, comma, second = left.partition(",")
    plain = all(
        term.isalpha() and term.isascii() and len(set(term)) == len(term) for term in (first, second, right)
    )
    sizes = dict(zip(first, a.shape, strict=True))
    same = all(sizes.get(letter, size) == size for letter, size in zip(second, b.shape, strict=True))
    return bool(arrow and comma) and plain and same and len(set(first + second)) > len(right)


@gpu_variant("numpy.matmul", where=lambda a, b: a.ndim > 1 < b.ndim, arrays=BOTH)
def matmul(torch: Any, a: Any, b: Any) -> Any:
    """Return the product of matrices, or of stacks of matrices."""
    return torch.matmul(a, b)


@gpu_variant("numpy.dot", where=lambda a, b: a.ndim == 2 == b.ndim, arrays=BOTH)
def dot(torch: Any, a: Any, b: Any) -> Any:
    """Return the product of two matrices."""
    return torch.matmul(a, b)


@gpu_variant(
    "numpy.tensordot", options=["axes"], where=lambda axes=2, **_: type(axes) is int and axes > 0, arrays=BOTH
)
def tensordot(torch: Any, a: Any, b: Any, axes: int = 2) -> Any:
    """Return a sum of products over axes."""
    return torch.tensordot(a, b, dims=axes)


@gpu_variant("numpy.einsum", options=["optimize"], where=_sums, arrays=slice(1, 3))
def einsum(torch: Any, subscripts: str, a: Any, b: Any, *, optimize: Any = False) -> Any:
    """Return an Einstein sum of two arrays."""
    return torch.einsum(subscripts, a, b)


# ------------------------------------------------------------------------------------------ sorting


def _flat(a: Any, axis: int | None) -> tuple[Any, int]:
    return (a.reshape(-1), 0) if axis is None else (a, axis)


def _check_numbers(torch: Any, a: Any) -> None:
    if a.is_floating_point() and bool(torch.isnan(a).any()):
        raise DeclinedError("not a number")


@gpu_variant(
    "numpy.sort", options=["axis", "kind", "stable"], dtypes=_SORTABLE, least=_LONG, start=_START, finite=False
)
def sort(torch: Any, a: Any, axis: int | None = -1, kind: Any = None, *, stable: Any = None) -> Any:
    """Return sorted values; equal values cannot be told apart, so that any algorithm gives the same."""
    values, dim = _flat(a, axis)
    return torch.sort(values, dim=dim).values


@gpu_variant("numpy.argsort", options=["axis", "kind", "stable"], dtypes=_SORTABLE, least=_LONG, start=_START)
def argsort(torch: Any, a: Any, axis: int | None = -1, kind: Any = None, *, stable: Any = None) -> Any:
    """Return the order of values, if it is unique."""
    _check_numbers(torch, a)
    values, dim = _flat(a, axis)
    ordered, order = torch.sort(values, dim=dim, stable=True)
    if not (stable or kind in ("stable", "mergesort")) and not bool((torch.diff(ordered, dim=dim) != 0).all()):
        raise DeclinedError("equal values may be in any order")
    return order


@gpu_variant(
    "numpy.unique", options=["return_inverse", "return_counts"], dtypes=_SORTABLE, least=_LONG, start=_START
)
def unique(
    torch: Any, a: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """Return the sorted values without repetitions."""
    _check_numbers(torch, a)
    return torch.unique(a, return_inverse=return_inverse, return_counts=return_counts)


@gpu_variant("numpy.median", dtypes="d", least=_LONG, start=_START)
def median(torch: Any, a: Any) -> Any:
    """Return the median of all values."""
    ordered = torch.sort(a.reshape(-1)).values
    half = a.numel() // 2
    return ordered[half].clone() if a.numel() % 2 else (ordered[half - 1] + ordered[half]) / 2


@gpu_variant("numpy.quantile", dtypes="d", least=_LONG, start=_START)
def quantile(torch: Any, a: Any, q: Any) -> Any:
    """Return quantiles of all values: linear between neighbours, from the nearer one as NumPy does."""
    ordered = torch.sort(a.reshape(-1)).values
    position = torch.as_tensor(q, dtype=a.dtype, device=a.device) * (a.numel() - 1)
    below = position.floor().long()
    low = ordered[below]
    high = ordered[(below + 1).clamp(max=a.numel() - 1)]
    part = position - below
    return torch.where(part >= 0.5, high - (high - low) * (1 - part), low + (high - low) * part)


@gpu_variant("numpy.percentile", dtypes="d", least=_LONG, start=_START)
def percentile(torch: Any, a: Any, q: Any) -> Any:
    """Return percentiles of all values."""
    return quantile(torch, a, [share / 100 for share in q] if isinstance(q, list | tuple) else q / 100)


# ------------------------------------------------------------------------------------------ single values


def _elementwise(name: str) -> Any:
    return lambda torch, a: getattr(torch, name)(a)


_NAMES = (
    "exp expm1 exp2 log log1p log2 log10 sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh"
)
for _name in _NAMES.split(" "):
    gpu_variant(f"numpy.{_name}", dtypes="fd", least=1 << 17, start=1 << 22)(_elementwise(_name))


@gpu_variant(
    "numpy.power", where=lambda a, b: type(b) is float and b % 0.5 != 0, dtypes="fd", least=1 << 17, start=1 << 22
)
def power(torch: Any, a: Any, b: float) -> Any:
    """Return powers with one exponent; NumPy has shorter ways for roots and whole ones."""
    return torch.pow(a, b)
