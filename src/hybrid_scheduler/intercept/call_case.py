"""Calls of one function that are alike: same types, shapes, memory layouts and options.

What a variant covers is decided once for each case. So is the form of the result: the library itself is called with
tiny arrays of the same layout, and its answer says which types, memory orders and tuples the real result must have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime.task_function import CallSizes, sizes_of
from .variants import Variant

#: Types of options that may be sent to the helper process.
_PLAIN = (int, float, str, bool, type(None))
#: Sizes up to this one stay as they are in tiny arrays.
_TINY = 3


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return what makes calls alike; raises TypeError for arguments that cannot be compared."""
    key: list[Any] = []
    for value in args:
        kind = type(value)
        if kind is np.ndarray:
            key.append((value.shape, value.dtype, value.strides))
        else:
            key.append((kind, tuple(value) if kind is list else value))
    for name, value in kwargs.items():
        key.append((name, type(value), value))
    return tuple(key)


class _OutputForm:
    """Form of one value of a result: an array in a memory order, a scalar of NumPy, or a number of Python.

    Attributes
    ----------
    dtype : str or None
        Type as NumPy writes it; None for a number of Python.
    axes : tuple of int or None
        Axes from the outermost in memory to the innermost; None for a scalar.
    writeable : bool
        Whether the array may be written to.
    """

    __slots__ = ("axes", "dtype", "kind", "writeable")

    def __init__(self, value: Any) -> None:
        self.kind = type(value)
        self.dtype: str | None = None
        self.axes: tuple[int, ...] | None = None
        self.writeable = True
        if self.kind is np.ndarray:
            self.dtype = value.dtype.str
            self.axes = memory_order(value)
            self.writeable = value.flags.writeable
        elif isinstance(value, np.generic):
            self.dtype = value.dtype.str
        elif self.kind is not int:
            raise TypeError(f"a result of type {self.kind}")


class CallCase:
    """Calls of one function that are alike; without arguments, calls that no variant covers.

    Attributes
    ----------
    sizes : CallSizes
        Sizes for the model of run times.
    elements : int
        Elements of all arrays.
    outputs : list of _OutputForm
        Forms of the values of a result; empty if the calls belong to the library alone.
    pack : callable
        Makes the result of its values.
    uses : int
        Further calls that go to the library without another thought.
    on_cpu, on_gpu, declined : int
        Calls so far, and those that the helper left to the library; about, where threads call at once.
    saved : float
        Seconds that calls in the helper saved, as expected.
    """

    def __init__(
        self, variant: Variant | None = None, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> None:
        arrays = args[variant.arrays] if variant is not None else ()
        self.sizes: CallSizes = sizes_of([*args, *(kwargs or {}).values()])
        self.elements = sum(array.size for array in arrays)
        self.outputs: list[_OutputForm] = []
        self.pack: Callable[[list[Any]], Any] = _only
        self.uses = 0
        self.on_cpu = 0
        self.on_gpu = 0
        self.declined = 0
        self.saved = 0.0

    def read_form(self, variant: Variant, library: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
        """Take the form of results, if the variant covers the calls.

        Raises
        ------
        Exception
            Whatever the variant or the library raises for such arguments.
        """
        if _is_plain(variant, args, kwargs) and variant.covers(args, kwargs):
            with np.errstate(all="ignore"):
                result = library(*_tiny_arguments(variant, args), **kwargs)
            values = result if isinstance(result, tuple) else [result]
            self.outputs = [_OutputForm(value) for value in values]
            if isinstance(result, tuple):
                self.pack = tuple if type(result) is tuple else type(result)._make  # type: ignore[attr-defined]


def _only(values: list[Any]) -> Any:
    return values[0]


def memory_order(array: Any) -> tuple[int, ...]:
    """Return the axes of an array from the outermost in memory to the innermost."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


def _is_plain(variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether arrays are where the variant has them, of one type that it covers, and options are plain."""
    arrays = args[variant.arrays]
    places = range(*variant.arrays.indices(len(args)))
    wanted = variant.arrays.stop - variant.arrays.start
    rest = [value for place, value in enumerate(args) if place not in places] + list(kwargs.values())
    return (
        len(arrays) == wanted
        and all(type(array) is np.ndarray and array.ndim and array.size for array in arrays)
        and all(stride > 0 for array in arrays for stride in array.strides)
        and len({array.dtype for array in arrays}) == 1
        and arrays[0].dtype.isnative
        and arrays[0].dtype.char in variant.dtypes
        and all(_is_option(value) for value in rest)
    )


def _is_option(value: Any) -> bool:
    return type(value) in _PLAIN or (type(value) in (tuple, list) and all(type(part) in _PLAIN for part in value))


def _tiny_arguments(variant: Variant, args: tuple[Any, ...]) -> list[Any]:
    """Return the arguments with tiny arrays, whose sizes are equal, and larger or smaller, where theirs are."""
    places = range(*variant.arrays.indices(len(args)))
    large = sorted({n for place in places for n in args[place].shape if n > _TINY})
    tiny = {n: _TINY + 1 + rank for rank, n in enumerate(large)}
    return [
        _tiny_array(value, tuple(tiny.get(n, n) for n in value.shape)) if place in places else value
        for place, value in enumerate(args)
    ]


def _tiny_array(like: Any, shape: tuple[int, ...]) -> Any:
    """Return a well-conditioned array in the memory layout of another one."""
    values = np.cos(np.arange(1.0, np.prod(shape) + 1)).reshape(shape)
    if len(shape) >= 2 and shape[-1] == shape[-2]:
        values = values + values.swapaxes(-1, -2) + 10 * np.eye(shape[-1])
    order = memory_order(like)
    dense = like.flags.c_contiguous or like.flags.f_contiguous or like.transpose(order).flags.c_contiguous
    target = np.empty([shape[axis] for axis in order] + ([] if dense else [2]), like.dtype)
    layout = (target if dense else target[..., 0]).transpose(np.argsort(order))
    layout[...] = np.abs(values) if like.dtype.kind in "biu" else values
    return layout
