"""Package exports that are imported when first used.

`import hybrid_scheduler` and `hybrid-scheduler --help` must load neither a compiler nor a plotting library, yet
completion in a shell should list every public name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]], former_names: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package.

    Parameters
    ----------
    package
        The package's `__name__`.
    modules
        For each module, relative to the package, the names that it provides.
    former_names
        Former name to current name. A former name still works, with a `DeprecationWarning`, but is not listed.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get_attribute(name: str) -> Any:
        if name in former_names:
            text = (
                f"{package}.{name} is deprecated and will be removed in the next release; use {former_names[name]}"
            )
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[package], former_names[name])
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{module_of[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_attributes() -> list[str]:
        return sorted(set(vars(sys.modules[package])) | set(module_of))

    return get_attribute, list_attributes, sorted(module_of)
