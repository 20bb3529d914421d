"""Functions whose calls may run on a CPU or on a GPU: `auto`, `task`, and what their arguments say about size."""

from __future__ import annotations

import functools
import hashlib
import importlib
import math
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from ..core import InvalidInputError

#: Kinds of numbers that an accelerator can hold: booleans, signed and unsigned integers, floats, complex numbers.
_MOVABLE_KINDS = "biufc"
_PLAIN_ARRAYS = (np.ndarray, np.memmap)
#: Longest tuple of sizes by which calls of one function are told apart.
_MAX_SIZES = 12


class CallSizes(NamedTuple):
    """Sizes of one call, from its arguments.

    Attributes
    ----------
    signature : tuple
        Ranks and types of the arguments. Calls with another signature are learned apart.
    sizes : tuple of float
        Dimensions of the arrays and values of whole-number arguments, each as ``ln(1 + value)``.
    nbytes : int
        Bytes of all arrays.
    """

    signature: tuple[Any, ...]
    sizes: tuple[float, ...]
    nbytes: int


class TaskFunction:
    """A function with a CPU variant and possibly a GPU variant, made by `auto` or `task`.

    Called directly, it runs its CPU variant in the caller's thread. Submitted to a `HybridExecutor`, each call runs
    where it is expected to end first.

    Parameters
    ----------
    cpu : callable
        Called with NumPy arrays, or with torch tensors in main memory where the caller passed tensors.
    gpu : callable or None
        Called with torch tensors on the GPU. None keeps the function on the CPU.
    name : str
        Name under which measured times are kept.
    size : callable or float, optional
        Size of a call, or a function of the arguments that returns it; by default sizes come from the arguments.
    memory : callable or float, optional
        Megabytes that a call needs, or a function of the arguments that returns them.
    threads : int, optional
        CPU threads of a call; by default all cores if nothing else runs on the CPU, else one.
    repeatable : bool, optional
        Whether a call may run more than once. If not, a call is never measured on the CPU besides its run on a GPU,
        and one that fails on a GPU, even for lack of memory, ends with that error.
    """

    def __init__(
        self,
        cpu: Callable[..., Any],
        gpu: Callable[..., Any] | None,
        *,
        name: str,
        size: Callable[..., float] | float | None = None,
        memory: Callable[..., float] | float | None = None,
        threads: int | None = None,
        repeatable: bool = True,
    ) -> None:
        for field, variant in (("cpu", cpu), ("gpu", gpu)):
            if not callable(variant) and not (field == "gpu" and variant is None):
                raise InvalidInputError(f"{field} variant of {name}", "a callable", variant)
        if threads is not None and (type(threads) is not int or threads < 1):
            raise InvalidInputError(f"threads of {name}", "a whole number >= 1, or None", threads)
        self.cpu = cpu
        self.gpu = gpu
        self.name = name
        if type(repeatable) is not bool:
            raise InvalidInputError(f"repeatable of {name}", "True or False", repeatable)
        self.size = size
        self.memory = memory
        self.threads = threads
        self.repeatable = repeatable
        self.key = f"{name}:{_code_hash(cpu)}{_code_hash(gpu) if gpu is not cpu else ''}"
        functools.update_wrapper(self, cpu, updated=())
        self.__name__ = name.rpartition(".")[2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the CPU variant here and now."""
        return self.cpu(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<TaskFunction {self.name}: {'CPU and GPU' if self.gpu else 'CPU only'}>"

    def sizes_of(self, values: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallSizes:
        """Return the sizes of a call, from its flattened arguments or from the user's own measure."""
        if self.size is None:
            return sizes_of(values)
        own = self.size(*args, **kwargs) if callable(self.size) else self.size
        if not _is_number(own) or own <= 0:
            raise InvalidInputError(f"size of {self.name}", "finite and > 0", own)
        return CallSizes(("size",), (math.log1p(float(own)),), sum(getattr(value, "nbytes", 0) for value in values))

    def memory_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        """Return the megabytes that a call needs by the user's own measure; 0 where there is none."""
        if self.memory is None:
            return 0.0
        own = self.memory(*args, **kwargs) if callable(self.memory) else self.memory
        if not _is_number(own) or own < 0:
            raise InvalidInputError(f"memory of {self.name}", "finite and >= 0 MB", own)
        return float(own)


def auto(
    function: Callable[..., Any] | None = None,
    /,
    *,
    size: Callable[..., float] | float | None = None,
    memory: Callable[..., float] | float | None = None,
    threads: int | None = None,
    repeatable: bool = True,
) -> Any:
    """Let one function run on the CPU or on a GPU, whichever is expected to end first.

    The function is called with NumPy arrays on the CPU and with torch tensors on a GPU, so it takes its array
    functions from `array_namespace`. It must not change its arguments or anything else: a call may run a second
    time, after lack of memory or to be measured on the CPU. ``repeatable=False`` forbids that.

    Parameters
    ----------
    function : callable
        The function to decorate.
    size, memory, threads, repeatable
        As for `TaskFunction`.

    Returns
    -------
    TaskFunction
        The decorated function; without a function, a decorator.

    Examples
    --------
    >>> import numpy as np
    >>> import hybrid_scheduler as hs
    >>> @hs.auto
    ... def scaled(values, factor):
    ...     xp = hs.array_namespace(values)
    ...     return xp.sum(values * factor)
    >>> with hs.HybridExecutor(device_type="cpu", history=False) as executor:
    ...     print(executor.submit(scaled, np.arange(4.0), 2.0).result())
    12.0
    """

    def decorate(inner: Callable[..., Any]) -> TaskFunction:
        return TaskFunction(
            inner, inner, name=_name_of(inner), size=size, memory=memory, threads=threads, repeatable=repeatable
        )

    return decorate if function is None else decorate(function)


def task(
    *,
    cpu: Callable[..., Any] | None = None,
    gpu: Callable[..., Any] | None = None,
    size: Callable[..., float] | float | None = None,
    memory: Callable[..., float] | float | None = None,
    threads: int | None = None,
    repeatable: bool = True,
) -> Callable[[Callable[..., Any]], TaskFunction]:
    """Give a function one variant for the CPU and one for GPUs.

    As with `auto`, variants change nothing but return a result.

    Parameters
    ----------
    cpu : callable, optional
        CPU variant; the decorated function itself if left out.
    gpu : callable, optional
        GPU variant, called with torch tensors on the GPU; without one the function stays on the CPU.
    size, memory, threads, repeatable
        As for `TaskFunction`.

    Examples
    --------
    >>> import numpy as np
    >>> import hybrid_scheduler as hs
    >>> @hs.task(gpu=lambda values: values.sort().values)
    ... def ordered(values):
    ...     return np.sort(values)
    >>> ordered(np.array([3, 1, 2]))
    array([1, 2, 3])
    """

    def decorate(inner: Callable[..., Any]) -> TaskFunction:
        return TaskFunction(
            cpu or inner,
            gpu,
            name=_name_of(inner),
            size=size,
            memory=memory,
            threads=threads,
            repeatable=repeatable,
        )

    return decorate


def array_namespace(*arrays: Any) -> Any:
    """Return the array-API functions for these arrays: NumPy's on the CPU, torch's on a GPU.

    Parameters
    ----------
    *arrays : array
        Arrays of one library; other values are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> import hybrid_scheduler as hs
    >>> float(hs.array_namespace(np.ones(3)).sum(np.ones(3)))
    3.0
    """
    return _array_api().array_namespace(*(array for array in arrays if hasattr(array, "shape")))


@functools.cache
def _array_api() -> Any:
    """Return array-api-compat: the package, or the copy that scikit-learn ships."""
    try:
        return importlib.import_module("array_api_compat")
    except ImportError:
        return importlib.import_module("sklearn.externals.array_api_compat")


# ------------------------------------------------------------------------------------------ arguments


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)


