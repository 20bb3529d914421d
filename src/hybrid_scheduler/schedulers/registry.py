"""Every scheduler by name, with what a person needs to recognise it.

A scheduler registers itself where it is defined; those from elsewhere come in through `plugins`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from ..core import Central, InvalidInputError, Knowledge, Online, Scheduler, Static, UnknownNameError
from . import plugins


@dataclass(frozen=True, slots=True)
class Look:
    """How a scheduler is drawn everywhere: colour on dark and on light, a glyph and a dash as second cue."""

    dark: str = "#94A3B8"
    light: str = "#475569"
    glyph: str = "●"
    dash: str = "solid"


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """One entry of the registry."""

    name: str
    label: str
    factory: type[Scheduler]
    look: Look = Look()
    #: One of the strategies of the published comparison, as opposed to a reference added beside them.
    published: bool = False

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return (inspect.getdoc(self.factory) or "").split("\n")[0]

    @property
    def knows(self) -> Knowledge:
        return self.factory.knows

    @property
    def protocol(self) -> str:
        for name, base in (("online", Online), ("central", Central), ("static", Static)):
            if issubclass(self.factory, base):
                return name
        return "unknown"

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters with their defaults."""
        signature = inspect.signature(self.factory)
        return {p.name: p.default for p in signature.parameters.values() if p.default is not p.empty}


_registry: dict[str, SchedulerInfo] = {}
_S = TypeVar("_S", bound=type[Scheduler])


def register(
    name: str, *, label: str | None = None, look: Look | None = None, published: bool = False
) -> Callable[[_S], _S]:
    """Class decorator: make a scheduler known under `name`."""

    def add(factory: _S) -> _S:
        known = _registry.get(name)
        if known is not None and known.factory.__qualname__ != factory.__qualname__:
            raise InvalidInputError("scheduler name", "unique", name, hint=f"{known.factory.__module__} has it")
        shown = label or name.replace("_", " ").title()
        _registry[name] = SchedulerInfo(name, shown, factory, look or Look(), published)
        return factory

    return add


def unregister(name: str) -> None:
    """Forget a scheduler; for tests and notebooks that register their own."""
    _registry.pop(name, None)


def schedulers() -> dict[str, SchedulerInfo]:
    """All known schedulers, the package's own first, then those of installed plug-ins."""
    _load_plugins()
    return dict(_registry)


def create(spec: str) -> Scheduler:
    """Make a scheduler from ``name`` or ``name(parameter=value, ...)``."""
    name, arguments = parse_spec(spec)
    known = schedulers()
    if name not in known:
        raise UnknownNameError("scheduler", name, known)
    info = known[name]
    for parameter in arguments:
        if parameter not in info.parameters:
            raise UnknownNameError(f"parameter of scheduler {name}", parameter, info.parameters)
    return info.factory(**arguments)


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """``oracle(grid=11)`` -> ("oracle", {"grid": 11}). Bare words are strings."""
    name, bracket, rest = spec.strip().partition("(")
    if not bracket:
        return name.strip(), {}
    if not rest.endswith(")"):
        raise InvalidInputError("scheduler", "name or name(parameter=value, ...)", spec)
    arguments: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in rest[:-1].split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (equals and key and value):
            raise InvalidInputError(f"scheduler {name.strip()}", "parameter=value", item)
        try:
            arguments[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            arguments[key] = value
    return name.strip(), arguments


def split_specs(text: str) -> list[str]:
    """Split a comma-separated list of specs, leaving commas inside parentheses alone."""
    specs, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            specs.append(current)
            current = ""
        else:
            current += character
    return [spec.strip() for spec in (*specs, current) if spec.strip()]


@cache
def _load_plugins() -> None:
    """Once per process."""
    for name, loaded in plugins.installed():
        already = any(info.factory is loaded for info in _registry.values())
        if inspect.isclass(loaded) and issubclass(loaded, Scheduler) and not already:
            register(name)(loaded)
    plugins.run_files()
