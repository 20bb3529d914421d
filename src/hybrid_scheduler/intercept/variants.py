"""Registry of library functions that have a GPU variant: one file per group of functions registers them.

A variant has the parameters of the library function, and is called in the helper process with torch and the call's
arguments, arrays as tensors on the device. It raises `DeclinedError` where the library might raise, warn or choose
among equal answers: the call is then repeated by the library itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

#: Files with variants, by the library module whose import makes their functions available.
GROUPS: dict[str, tuple[str, ...]] = {
    "numpy": ("array_functions",),
    "numpy.linalg": ("linear_algebra",),
    "numpy.fft": ("fourier",),
    "scipy.linalg": ("linear_algebra",),
    "scipy.fft": ("fourier",),
    "scipy.signal": ("scipy_functions",),
    "scipy.spatial.distance": ("scipy_functions",),
}
_variants: dict[str, Variant] = {}
BOTH = slice(0, 2)


class DeclinedError(Exception):
    """Error of a variant that leaves a call to the library itself."""


class Variant(NamedTuple):
    """GPU variant of a library function.

    Attributes
    ----------
    name : str
        Full name of the function, such as ``numpy.linalg.solve``.
    run : callable
        ``run(torch, *args, **kwargs)``, called in the helper process.
    options : sequence of str
        Parameters that may differ from their defaults, apart from those without one.
    where : callable or None
        Called with the arguments as keywords; returns whether the variant covers them.
    arrays : slice
        Positions of the arguments that must be arrays.
    dtypes : str
        Type characters of the arrays, which must all have the same type.
    least : int
        Elements of the first array below which a call is left to the library without further thought.
    start : int
        Elements of all arrays from which a call of which nothing is known is first run on the GPU.
    finite : bool
        Whether a result that is not finite is left to the library, which may warn or raise.
    """

    name: str
    run: Callable[..., Any]
    options: Sequence[str] = ()
    where: Callable[..., bool] | None = None
    arrays: slice = slice(0, 1)
    dtypes: str = "fdFD"
    least: int = 64 * 64
    start: int = 1024 * 512
    finite: bool = True

    def covers(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether the variant takes these arguments; raises TypeError for unknown ones."""
        signature = inspect.signature(self.run)
        given = signature.bind(None, *args, **kwargs).arguments
        given.pop(next(iter(given)))
        for name, value in given.items():
            default = signature.parameters[name].default
            if default is not inspect.Parameter.empty and name not in self.options and value != default:
                return False
        return self.where is None or bool(self.where(**given))


def gpu_variant(*names: str, **facts: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the GPU variant of library functions; `facts` are attributes of `Variant`."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        _variants.update({name: Variant(name, run, **facts) for name in names})
        return run

    return register


def variants_of(library: str) -> list[Variant]:
    """Return the variants of the functions that importing a library module makes available."""
    for file in GROUPS[library]:
        import_module(f".{file}", __package__)
    return [variant for name, variant in _variants.items() if name.rpartition(".")[0] == library]


def variant_named(name: str) -> Variant:
    """Return a variant by its full name; raises KeyError if there is none."""
    variants_of(name.rpartition(".")[0])
    return _variants[name]


def all_names() -> list[str]:
    """Return the full names of all functions that have a variant."""
    return sorted(variant.name for library in GROUPS for variant in variants_of(library))


def chosen_names(only: Sequence[str] | None) -> frozenset[str] | None:
    """Return the functions that a user named by full name, by last name or by module; None for all.

    Raises
    ------
    UnknownNameError
        If a name stands for no function.
    """
    if only is None:
        return None
    names = all_names()
    chosen: set[str] = set()
    for word in only:
        matching = {
            name for name in names if name.startswith(f"{word}.") or word in (name, name.rpartition(".")[2])
        }
        if not matching:
            from ..core.errors import UnknownNameError

            short = {name.rpartition(".")[2] for name in names} | set(GROUPS)
            raise UnknownNameError("only", word, short if "." not in word else names)
        chosen |= matching
    return frozenset(chosen)
