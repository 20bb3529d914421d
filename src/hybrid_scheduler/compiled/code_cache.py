"""Machine code on disk, one copy for each user and state of the sources.

Every copy of the package with the same sources (a clone, a worktree, an installed wheel) loads the same machine
code, whatever the times of its files. The folder is named after a digest of everything that the code depends on, so
that changed sources never load stale code: numba itself would miss a change in a function that is inlined from
another file. A file outside of the package (a user's scheduler) keeps the folder that numba gives it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_name
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from ..core.cache_folder import user_cache_folder

_PACKAGE = Path(__file__).parent.parent
#: Packages whose functions are compiled, or whose constants are part of compiled functions.
_SOURCES = ("compiled", "cluster", "jobs", "learning", "schedulers")
#: States of the sources whose machine code is kept, about 20 MB each; those used longest ago go first.
_MAX_STATES = 12
_STATE = re.compile(r"[0-9a-f]{32}")


def use_code_cache(dispatcher: Any) -> Any:
    """Let a function's machine code be kept on disk; without a folder for it, it is compiled in every process."""
    if not numba.config.DISABLE_JIT:  # which leaves functions as they are
        with suppress(RuntimeError):  # numba's error if no folder can be written
            dispatcher._cache = _CodeCache(dispatcher.py_func)
    return dispatcher


def code_folder() -> Path:
    """Return the folder of machine code for these sources, which need not exist.

    It lies in NUMBA_CACHE_DIR if that is set, otherwise in the user's cache folder.

    Raises
    ------
    RuntimeError
        If the user has no home folder.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(given) if given else user_cache_folder() / "compiled") / _digest()


@cache
def _digest() -> str:
    """Return a digest of all sources that are compiled, of the compiler, and of the processor."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version} {get_host_cpu_name()}".encode())
    for path in sorted(path for folder in _SOURCES for path in (_PACKAGE / folder).rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


class _SharedLocator(_CacheLocator):  # type: ignore[misc]
    """Place of the machine code of one file of the package."""

    def __init__(self, folder: Path, line: int) -> None:
        self._folder = folder
        self._line = line

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return _digest()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _SharedLocator | None:
        source = Path(file)
        if not source.is_relative_to(_PACKAGE):
            return None
        try:
            folder = _folder_in_use() / source.relative_to(_PACKAGE).parent
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):
            return None
        return cls(folder, function.__code__.co_firstlineno)


class _Implementation(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_SharedLocator, *CompileResultCacheImpl._locator_classes)


class _CodeCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function; files that cannot be read or written cost a compilation, never an error."""

    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        # A file outside of the package is stale as well when functions of the package that it inlines change.
        self._cache_file._source_stamp = (self._cache_file._source_stamp, _digest())

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)
        except Exception:  # a truncated file can raise anything while it is unpickled
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        with suppress(OSError):
            super().save_overload(signature, result)


@cache
def _folder_in_use() -> Path:
    """Return the folder of this state of the sources, marked as used; folders not used for long are removed."""
    folder = code_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):  # a folder of another user can be read all the same
        os.utime(folder)
        states = [path for path in folder.parent.iterdir() if _STATE.fullmatch(path.name)]
        # Another process may remove one at the same time, or still use it: it then compiles again.
        for old in sorted(states, key=_last_use, reverse=True)[_MAX_STATES:]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def _last_use(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
