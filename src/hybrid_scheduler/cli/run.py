"""The command `run`: an unchanged script whose heavy NumPy and SciPy calls choose their device.

It imports neither Typer nor NumPy, because the script waits for it; `run_script` declares its options for the help.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from typing import Any

_FLAGS = {"--explain": "explain", "-q": "quiet", "--quiet": "quiet"}
_VALUES = {"--only": "only", "--device": "device", "-m": "module", "--module": "module"}


def main(words: list[str]) -> None:
    """Run the command with the words after its name; errors of the command itself end it with exit code 2."""
    try:
        _run(words)
    except ValueError as error:
        from ..core.errors import HybridSchedulerError  # loads NumPy

        if not isinstance(error, HybridSchedulerError):
            raise
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)


def _run(words: list[str]) -> None:
    options, rest = _parsed(words)
    from ..intercept.acceleration import find_backend
    from ..intercept.script_runner import ScriptOptions, become_python

    kind = "module" if "module" in options else "script"
    name = options["module"] if kind == "module" else rest.pop(0)
    (_check_module if kind == "module" else _check_script)(name)
    names = _names(options.get("only"))
    backend, reason = find_backend()
    if not backend and "quiet" not in options:
        print(f"hybrid-scheduler: {reason}; everything runs on the CPU", file=sys.stderr)
    become_python(
        ScriptOptions(
            kind,
            name,
            names,
            options.get("device", "auto"),
            backend,
            options.get("quiet", ""),
            options.get("explain", ""),
        ),
        rest,
    )


def _parsed(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return options and the words from the script on; what follows it belongs to the script."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-" and "module" not in options:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--":
            break
        if name in ("-h", "--help"):
            from .app import app

            app(["run", "--help"], prog_name="hybrid-scheduler")
        if name in _FLAGS and not equals:
            options[_FLAGS[name]] = "yes"
        elif name in _VALUES:
            if not equals and not rest:
                raise _invalid(name, "followed by a value", "nothing")
            options[_VALUES[name]] = value if equals else rest.pop(0)
        else:
            from ..core.errors import UnknownNameError

            raise UnknownNameError("option", name, [*_FLAGS, *_VALUES])
    if options.get("device", "auto") not in ("auto", "gpu"):
        from ..core.errors import UnknownNameError

        raise UnknownNameError("device", options["device"], ["auto", "gpu"])
    if not rest and "module" not in options:
        raise _invalid("script", "a Python file, or -m and a module", "nothing", "see hybrid-scheduler run --help")
    return options, rest


def _names(only: str | None) -> str:
    """Return the full names of chosen functions, separated by commas; raises UnknownNameError."""
    if only is None:
        return ""
    from ..intercept.variants import chosen_names

    return ",".join(sorted(chosen_names([word.strip() for word in only.split(",") if word.strip()]) or ()))


def _check_script(path: str) -> None:
    if os.path.isdir(path):
        if not any(os.path.isfile(os.path.join(path, f"__main__.{end}")) for end in ("py", "pyc")):
            raise _invalid("script", "a Python file, or a folder with __main__.py", path)
        return
    if not os.access(path, os.R_OK):
        folder = os.path.dirname(path) or "."
        near = _nearest(os.path.basename(path), os.listdir(folder) if os.path.isdir(folder) else [])
        hint = f"did you mean {os.path.join(os.path.dirname(path), near)}?" if near else None
        raise _invalid("script", "readable" if os.path.exists(path) else "a Python file that exists", path, hint)


def _check_module(name: str) -> None:
    """Look for a module as `python -m` would, without importing the packages that hold it."""
    places: Any = None
    found: Any = None
    if not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())
    parts = name.split(".")
    for index in range(len(parts)):
        found = _spec_of(".".join(parts[: index + 1]), places)
        if found is None:
            break
        places = found.submodule_search_locations
        if places is None and index < len(parts) - 1:
            found = None
            break
    if found is not None and places is not None:
        found = _spec_of(f"{name}.__main__", places)
        if found is None:
            raise _invalid("module", "a module, or a package with __main__.py", name)
    if found is None:
        files = {file.removesuffix(".py") for file in os.listdir() if file.endswith(".py")}
        near = _nearest(name, [*files, *sys.stdlib_module_names])
        raise _invalid("module", "a module that can be imported", name, f"did you mean {near}?" if near else None)


def _spec_of(name: str, places: Any) -> Any:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, places) if find is not None else None
        if spec is not None:
            return spec
    return importlib.machinery.PathFinder.find_spec(name, places)


def _nearest(name: str, choices: list[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(name, choices, n=1, cutoff=0.6)), None)


def _invalid(field: str, allowed: str, got: object, hint: str | None = None) -> Exception:
    from ..core.errors import InvalidInputError

    return InvalidInputError(field, allowed, got, hint=hint)
