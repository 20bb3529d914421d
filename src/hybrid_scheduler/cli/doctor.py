"""`hybrid-scheduler doctor`: checks of the installation, the settings and the machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import typer

from ..core import HybridSchedulerError
from .command_context import DEFAULT_LOG_FILE, CommandContext
from .options import with_options

if TYPE_CHECKING:
    from ..config import LoggingSettings, Settings

REQUIRED_PACKAGES = (
    "numpy", "numba", "scipy", "pandas", "pyarrow", "scikit-learn", "skops", "pydantic", "python-dotenv", "PyYAML",
    "typer", "rich", "loguru",
)  # fmt: skip
#: One package of each extra, and what the extra is for.
_OPTIONAL = {
    "fastapi": ("server", "serves the live run, its database and its dashboard"),
    "asyncpg": ("postgres", "stores history in PostgreSQL"),
    "matplotlib": ("report", "draws figures and writes reports"),
    "torch": ("gpu", "runs real kernels"),
    "ray": ("ray", "spreads work over several machines"),
    "gymnasium": ("gym", "offers the Gymnasium environment"),
    "ortools": ("exact", "computes exact optima of small instances"),
}


@with_options()
def doctor(command: CommandContext) -> None:
    """Check Python, packages, compiler, settings and the machine.

    The exit code is 1 if something necessary is missing; optional packages are only listed.

    Example: hybrid-scheduler doctor
    """
    checks = _run_checks(command.config_file)
    failed = list(dict.fromkeys(check.name for check in checks if check.status == "failed"))
    document = {"ok": not failed, "checks": [check._asdict() for check in checks]}
    summary = f"not ready: {', '.join(failed)}" if failed else "ready"
    command.printer.outcome(document, lambda: command.printer.checks(checks, summary))
    if failed:
        raise typer.Exit(1)


class _Check(NamedTuple):
    """One finding: a status, a detail and, where something can be done, a hint."""

    name: str
    status: Literal["ok", "info", "warning", "failed"]
    detail: str
    hint: str | None = None


def _run_checks(config_file: Path | None = None) -> list[_Check]:
    """Run all checks, in the order in which problems should be solved.

    Parameters
    ----------
    config_file
        Settings to check instead of ./config.yaml.

    Returns
    -------
    list of checks
        No check raises; only a necessary one can have the status "failed".
    """
    from ..config import LoggingSettings

    configuration, settings = _settings(config_file)
    return [
        _python(),
        *_packages(),
        _compiler(),
        _cache(),
        *configuration,
        _log_folder(settings.logging if settings else LoggingSettings()),
        _machine(),
        _gpu(),
        *_optional(),
    ]


def _python() -> _Check:
    version = platform.python_version()
    if (3, 11) <= sys.version_info[:2] < (3, 14):
        return _Check("Python", "ok", f"{version} on {platform.system()} {platform.machine()}")
    return _Check("Python", "failed", f"{version} is not supported", "use Python 3.11, 3.12 or 3.13")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _packages() -> Iterator[_Check]:
    found = {package: _version(package) for package in REQUIRED_PACKAGES}
    missing = [package for package, version in found.items() if version is None]
    if missing:
        yield _Check("packages", "failed", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    present = ", ".join(f"{package} {version}" for package, version in found.items() if version)
    yield _Check("packages", "ok", present)


def _compiler() -> _Check:
    try:
        from numba import config, njit

        if config.DISABLE_JIT:
            return _Check(
                "compiler",
                "warning",
                "numba is switched off",
                "unset NUMBA_DISABLE_JIT: compiled code is far faster",
            )
        began = time.perf_counter()
        if njit(lambda x: x + 1)(1) != 2:
            raise ArithmeticError("1 + 1 is not 2")
        return _Check("compiler", "ok", f"numba compiled a function in {time.perf_counter() - began:.1f} s")
    except Exception as error:
        return _Check("compiler", "failed", f"numba: {error}", "reinstall numba and llvmlite")


def _cache() -> _Check:
    """Check the folder of compiled code; without it each start compiles again."""
    hint = "set NUMBA_CACHE_DIR to a folder that can be written"
    try:
        from ..compiled.code_cache import code_folder

        folder = code_folder()
    except Exception as error:
        return _Check("compile cache", "failed", str(error), hint)
    reason = why_not_writable(folder)
    if reason:
        return _Check("compile cache", "warning", f"{folder}: {reason}; code is compiled at every start", hint)
    ready = any(folder.glob("cluster/arrival_loop.*.nbi"))
    state = "code is compiled" if ready else "code is compiled at the first run (about ten seconds)"
    return _Check("compile cache", "ok", state)


def _settings(config_file: Path | None) -> tuple[list[_Check], Settings | None]:
    from ..config import CONFIG_FILE, load_settings

    try:
        settings = load_settings(config_file)
    except HybridSchedulerError as error:
        return [
            _Check("settings", "failed", str(problem), problem.hint)
            for problem in getattr(error, "problems", [error])
        ], None
    file = config_file or CONFIG_FILE
    source = str(file) if file.exists() else f"defaults (no {file} here)"
    return [_Check("settings", "ok", f"{source}, environment {settings.environment}")], settings


def _log_folder(settings: LoggingSettings) -> _Check:
    file = settings.file or DEFAULT_LOG_FILE
    folder = Path(file).parent
    reason = why_not_writable(folder)
    if reason:
        return _Check("log file", "warning", f"{folder}: {reason}; runs go on without a log", "set LOG_FILE")
    return _Check("log file", "ok", file if settings.file else f"{file}, of serve and pipeline only")


def why_not_writable(folder: Path) -> str | None:
    """Return why a folder, which may not exist yet, cannot be written; nothing is left behind."""
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return error.strerror or type(error).__name__


def _machine() -> _Check:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    memory = _memory()
    amount = f", {memory / 1e9:.1f} GB memory" if memory else ""
    return _Check("machine", "info", f"{cores} CPU core{'s' if cores > 1 else ''}{amount}")


def _memory() -> int | None:
    """Return the bytes that this process may use: the machine's, or the container's limit if that is lower."""
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(installed, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return installed


def _gpu() -> _Check:
    program = shutil.which("nvidia-smi")
    if program is None:
        return _Check("GPU", "info", "no NVIDIA driver here; simulation does not need one")
    try:
        found = subprocess.run(
            [program, "--query-gpu=name,memory.total", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return _Check("GPU", "info", f"nvidia-smi does not answer ({type(error).__name__})")
    return _Check("GPU", "info", "; ".join(found.splitlines()) or "none found by nvidia-smi")


def _optional() -> Iterator[_Check]:
    for package, (extra, purpose) in _OPTIONAL.items():
        version = _version(package)
        if version:
            yield _Check(package, "info", f"{version}, {purpose}")
        else:
            command = f"pip install 'hybrid-scheduler[{extra}]'"
            yield _Check(package, "info", f"not installed; it {purpose}: {command}")
