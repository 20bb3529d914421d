"""Registry of schedulers by name, with their labels and colours.

A scheduler registers itself with a decorator on its class. Plug-ins are installed packages and plain Python files:
a package names a module or a class in the entry-point group ``hybrid_scheduler.schedulers``. For plain files,
`SCHEDULER_PLUGINS` lists paths, as PATH does, and the command line's `--plugin` adds to it. An environment variable
makes the same schedulers known in worker processes.

Published schedulers and variants are those of the documents that METHODOLOGY.md compares, section "Where published
documents disagree".
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from ..core import Central, InvalidInputError, Knowledge, Online, Scheduler, Static, UnknownNameError
from ..core.errors import HybridSchedulerError
from ..workload.argument_checks import parse_spec

#: Names of former parameters, and the function that returns name and arguments of what they choose now.
Former = tuple[tuple[str, ...], Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]]

#: Schedulers of a comparison that names none: rules, the published learners, what improves on them, and the best
#: placement of each task.
LINE_UP = (
    "round_robin", "random", "greedy", "gpu_only", "random_forest", "dqn", "hybrid_ml", "rl_agent", "oracle",
)  # fmt: skip
#: References that know durations, beside it in live runs.
REFERENCES = ("earliest_finish", "price_index")

_ENTRY_POINT_GROUP = "hybrid_scheduler.schedulers"
PLUGIN_VARIABLE = "SCHEDULER_PLUGINS"


@dataclass(frozen=True, slots=True)
class Look:
    """Style of a scheduler in charts and tables.

    Parameters
    ----------
    dark, light
        Colour on a dark and on a light background.
    glyph, dash
        Marker and line style, for readers who do not see the colour.

    Examples
    --------
    >>> from hybrid_scheduler import Look
    >>> Look(glyph="★").glyph
    '★'
    """

    dark: str = "#94A3B8"
    light: str = "#475569"
    glyph: str = "○"
    dash: str = "solid"


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """Entry of the registry: name, label, class and style of a scheduler.

    Parameters
    ----------
    name, label
        Name in specifications, and name for people.
    factory
        Class of the scheduler.
    look
        Style in charts and tables.
    published
        Whether it is part of the published comparison; other schedulers are additional references.
    maker
        Function that creates a scheduler where a parameter chooses its class; by default the class itself.
    former
        Parameters of earlier versions, and what they choose now.
    """

    name: str
    label: str
    factory: type[Scheduler]
    look: Look = Look()
    published: bool = False
    maker: Callable[..., Scheduler] | None = None
    former: Former | None = None

    def make(self, **arguments: Any) -> Scheduler:
        """Return a new scheduler with these parameters."""
        return (self.maker or self.factory)(**arguments)

    @property
    def summary(self) -> str:
        """First line of the class's docstring."""
        return (inspect.getdoc(self.factory) or "").split("\n")[0]

    @property
    def knows(self) -> Knowledge:
        """Durations that the scheduler knows."""
        return self.factory.knows

    @property
    def protocol(self) -> str:
        """Protocol of the scheduler: "online", "central", "static" or "unknown"."""
        for name, base in (("online", Online), ("central", Central), ("static", Static)):
            if issubclass(self.factory, base):
                return name
        return "unknown"

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the constructor with their defaults."""
        signature = inspect.signature(self.factory)
        return {p.name: p.default for p in signature.parameters.values() if p.default is not p.empty}


_registry: dict[str, SchedulerInfo] = {}
_S = TypeVar("_S", bound=type[Scheduler])


def register(
    name: str,
    *,
    label: str | None = None,
    look: Look | None = None,
    published: bool = False,
    maker: Callable[..., Scheduler] | None = None,
    former: Former | None = None,
) -> Callable[[_S], _S]:
    """Return a class decorator that registers a scheduler.

    Parameters
    ----------
    name
        Name for `create` and the command line.
    label
        Name in charts and tables; by default derived from `name`.
    look
        Colours and marker.
    published
        Whether it is part of the published comparison.
    maker
        Function of the parameters that returns the scheduler, where one of them chooses its class.
    former
        Parameters of earlier versions, and what they choose now; see `current_spec`.

    Raises
    ------
    InvalidInputError
        If another class has this name.

    Examples
    --------
    >>> from hybrid_scheduler import Decision, Online, create, register, unregister
    >>> @register("always_gpu_0")
    ... class AlwaysGpu0(Online):
    ...     def decide(self, task, view):
    ...         return Decision(device=1, fraction=1.0)
    >>> create("always_gpu_0").learns
    False
    >>> unregister("always_gpu_0")
    """

    def add(factory: _S) -> _S:
        known = _registry.get(name)
        if known is not None and known.factory.__qualname__ != factory.__qualname__:
            raise InvalidInputError("scheduler name", "unique", name, hint=f"{known.factory.__module__} has it")
        text = label or name.replace("_", " ").title()
        _registry[name] = SchedulerInfo(name, text, factory, look or Look(), published, maker, former)
        return factory

    return add


def unregister(name: str) -> None:
    """Remove a scheduler from the registry, if it is there; for tests and notebooks."""
    _registry.pop(name, None)


def schedulers() -> dict[str, SchedulerInfo]:
    """Return all registered schedulers by name: the package's own, then those of plug-ins.

    Examples
    --------
    >>> from hybrid_scheduler.schedulers import schedulers
    >>> schedulers()["greedy"].label
    'Greedy'
    """
    _load_plugins()
    return dict(_registry)


def create(spec: str) -> Scheduler:
    """Return a new scheduler.

    Parameters
    ----------
    spec
        ``name`` or ``name(parameter=value, ...)``, e.g. ``"oracle(grid=11)"``.

    Raises
    ------
    UnknownNameError
        If there is no such scheduler or parameter; the hint names the nearest one.

    Examples
    --------
    >>> from hybrid_scheduler import create
    >>> create("oracle(grid=11)").grid
    11
    """
    name, arguments = parse_spec(current_spec(spec))
    known = schedulers()
    if name not in known:
        raise UnknownNameError("scheduler", name, known)
    info = known[name]
    for parameter in arguments:
        if parameter not in info.parameters:
            raise UnknownNameError(f"parameter of scheduler {name}", parameter, info.parameters)
    try:
        return info.make(**arguments)
    except (TypeError, ValueError) as error:
        if not arguments or isinstance(error, HybridSchedulerError):
            raise
        allowed = ", ".join(f"{parameter}={value}" for parameter, value in info.parameters.items())
        raise InvalidInputError(f"scheduler {name}", f"given values such as {allowed}", spec) from error


def current_spec(spec: str) -> str:
    """Return a specification with former parameters in its present form, with a warning; others as they are.

    Raises
    ------
    InvalidInputError
        If nothing has the effect of these parameters any more; the hint names what is nearest.
    """
    name, arguments = parse_spec(spec)
    info = schedulers().get(name)
    if info is None or info.former is None or not arguments.keys() & set(info.former[0]):
        return spec
    name, arguments = info.former[1](arguments)
    written = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    current = f"{name}({written})" if written else name
    warnings.warn(f"{spec} is deprecated: use {current}", DeprecationWarning, stacklevel=3)
    return current


def split_specs(text: str) -> list[str]:
    """Split a comma-separated list of specs, leaving commas inside parentheses alone.

    Specifications of earlier versions are replaced by their present form, so that labels name what runs.
    """
    specs = []
    depth = 0
    current = ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            specs.append(current)
            current = ""
        else:
            current += character
    return [current_spec(spec.strip()) for spec in (*specs, current) if spec.strip()]


@cache
def _load_plugins() -> None:
    """Register the schedulers of plug-ins, once per process."""
    for name, loaded in _installed():
        already = any(info.factory is loaded for info in _registry.values())
        if inspect.isclass(loaded) and issubclass(loaded, Scheduler) and not already:
            register(name)(loaded)
    run_plugin_files()


def add_plugin_file(path: Path) -> None:
    """Add a plug-in file, for this process and the processes that it starts.

    The file runs when schedulers are first looked up.

    Raises
    ------
    InvalidInputError
        If the file does not exist.
    """
    if not path.is_file():
        raise InvalidInputError("--plugin", "a Python file that exists", str(path))
    known = os.environ.get(PLUGIN_VARIABLE)
    os.environ[PLUGIN_VARIABLE] = f"{known}{os.pathsep}{path.resolve()}" if known else str(path.resolve())


def _installed() -> Iterator[tuple[str, Any]]:
    """Yield name and object of every entry point. Slow: it reads the metadata of all installed packages."""
    for entry in entry_points(group=_ENTRY_POINT_GROUP):
        yield entry.name, entry.load()


def run_plugin_files() -> None:
    """Run the plug-in files; their schedulers register themselves."""
    for text in filter(None, os.environ.get(PLUGIN_VARIABLE, "").split(os.pathsep)):
        _run_file(Path(text))


def _run_file(path: Path) -> None:
    if not path.is_file():
        raise InvalidInputError(PLUGIN_VARIABLE, "a list of Python files that exist", str(path))
    name = f"scheduler_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInputError(PLUGIN_VARIABLE, "Python files (.py)", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that pickle finds its classes in other processes
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(name, None)
        if isinstance(error, InvalidInputError):
            raise
        what = f"{type(error).__name__}: {error}"
        raise InvalidInputError(f"plug-in {path.name}", "a Python file that can be imported", what) from error
