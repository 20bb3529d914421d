"""Import hook: replaces functions of libraries as they are imported, and the operator `@` in own modules."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any

from .operators import rewritten_code
from .variants import GROUPS

_PATHS = sysconfig.get_paths()
#: Folders of the standard library and of installed packages, which are not a program's own.
_INSTALLED = tuple({os.path.join(_PATHS[name], "") for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class _OwnLoader(importlib.machinery.SourceFileLoader):
    """Loader of a program's own module; what it compiles is never stored, because plain Python would find it."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code, with the operator `@` replaced if the module uses it."""
        return rewritten_code(self.get_data(self.path), self.path) or super().get_code(fullname)


class _LibraryLoader(importlib.machinery.SourceFileLoader):
    """Loader of a library whose functions are replaced after its import."""

    applied: Callable[[str], None]

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then replace its functions."""
        super().exec_module(module)
        self.applied(module.__name__)


class ImportHook:
    """Finder that stands before Python's own one for files.

    Parameters
    ----------
    apply : callable
        Called with the name of a library that has been imported.
    rewrites : bool
        Whether the operator `@` is replaced in own modules.
    """

    def __init__(self, apply: Callable[[str], None], *, rewrites: bool) -> None:
        self._apply = apply
        self._rewrites = rewrites
        self._done: set[str] = set()

    def install(self) -> None:
        """Take effect, also for libraries that have been imported before."""
        self._apply_all()
        finders: list[Any] = sys.meta_path
        files = importlib.machinery.PathFinder
        finders.insert(finders.index(files) if files in finders else len(finders), self)

    def _apply_all(self, loaded: str = "") -> None:
        """Replace the functions of libraries whose import is complete; parts of NumPy wait for all of it.

        `loaded` has just run, which the import system notes later.
        """
        for library in GROUPS:
            needed = {library, library.partition(".")[0]} if library.startswith("numpy") else {library}
            if library not in self._done and all(name == loaded or _is_complete(name) for name in needed):
                self._done.add(library)
                self._apply(library)

    def remove(self) -> None:
        """End the effect on further imports."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        """Return Python's own answer, with another loader where one is needed."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = spec.loader if spec is not None else None
        if spec is None or type(loader) is not importlib.machinery.SourceFileLoader:
            return spec
        if name in GROUPS:
            library = _LibraryLoader(loader.name, loader.path)
            library.applied = self._apply_all
            spec.loader = library
        elif self._rewrites and not loader.path.startswith(_INSTALLED):
            spec.loader = _OwnLoader(loader.name, loader.path)
        return spec


def _is_complete(name: str) -> bool:
    """Return whether a module has been imported."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)
