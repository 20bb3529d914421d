"""Names that a package exports: those that its `__init__` imports.

A module of its own, because the packages of the simulation use it before anything else of `core`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def exported(namespace: dict[str, Any]) -> list[str]:
    """Return the public names of a package's namespace, sorted, without modules and this function."""
    public = {name for name, value in namespace.items() if name[0] != "_" and not isinstance(value, ModuleType)}
    return sorted(public - {"exported"})
