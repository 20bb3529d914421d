"""Compilation of numba functions: their cache on disk, and a notice where compiling takes more than a second.

`helper` marks a function that is inlined into its callers, `inner` one that compiled code calls. `entry` marks a
function that Python calls; its machine code is kept on disk. `loop_entry` is an entry that creates no arrays.
Numba's cache notices a change in the file of an entry, but not in other functions that it uses. `compiled`
therefore compares a digest of all sources and drops stale machine code.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.event import Event, Listener, install_listener

_options = {"nogil": True, "error_model": "numpy"}
helper = njit(**_options, inline="always")
# Without wrappers for C and Python, which nothing calls.
inner = njit(**_options, no_cfunc_wrapper=True, no_cpython_wrapper=True)
entry = njit(**_options, cache=True)
# Without reference counts of arrays: numba counts them for every array argument of every inlined function, which
# costs half of the time of a loop over twenty arrays.
loop_entry = njit(**_options, cache=True, _nrt=False, no_cfunc_wrapper=True)
_compiling = threading.RLock()


def compiled(dispatcher: Any, signature: Any) -> Any:
    """Return the entry, compiled for exactly this signature; arguments of other types raise an error."""
    if not dispatcher.overloads:  # its `signatures` would be hashed in every call
        # One thread at a time: a second one would compile after the first has disabled it.
        with _compiling:
            if not dispatcher.overloads:
                _load_array_functions()
                _drop_if_stale(dispatcher)
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


def _drop_if_stale(dispatcher: Any) -> None:
    folder = Path(dispatcher.stats.cache_path)
    stamp = folder / f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}.sources"
    try:
        fresh = stamp.read_text() == _digest()
    except OSError:
        fresh = False
    if not fresh:
        dispatcher._cache.flush()
        with suppress(OSError):  # a folder that is not writable holds no cache either
            stamp.write_text(_digest())


@cache
def _digest() -> str:
    """Return a digest of every source file whose code can be compiled."""
    package = Path(__file__).parent.parent
    sources = sorted(
        path
        for folder in ("compiled", "cluster", "learning", "schedulers")
        for path in (package / folder).rglob("*.py")
    )
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()


NOTICE = "compiling numba functions (once per machine) …"
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
