"""Run the checks and the tests in the project's own environment, which is set up first if need be.

    python3 scripts/run_tests.py                      the linters, the dashboard's checks, then all tests
    python3 scripts/run_tests.py --lint               the linters alone
    python3 scripts/run_tests.py tests/golden -k x    pytest alone, with these arguments

Ends at the first step that fails, with that step's exit code.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bootstrap import ROOT, environment_or_exit
from build_dashboard import NoDashboardError, ensure_dashboard


def linters(python: Path) -> dict[str, list[str]]:
    module = [str(python), "-m"]
    return {
        "ruff check": [*module, "ruff", "check", "."],
        "ruff format": [*module, "ruff", "format", "--check", "."],
        "mypy": [*module, "mypy"],
        "import contracts": [str(python.with_name("lint-imports")), "--no-logo"],
    }


def dashboard() -> dict[str, list[str]]:
    """The dashboard's own checks. Without Node they are left out, except in CI."""
    try:
        ensure_dashboard()
    except NoDashboardError as error:
        if os.environ.get("CI"):
            sys.exit(f"error: {error}\nhint: {error.hint}")
        print(f"==> dashboard left out: {error}", flush=True)
        return {}
    npm = [shutil.which("npm") or "npm", "--prefix", "dashboard", "run", "--silent"]
    return {f"dashboard {name}": [*npm, name] for name in ("typecheck", "lint", "test", "size")}


def tests(python: Path, arguments: list[str]) -> dict[str, list[str]]:
    # Work stealing keeps all workers busy although a few tests take far longer than the others.
    spread = ["-n", str(workers()), "--dist", "worksteal"]
    return {"pytest": [str(python), "-m", "pytest", *spread, *arguments]}


def workers() -> int:
    """One per core this process may use, which in a container can be fewer than the machine has. With more of them
    browsers and servers wait for a core longer than a person would."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores, 8)  # beyond that, starting a worker costs more than it saves


def main(arguments: list[str]) -> int:
    python = environment_or_exit()
    if arguments == ["--lint"]:
        steps = linters(python)
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
