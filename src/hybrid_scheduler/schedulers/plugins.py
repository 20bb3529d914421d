"""Schedulers from elsewhere: installed packages, and plain files.

A package names a module or a class in the entry-point group ``hybrid_scheduler.schedulers``. A file needs no
package: `SCHEDULER_PLUGINS` lists paths, as PATH does, and the program's `--plugin` adds to it. It is a variable of
the environment so that the processes a comparison starts know the same schedulers.
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

ENTRY_POINT_GROUP = "hybrid_scheduler.schedulers"
VARIABLE = "SCHEDULER_PLUGINS"


def add_file(path: Path) -> None:
    """From now on, here and in processes started from here. The file is run when schedulers are first looked up."""
    if not path.is_file():
        raise InvalidInputError("--plugin", "a Python file that exists", str(path))
    known = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = f"{known}{os.pathsep}{path.resolve()}" if known else str(path.resolve())


def installed() -> Iterator[tuple[str, Any]]:
    """Name and contents of every entry point. Slow: the metadata of every installed package is read."""
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        yield entry.name, entry.load()


def run_files() -> None:
    """Import the files; what they define registers itself."""
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
    sys.modules[name] = module  # where classes are looked for that are sent to other processes
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(name, None)
        if isinstance(error, InvalidInputError):
            raise
        what = f"{type(error).__name__}: {error}"
        raise InvalidInputError(f"plug-in {path.name}", "a Python file that can be imported", what) from error
