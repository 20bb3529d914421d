"""Checks and tests in the project's own environment, which is set up first if necessary.

    python3 scripts/run_tests.py                      the linters, the dashboard's checks, then all tests
    python3 scripts/run_tests.py --lint               the linters alone
    python3 scripts/run_tests.py --coverage           all tests, and their coverage of the package
    python3 scripts/run_tests.py tests/golden -k x    pytest alone, with these arguments

The script ends at the first step that fails, with that step's exit code. Coverage is measured only on request,
because tracing makes the tests about a quarter slower.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bootstrap import ROOT, environment_or_exit
from build_dashboard import NoDashboardError, ensure_dashboard

#: Arguments of pytest-cov; what is measured is configured in pyproject.toml.
COVERAGE = ["--cov", "--cov-report=term:skip-covered"]


def linters(python: Path) -> dict[str, list[str]]:
    """Return the commands of the linters by name."""
    module = [str(python), "-m"]
    return {
        "ruff check": [*module, "ruff", "check", "."],
        "ruff format": [*module, "ruff", "format", "--check", "."],
        "mypy": [*module, "mypy"],
        "import contracts": [str(python.with_name("lint-imports")), "--no-logo"],
    }


def dashboard() -> dict[str, list[str]]:
    """Return the dashboard's own checks; without Node there are none, except in CI, where that is an error."""
    try:
        ensure_dashboard()
    except NoDashboardError as error:
        if os.environ.get("CI"):
            sys.exit(f"error: {error}\nhint: {error.hint}")
        print(f"==> dashboard skipped: {error}", flush=True)
        return {}
    npm = [shutil.which("npm") or "npm", "--prefix", "dashboard", "run", "--silent"]
    return {f"dashboard {name}": [*npm, name] for name in ("typecheck", "lint", "test", "size")}


def tests(python: Path, arguments: list[str]) -> dict[str, list[str]]:
    """Return the command of pytest, on all cores."""
    # Work stealing keeps all workers busy although a few tests take far longer than the others.
    spread = ["-n", str(workers()), "--dist", "worksteal"]
    return {"pytest": [str(python), "-m", "pytest", *spread, *arguments]}


def workers() -> int:
    """Return one worker per core that this process may use; with more, browsers and servers wait too long."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores, 8)  # beyond that, starting a worker costs more than it saves


def main(arguments: list[str]) -> int:
    """Run the steps that the arguments choose."""
    python = environment_or_exit()
    if arguments == ["--lint"]:
        steps = linters(python)
    elif arguments[:1] == ["--coverage"]:
        steps = tests(python, [*COVERAGE, *arguments[1:]])
    elif arguments:
        steps = tests(python, arguments)
    else:
        steps = linters(python) | dashboard() | tests(python, [])

    began = time.monotonic()
    for name, command in steps.items():
        print(f"==> {name}", flush=True)
        code = subprocess.call(command, cwd=ROOT)
        if code:
            print(f"==> {name} failed (exit {code})", flush=True)
            return code if code > 0 else 128 - code  # a signal's number, as a shell reports it
    print(f"==> all passed in {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