def is_tensor(value: object) -> bool:
    """Return whether a value is a torch tensor, without loading torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: object) -> bool:
    """Return whether a value is a NumPy array or a torch tensor.

    A matrix or a masked array is none: it computes in another way than its elements would on an accelerator.
    """
    return type(value) in _PLAIN_ARRAYS or is_tensor(value)


def is_movable(value: Any) -> bool:
    """Return whether a value is an array that an accelerator can hold."""
    return is_array(value) and (is_tensor(value) or value.dtype.kind in _MOVABLE_KINDS)


def flattened(value: object) -> Iterator[Any]:
    """Yield the values inside lists, tuples and dictionaries."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from flattened(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flattened(item)
    else:
        yield value


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with everything inside its lists, tuples and dictionaries changed by a function."""
    if type(value) is list:
        return [replaced(item, change) for item in value]
    if isinstance(value, tuple):
        parts = [replaced(item, change) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if type(value) is dict:
        return {key: replaced(item, change) for key, item in value.items()}
    return change(value)


def sizes_of(values: list[Any]) -> CallSizes:
    """Return the sizes of a call from its flattened arguments."""
    signature: list[Any] = []
    sizes: list[float] = []
    nbytes = 0
    for value in values:
        if type(value) is int:
            signature.append("int")
            sizes.append(math.log1p(min(abs(value), 10**15)))
            continue
        own = getattr(value, "call_sizes", None)
        if own is not None:  # a handle, which keeps them
            signature.append(own[0])
            sizes.extend(own[1])
            nbytes += value.nbytes
            continue
        shape = getattr(value, "shape", None)
        if shape is not None and hasattr(value, "nbytes"):
            signature.append((len(shape), str(value.dtype)))
            sizes.extend(math.log1p(n) for n in shape)
            nbytes += int(value.nbytes)
        elif isinstance(value, str | bool):
            signature.append(value if len(str(value)) <= 32 else "str")
        else:
            signature.append(type(value).__name__)
    if len(sizes) > _MAX_SIZES:  # many arrays: their bytes say enough
        signature = [len(signature)]
        sizes = [math.log1p(nbytes)]
    return CallSizes(tuple(signature), tuple(sizes), nbytes)


def check_argument(place: Callable[[Any], str], value: object) -> None:
    """Raise InvalidInputError for an array that cannot be moved between devices.

    Parameters
    ----------
    place : callable
        Returns the name of the argument for the message.
    value : object
        An argument, or a value inside one.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _MOVABLE_KINDS:
            raise InvalidInputError(
                place(value), "an array of numbers or booleans", f"dtype {value.dtype}",
                hint="a plain function, without @auto or @task, runs on the CPU with any argument",
            )  # fmt: skip
    elif hasattr(value, "__dlpack__") and not is_tensor(value) and not isinstance(value, np.generic):
        kind = type(value)
        raise InvalidInputError(
            place(value), "a NumPy array, a torch tensor, a future or a plain value",
            f"{kind.__module__}.{kind.__qualname__}", hint="convert it with numpy.from_dlpack or torch.from_dlpack",
        )  # fmt: skip


# ------------------------------------------------------------------------------------------ identity


def display_name(function: Any) -> str:
    """Return the name of a function for messages."""
    return str(getattr(function, "name", None) or getattr(function, "__qualname__", repr(function)))


def _name_of(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", None) or "unknown"
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _code_hash(function: Callable[..., Any] | None) -> str:
    """Return a hash of a function's code, so that times of an older version are not taken for its own."""
    if function is None:
        return ""
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = getattr(inner, "__code__", None)
    text = repr(_code_parts(code)) if code is not None else _name_of(inner)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _code_parts(code: CodeType) -> tuple[Any, ...]:
    return code.co_code.hex(), code.co_names, code.co_varnames, tuple(map(_constant, code.co_consts))


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _code_parts(value)
    if isinstance(value, frozenset):  # Python writes its elements in another order at every start
        return sorted(map(repr, value))
    return repr(value)
