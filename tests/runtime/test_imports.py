"""Packages for a GPU machine import without those of the server, the database and the command line."""

import subprocess
import sys

import pytest

ABSENT = [
    "aiosqlite",
    "alembic",
    "asyncpg",
    "dotenv",
    "fastapi",
    "gymnasium",
    "limits",
    "loguru",
    "ortools",
    "orjson",
    "pyarrow",
    "pydantic",
    "ray",
    "redis",
    "reportlab",
    "skops",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "websockets",
    "xgboost",
]
PACKAGES = ("core", "physics", "cluster", "learning", "schedulers", "profiling", "runtime")

IMPORT = """
import importlib, pkgutil, sys
for name in {absent!r}:
    sys.modules[name] = None
import hybrid_scheduler
for package_name in {packages!r}:
    package = importlib.import_module(f"hybrid_scheduler.{{package_name}}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
"""

RUN = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
from hybrid_scheduler.runtime import HybridExecutor, KernelCall
for scheduler in ("hybrid_ml", "rl_agent", "greedy"):
    with HybridExecutor(scheduler, device_type="cpu") as executor:
        for _ in range(8):
            executor.submit_kernel(KernelCall("sort", 16)).result()
print("ran")
"""


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)


def test_every_module_imports_without_optional_packages() -> None:
    done = _python(IMPORT.format(absent=ABSENT, packages=PACKAGES))
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_kernels_run_without_optional_packages() -> None:
    done = _python(RUN.format(absent=ABSENT))
    assert done.stdout.strip() == "ran", done.stderr[-2000:]
