"""Package exports that are imported when first used.

`import hybrid_scheduler` and `hybrid-scheduler --help` must load neither a compiler nor a plotting library, yet
completion in a shell should list every public name. A package lists its exports once, as imports for type checkers;
`lazy_exports` reads that list from the package's file.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

#: An exported name: `from .module import name as name`, below `if TYPE_CHECKING`.
_EXPORT = re.compile(r"^    from \.([\w.]+) import (\w+) as \2$", re.MULTILINE)


def lazy_exports(
    package: str, file: str, former_names: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package.

    Parameters
    ----------
    package
        The package's `__name__`.
    file
        The package's `__file__`, with one line per exported name: ``from .module import name as name``.
    former_names
        Former name to current name. A former name still works, with a `DeprecationWarning`, but is not listed.
    """
    source = Path(file).with_suffix(".py").read_text(encoding="utf-8")
    module_of = {name: module for module, name in _EXPORT.findall(source)}

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
