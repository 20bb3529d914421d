"""The checks of `doctor`. Each looks at one thing and never raises; only what is necessary can fail."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from ..config import CONFIG_FILE, LoggingSettings, Settings, load_settings
from ..core import HybridSchedulerError

NEEDED = (
    "numpy", "numba", "scipy", "pandas", "pyarrow", "pydantic", "python-dotenv", "PyYAML",
    "typer", "rich", "loguru",
)  # fmt: skip
OPTIONAL = {
    "torch": "trains the reinforcement-learning agent",
    "ray": "spreads work over several machines",
    "ortools": "computes exact optima of small instances",
}


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: Literal["ok", "info", "warning", "failed"]
    detail: str
    hint: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        return asdict(self)


def run_diagnostics(config_file: Path | None = None) -> list[Check]:
    """All checks in the order in which a person would put things right."""
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


def _python() -> Check:
    version = platform.python_version()
    if (3, 11) <= sys.version_info[:2] < (3, 14):
        return Check("Python", "ok", f"{version} on {platform.system()} {platform.machine()}")
    return Check("Python", "failed", f"{version} is not supported", "use Python 3.11, 3.12 or 3.13")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _packages() -> Iterator[Check]:
    found = {package: _version(package) for package in NEEDED}
    missing = [package for package, version in found.items() if version is None]
    if missing:
        yield Check("packages", "failed", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    present = ", ".join(f"{package} {version}" for package, version in found.items() if version)
    yield Check("packages", "ok", present)


def _compiler() -> Check:
    try:
        from numba import config, njit

        if config.DISABLE_JIT:
            return Check(
                "compiler", "warning", "numba is switched off", "unset NUMBA_DISABLE_JIT: it is far faster"
            )
        began = time.perf_counter()
        if njit(lambda x: x + 1)(1) != 2:
            raise ArithmeticError("1 + 1 is not 2")
        return Check("compiler", "ok", f"numba compiled a function in {time.perf_counter() - began:.1f} s")
    except Exception as error:
        return Check("compiler", "failed", f"numba: {error}", "reinstall numba and llvmlite")


def _cache() -> Check:
    """Where compiled kernels are kept. Without it everything works, but each start compiles again."""
    hint = "set NUMBA_CACHE_DIR to a folder that can be written"
    try:
        from ..cluster.arrival_loop import arrival_loop

        folder = Path(arrival_loop.stats.cache_path)
    except Exception as error:
        return Check("kernel cache", "failed", str(error), hint)
    reason = _why_not_writable(folder)
    if reason:
        return Check("kernel cache", "warning", f"{folder}: {reason}; kernels are compiled at every start", hint)
    ready = any(folder.glob("loop.arrival_loop-*.nbi")) if folder.is_dir() else False
    state = "kernels are compiled" if ready else "kernels are compiled at the first run (about ten seconds)"
    return Check("kernel cache", "ok", state)


def _settings(config_file: Path | None) -> tuple[list[Check], Settings | None]:
    try:
        settings = load_settings(config_file)
    except HybridSchedulerError as error:
        return [
            Check("settings", "failed", str(problem), problem.hint)
            for problem in getattr(error, "problems", [error])
        ], None
    file = config_file or CONFIG_FILE
    source = str(file) if file.exists() else f"defaults (no {file} here)"
    return [Check("settings", "ok", f"{source}, environment {settings.environment}")], settings


def _log_folder(settings: LoggingSettings) -> Check:
    folder = Path(settings.file).parent
    reason = _why_not_writable(folder)
    if reason:
        return Check("log file", "warning", f"{folder}: {reason}; runs go on without a log", "set LOG_FILE")
    return Check("log file", "ok", settings.file)


def _why_not_writable(folder: Path) -> str | None:
    """What goes wrong on writing into a folder, which may have to be made first; nothing is left behind."""
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return error.strerror or type(error).__name__


def _machine() -> Check:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    memory = _memory()
    amount = f", {memory / 1e9:.1f} GB memory" if memory else ""
    return Check("machine", "info", f"{cores} CPU core{'s' if cores > 1 else ''}{amount}")


def _memory() -> int | None:
    """Bytes this process may hope for: the machine's, or the container's if that is less."""
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(installed, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return installed


def _gpu() -> Check:
    program = shutil.which("nvidia-smi")
    if program is None:
        return Check("GPU", "info", "no NVIDIA driver here; simulation does not need one")
    try:
        found = subprocess.run(
            [program, "--query-gpu=name,memory.total", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Check("GPU", "info", f"nvidia-smi does not answer ({type(error).__name__})")
    return Check("GPU", "info", "; ".join(found.splitlines()) or "none found by nvidia-smi")


def _optional() -> Iterator[Check]:
    for package, purpose in OPTIONAL.items():
        version = _version(package)
        detail = f"{version}, {purpose}" if version else f"not installed; it {purpose}"
        yield Check(package, "info", detail)
