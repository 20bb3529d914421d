"""Compilation of numba functions: their cache on disk, and a notice where compiling takes more than a second.

`helper` marks a function that is inlined into its callers, `inner` one that compiled code calls. `entry` marks a
function that Python calls; its machine code is kept on disk. `loop_entry` is an entry that creates no arrays.
Numba's cache notices a change in the file of an entry, but not in other functions that it uses. `compiled`
therefore compares a digest of all sources and drops stale machine code.

Compiling takes a minute or more on a new machine. Three tenths of that was work without use, which `compiled`
leaves out with `_shortcuts`.
"""

from __future__ import annotations

import copy
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
from numba import njit
from numba.core.event import Event, Listener, install_listener

_options = {"nogil": True, "error_model": "numpy"}
helper = njit(**_options, inline="always")
entry = njit(**_options, cache=True)
# Without reference counts of arrays: numba counts them for every array argument of every inlined function, which
# costs half of the time of a loop over twenty arrays.
loop_entry = njit(**_options, cache=True, _nrt=False, no_cfunc_wrapper=True)
_compiling = threading.RLock()


def inner(function: Callable[..., Any]) -> Any:
    """Mark a function that compiled code calls; it has no wrapper for Python, whose calls raise an error."""
    dispatcher = njit(**_options, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)

    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError(f"{function.__name__} is called by compiled code alone; call it from an `entry`")

    dispatcher._compile_for_args = refuse  # what a call from Python ends in ...
    dispatcher._insert = lambda *_: None  # ... unless it finds machine code here
    return dispatcher


def compiled(dispatcher: Any, signature: Any) -> Any:
    """Return the entry, compiled for exactly this signature; arguments of other types raise an error."""
    if not dispatcher.overloads:  # its `signatures` would be hashed in every call
        # One thread at a time: a second one would compile after the first has disabled it.
        with _compiling:
            if not dispatcher.overloads:
                _load_array_functions()
                _drop_if_stale(dispatcher)
                with _shortcuts():
                    dispatcher.compile(signature)
                dispatcher.disable_compile()
    return dispatcher


#: The versions of numba whose compiler works as `_shortcuts` supposes; others compile in their own way.
_KNOWN_NUMBA = ("0.68.",)


@contextmanager
def _shortcuts() -> Iterator[None]:
    """Let numba leave out repeated and unused work while this block compiles; the machine code is the same.

    An inlined function is analysed once, not for each call, and copied with one table of its variables, not one per
    block. Options of compilation are compared by those that were set. A function that Python cannot call is
    optimised and linked into its callers, but not translated to machine code of its own.
    """
    from numba.core import bytecode, codegen, cpu, inline_closurecall, targetconfig
    from numba.core.compiler_lock import global_compiler_lock

    if not numba.__version__.startswith(_KNOWN_NUMBA):
        yield
        return
    worker, library, options = inline_closurecall.InlineWorker, codegen.CPUCodeLibrary, targetconfig.TargetConfig
    analyse, inline, finalize = worker.run_untyped_passes, worker.inline_ir, library._finalize_final_module
    executable = cpu.CPUContext.get_executable
    analysed: dict[tuple[Any, bool], Any] = {}
    copies: dict[int, Any] = {}
    hashes: dict[Any, int] = {}

    def analyse_once(self: Any, function: Any, enable_ssa: bool = False) -> Any:
        self.flags.enable_ssa = enable_ssa
        key = function, enable_ssa
        if key not in analysed:
            analysed[key] = analyse(self, function, enable_ssa)
        copied = analysed[key].copy()
        copied.func_id = bytecode.FunctionIdentity.from_function(function)  # its variables get names of their own
        return copied

    def inline_with_one_table(self: Any, *arguments: Any, **options: Any) -> Any:
        copies.clear()
        return inline(self, *arguments, **options)

    def equal(self: Any, other: Any) -> Any:
        if type(self) is not type(other):
            return NotImplemented
        mine, others = self._values, other._values
        return mine == others or all(getattr(self, name) == getattr(other, name) for name in {*mine, *others})

    def executable_if_called(self: Any, code: Any, description: Any, environment: Any) -> Any:
        if code._finalized:  # it comes from the disk, as machine code
            return executable(self, code, description, environment)
        try:
            code.get_function(description.llvm_cpython_wrapper_name)
        except NameError:  # there is no wrapper
            code.only_linked = True
            name = description.qualname.rsplit(".", 1)[-1]
            return cpu._dynfunc.make_function(description.lookup_module(), name, "", 0, environment, (code,))
        return executable(self, code, description, environment)

    def finalize_if_called(self: Any) -> None:
        if not getattr(self, "only_linked", False):
            finalize(self)
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def hash_of_names(self: Any) -> int:
        """Return numba's hash, which it computes again for every look-up."""
        kind = type(self)
        if kind not in hashes:
            hashes[kind] = hash(tuple(sorted(kind.options)))
        return hashes[kind]

    shared_copies = SimpleNamespace(deepcopy=lambda block: copy.deepcopy(block, copies))
    changes = (
        (worker, "run_untyped_passes", analyse_once),
        (worker, "inline_ir", inline_with_one_table),
        (inline_closurecall, "copy", shared_copies),
        (options, "__eq__", equal),
        (options, "__hash__", hash_of_names),
        (cpu.CPUContext, "get_executable", executable_if_called),
        (library, "_finalize_final_module", finalize_if_called),
    )
    with global_compiler_lock:
        before = [getattr(owner, name) for owner, name, _ in changes]
        for owner, name, value in changes:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for (owner, name, _), value in zip(changes, before, strict=True):
                setattr(owner, name, value)


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


NOTICE = "compiling kernels, once per machine …"
#: Seconds of compiling until the notice.
_NOTICE_AFTER_S = 1.0


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
        if not self._announced and self._spent + time.monotonic() - self._began > _NOTICE_AFTER_S:
            self._announced = True
            self._announce(NOTICE)


@contextmanager
def compile_notice(announce: Callable[[str], None]) -> Iterator[Any]:
    """Announce once if compiling takes over a second within this block; loading from the cache does not count."""
    with install_listener("numba:compile", _Stopwatch(announce)) as stopwatch:
        yield stopwatch
