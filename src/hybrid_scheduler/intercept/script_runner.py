"""A script, a module or a folder run as `python` would run it, with `accelerate` in effect.

The command checks its options and then becomes another Python process, which begins in `like_importlib_bootstrap`.
Without a GPU it becomes plain Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import ModuleType
from typing import Any, NamedTuple

_SEPARATOR = "\x1f"


class ScriptOptions(NamedTuple):
    """What to run, and options of `accelerate`.

    Attributes
    ----------
    kind : str
        ``module`` or ``script``, which may be a folder or an archive.
    name : str
        Name of the module, or path.
    names : str
        Functions, separated by commas; empty for all.
    device, backend : str
        As for `accelerate`.
    quiet, explain : str
        ``yes``, or empty.
    """

    kind: str
    name: str
    names: str = ""
    device: str = "auto"
    backend: str = ""
    quiet: str = ""
    explain: str = ""


def become_python(options: ScriptOptions, arguments: Sequence[str]) -> None:
    """Replace this process by Python, which runs the script; without a backend by plain Python.

    Parameters
    ----------
    options : ScriptOptions
        What to run.
    arguments : sequence of str
        Arguments of the script.
    """
    target = ["-m", options.name] if options.kind == "module" else [options.name]
    python = [sys.executable, *_interpreter_options()]
    if options.backend:
        target = [os.path.join(os.path.dirname(__file__), "like_importlib_bootstrap.py"), _SEPARATOR.join(options)]
    sys.stdout.flush()
    sys.stderr.flush()
    command = [*python, *target, *arguments]
    if os.name == "nt":  # where a replaced process is over for those that wait for it
        import subprocess

        sys.exit(subprocess.call(command))
    os.execv(sys.executable, command)


def _interpreter_options() -> list[str]:
    """Return the options with which this Python was started, such as ``-W error``."""
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    if before[-1:] == ["hybrid_scheduler"]:
        flags = before[-2].removesuffix("m")  # of a word such as -um
        return [*before[:-2], flags] if len(flags) > 1 else before[:-2]
    return before[:-1]


def prepared(settings: str, before: set[str]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what runs the script: a function and its arguments.

    Parameters
    ----------
    settings : str
        Options as `become_python` wrote them.
    before : set of str
        Modules that Python itself has imported.
    """
    options = ScriptOptions(*settings.split(_SEPARATOR))
    is_module = options.kind == "module"
    plain = ["-m", options.name] if is_module else [options.name]
    sys.orig_argv[:] = [sys.executable, *_interpreter_options(), *plain, *sys.argv[2:]]
    sys.argv[:] = ["-m" if is_module else options.name, *sys.argv[2:]]
    is_file = os.path.isfile(options.name) and not is_module and not _is_archive(options.name)
    first = os.getcwd() if is_module else os.path.abspath(options.name)
    _accelerate(options)
    if not sys.flags.safe_path or not (is_module or is_file):
        sys.path.insert(0, os.path.dirname(os.path.realpath(first)) if is_file else first)
        _forget_what_stands_beside(sys.path[0], before)
    if is_file:
        try:
            return exec, _main_module(os.path.abspath(options.name))
        except (SyntaxError, ValueError):  # nothing has run: Python itself reports it best
            become_python(ScriptOptions("script", options.name), sys.argv[1:])
    import runpy

    sys.modules["__main__"] = ModuleType("__main__")
    vars(sys.modules["__main__"])["__builtins__"] = sys.modules["builtins"]
    run: Callable[..., Any] = runpy._run_module_as_main  # type: ignore[attr-defined]
    return run, ((options.name,) if is_module else ("__main__", False))


def cut_traceback(file: str) -> None:
    """Let the traceback of an error that ends the program begin where that of the plain program begins."""
    hook = sys.excepthook

    def shown(kind: Any, error: Any, traceback: Any) -> None:
        while traceback is not None and traceback.tb_frame.f_code.co_filename in (file, __file__):
            traceback = traceback.tb_next
        error.__traceback__ = traceback
        sys.last_traceback = traceback
        hook(kind, error, traceback)

    sys.excepthook = shown


def _accelerate(options: ScriptOptions) -> None:
    from .acceleration import Acceleration

    names = frozenset(options.names.split(",")) if options.names else None
    Acceleration(names, device=options.device, backend=options.backend, quiet=options.quiet == "yes",
          explain=options.explain == "yes")  # fmt: skip


def _forget_what_stands_beside(folder: str, before: set[str]) -> None:
    """Forget modules of the standard library that we imported, if the script has its own of that name."""
    try:
        beside = {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return
    for name in set(sys.modules) - before:
        top = name.partition(".")[0]
        if top in beside and top != "hybrid_scheduler":
            del sys.modules[name]


def _is_archive(path: str) -> bool:
    """Return whether a file is an archive of modules, which Python recognises by its content."""
    import zipimport

    try:
        zipimport.zipimporter(path)
    except ImportError:
        return False
    return True


def _main_module(path: str) -> tuple[Any, dict[str, Any]]:
    """Return the code of a script and the dictionary of its module."""
    from .operators import rewritten_code

    kind = SourcelessFileLoader if path.endswith(".pyc") else SourceFileLoader
    loader = kind("__main__", path)
    module = ModuleType("__main__")
    values = vars(module)
    values.update(__file__=path, __loader__=loader, __builtins__=sys.modules["builtins"], __cached__=None)
    if sys.version_info < (3, 14):
        values["__annotations__"] = {}
    sys.modules["__main__"] = module
    if isinstance(loader, SourcelessFileLoader):
        return loader.get_code("__main__"), values
    source = loader.get_data(path)
    return rewritten_code(source, path) or compile(source, path, "exec", dont_inherit=True), values
