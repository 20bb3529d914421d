"""Scheduler plug-ins: installed packages and plain Python files.

A package names a module or a class in the entry-point group ``hybrid_scheduler.schedulers``. For plain files,
`SCHEDULER_PLUGINS` lists paths, as PATH does, and the command line's `--plugin` adds to it. An environment variable
makes the same schedulers known in worker processes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..core import InvalidInputError

_ENTRY_POINT_GROUP = "hybrid_scheduler.schedulers"
VARIABLE = "SCHEDULER_PLUGINS"


def add_file(path: Path) -> None:
    """Add a plug-in file, for this process and the processes that it starts.

    The file runs when schedulers are first looked up.

    Raises
    ------
    InvalidInputError
        If the file does not exist.
    """
    if not path.is_file():
        raise InvalidInputError("--plugin", "a Python file that exists", str(path))
    known = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = f"{known}{os.pathsep}{path.resolve()}" if known else str(path.resolve())


def installed() -> Iterator[tuple[str, Any]]:
    """Yield name and object of every entry point. Slow: it reads the metadata of all installed packages."""
    for entry in entry_points(group=_ENTRY_POINT_GROUP):
        yield entry.name, entry.load()


def run_files() -> None:
    """Run the plug-in files; their schedulers register themselves."""
    for text in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        _run(Path(text))


def _run(path: Path) -> None:
    if not path.is_file():
        raise InvalidInputError(VARIABLE, "a list of Python files that exist", str(path))
    name = f"scheduler_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInputError(VARIABLE, "Python files (.py)", str(path))
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
