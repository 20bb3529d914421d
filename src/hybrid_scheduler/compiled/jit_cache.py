"""Decorators of compiled functions, and a notice where compiling takes more than a second.

`helper` marks a function that is inlined into its callers, `inner` one that compiled code calls. `entry` marks a
function that Python calls; its machine code is kept on disk. `leaf` and `loop_entry` are an inner function and an
entry that create no arrays; an inner function that they call and that does is `allocating`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from numba import njit
from numba.core.event import Event, Listener, install_listener

from .code_cache import use_code_cache

_options = {"nogil": True, "error_model": "numpy"}
helper = njit(**_options, inline="always")
# Without wrappers for C and Python, which nothing calls.
inner = njit(**_options, no_cfunc_wrapper=True, no_cpython_wrapper=True)
# Without reference counts, which records of many arrays would pay for in each call.
leaf = njit(**_options, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True)
allocating = njit(**_options, _nrt=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
_compiling = threading.RLock()


def entry(function: Callable[..., Any]) -> Any:
    """Mark a function that Python calls."""
    return use_code_cache(njit(**_options)(function))


def loop_entry(function: Callable[..., Any]) -> Any:
    """Mark a function that Python calls and that creates no arrays.

    It has no reference counts: numba counts for every array argument of every inlined function, which costs half
    of the time of a loop over twenty arrays.
    """
    return use_code_cache(njit(**_options, _nrt=False, no_cfunc_wrapper=True)(function))


def compiled(dispatcher: Any, signature: Any) -> Any:
    """Return the entry, compiled for exactly this signature; arguments of other types raise an error."""
    if not dispatcher.overloads:  # its `signatures` would be hashed in every call
        # One thread at a time: a second one would compile after the first has disabled it.
        with _compiling:
            if not dispatcher.overloads:
                _load_array_functions()
                dispatcher.compile(signature)
                dispatcher.disable_compile()
    return dispatcher


@cache
def _load_array_functions() -> None:
    """Load numba's array functions without scipy.linalg, which takes half a second and 20 MB.

    numba imports it here only to learn whether it is installed, and a function that uses linear algebra imports it
    again when it is compiled.
    """
    from numba.np import linalg

    check = getattr(linalg, "ensure_blas", None)
    if check is None:  # another version of numba
        return
    linalg.ensure_blas = lambda: None
    try:
        import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = check


NOTICE = "compiling code, once per machine …"
#: Seconds of compiling until the notice.
NOTICE_AFTER_S = 1.0


class _Stopwatch(Listener):  # type: ignore[misc]
    """Sum of compile time; compilations nest, so only the outermost counts."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._depth = 0
        self._began = self._spent = 0.0
        self._announced = False

    def on_start(self, event: Event) -> None:
        if self._depth == 0:
            self._began = time.monotonic()
        self._depth += 1
        self._check()

    def on_end(self, event: Event) -> None:
        self._check()
        self._depth -= 1
        if self._depth == 0:
            self._spent += time.monotonic() - self._began

    def _check(self) -> None:
        if not self._announced and self._spent + time.monotonic() - self._began > NOTICE_AFTER_S:
            self._announced = True
            self._announce(NOTICE)


@contextmanager
def compile_notice(announce: Callable[[str], None]) -> Iterator[Any]:
    """Announce once if compiling takes over a second within this block; loading from the cache does not count."""
    with install_listener("numba:compile", _Stopwatch(announce)) as stopwatch:
        yield stopwatch
