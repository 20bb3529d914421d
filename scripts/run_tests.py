"""Checks and tests in the project's own environment, which is set up first if necessary.

    python3 scripts/run_tests.py                      the linters, the dashboard's checks, then all tests
    python3 scripts/run_tests.py --lint               the linters alone
    python3 scripts/run_tests.py --coverage           all tests, and their coverage of the package
    python3 scripts/run_tests.py --faults             the campaign of injected faults, about 25 minutes
    python3 scripts/run_tests.py tests/golden -k x    pytest alone, with these arguments

The dashboard is built while packages are installed, the simulator compiled while the quick linters run; a failure
of these ends the script. mypy, the dashboard's checks and tests that only compute run beside the other tests, at
low priority, because tests of servers and browsers leave the cores idle while they wait. The exit code is that of
the first step that failed.
Coverage is measured only on request: tracing makes the tests about a quarter slower.
`.venv/bin/python -m pytest --help` lists the options of pytest.
"""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from bootstrap import DEVELOPMENT, ROOT, environment_or_exit, print_help_if_asked
from build_dashboard import NoDashboardError, ensure_dashboard, provide_npm

#: Arguments of pytest-cov; what is measured is configured in pyproject.toml.
COVERAGE = ["--cov", "--cov-report=term:skip-covered"]


#: Whole workloads, tasks one by one as in a live run, an objective, and training: each has loops of its own. The
#: compiler allocates much that lives long, and looking through it again and again took a fifth of the time.
#: The libraries of the server are compiled to bytecode, because images in the tests do not write theirs.
COMPILE = """
import gc
gc.set_threshold(200_000, 50, 50)
import hybrid_scheduler.server.server_process
from hybrid_scheduler import LiveConfig, Objective, compare
from hybrid_scheduler.server.compiling import compile_live_code
from hybrid_scheduler.schedulers import schedulers
from hybrid_scheduler.workload.scenarios import generate, scenario_named
tasks = generate(scenario_named("default"), 120, 1)
late = "hybrid_ml(binding=late)"
compare(tasks, (*schedulers(), late))
compile_live_code(LiveConfig())
compare(tasks, ("oracle", late), objective=Objective(0.5, 0.5))
"""

#: Tests that start no server and await no event, so that low priority does not disturb them. Those that need no
#: compiled code come first: the simulator is still being compiled when they begin.
COMPUTING = [
    f"tests/{name}"
    for name in (
        "workload", "core", "profiling", "scripts", "test_language.py", "test_public_api.py", "test_docs.py",
        "reports", "metrics", "cluster", "schedulers", "contract/test_schedulers.py", "learning", "notebooks",
    )
]  # fmt: skip

Steps = dict[str, list[str]]


def quick_linters(python: Path) -> Steps:
    """Return the commands of the linters that take seconds, by name."""
    ruff = [str(python), "-m", "ruff"]
    return {
        "ruff check": [*ruff, "check", "."],
        "ruff format": [*ruff, "format", "--check", "."],
        "import contracts": [str(python.with_name("lint-imports")), "--no-logo"],
    }


def type_checks(python: Path) -> Steps:
    """Return the command of mypy."""
    # A clean clone has no use for a cache, and writing it takes a tenth of the time.
    cache = ["--cache-dir", os.devnull] if os.environ.get("CI") else []
    return {"mypy": [str(python), "-m", "mypy", *cache]}


def dashboard() -> Steps:
    """Build the dashboard and return its checks; without Node there are none, except in CI, where that is an error.

    Afterwards Node is on the PATH: some tests call it, too.
    """
    try:
        npm = [provide_npm(), "--prefix", "dashboard", "run", "--silent"]
        ensure_dashboard()
    except NoDashboardError as error:
        if os.environ.get("CI"):
            sys.exit(f"error: {error}\nhint: {error.hint}")
        print(f"==> dashboard skipped: {error}", flush=True)
        return {}
    return {f"dashboard {name}": [*npm, name] for name in ("typecheck", "lint", "test", "size")}


def compilation(python: Path) -> list[str]:
    """Return the command that compiles the simulator, so that workers and programs of the tests need not.

    One process for all of it: what several loops have in common is compiled once.
    """
    return [str(python), "-c", COMPILE]


def tests(python: Path, arguments: list[str]) -> Steps:
    """Return the command of pytest, on all cores."""
    # Work stealing keeps all workers busy although a few tests take far longer than the others.
    spread = ["-n", str(workers()), "--dist", "worksteal"]
    return {"pytest": [str(python), "-m", "pytest", *spread, *arguments]}


def tests_in_two_parts(python: Path) -> tuple[Steps, Steps]:
    """Return the commands of the tests with servers and browsers, and of those that only compute."""
    # In one process: two would reach the compiled code before it is there, and each compile it.
    computing = {"pytest, computing": [str(python), "-m", "pytest", "-q", "--no-header", *COMPUTING]}
    return tests(python, [f"--ignore={part}" for part in COMPUTING]), computing


def workers() -> int:
    """Return one worker per core that this process may use; with more, browsers and servers wait too long."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores, 8)  # beyond that, starting a worker costs more than it saves


def run(steps: Steps) -> int:
    """Run steps in order and return the exit code of the first that fails, else 0."""
    for name, command in steps.items():
        print(f"==> {name}", flush=True)
        code = subprocess.call(command, cwd=ROOT)
        if code:
            return _failed(name, code)
    return 0


Done = Future[subprocess.CompletedProcess[str]]


def run_everything() -> int:
    """Set up, then run the linters, the dashboard's checks and the tests; return the first exit code but 0."""
    polite = ["nice"] if shutil.which("nice") else []
    with ThreadPoolExecutor(1) as builder, ThreadPoolExecutor(1) as compiler, ThreadPoolExecutor(1) as background:
        of_dashboard = builder.submit(dashboard)
        python = environment_or_exit(DEVELOPMENT)
        compiling = compiler.submit(_quietly, compilation(python))
        first = run(quick_linters(python))
        if first:
            return first
        serving, computing = tests_in_two_parts(python)
        checks = {name: background.submit(_quietly, polite + line) for name, line in type_checks(python).items()}
        for name, line in (of_dashboard.result() | computing).items():
            checks[name] = background.submit(_quietly, polite + line)
        first = _result("compilation", compiling) or run(serving)
        for name, check in checks.items():
            code = _result(name, check)
            first = first or code
    return first


def _quietly(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _result(name: str, check: Done) -> int:
    """Wait for a step of the background and return its exit code; the output of a failed one is printed."""
    done = check.result()
    if done.returncode:
        print(done.stdout, flush=True)
        return _failed(name, done.returncode)
    # The last line of pytest counts its tests.
    count = f": {done.stdout.splitlines()[-1]}" if name.startswith("pytest") else ""
    print(f"==> {name} passed{count}", flush=True)
    return 0


def _failed(name: str, code: int) -> int:
    print(f"==> {name} failed (exit {code})", flush=True)
    return code if code > 0 else 128 - code  # a signal's number, as a shell reports it


def main(arguments: list[str]) -> int:
    """Run the steps that the arguments choose."""
    began = time.monotonic()
    if not arguments:
        code = run_everything()
    else:
        python = environment_or_exit(DEVELOPMENT)
        if arguments[0] == "--faults":
            code = run({"faults": [str(python), "scripts/fault_campaign.py", *arguments[1:]]})
        elif arguments == ["--lint"]:
            code = run(quick_linters(python) | type_checks(python))
        else:
            dashboard()
            if arguments[0] == "--coverage":
                arguments = [*COVERAGE, *arguments[1:]]
            code = run(tests(python, arguments))
    if not code:
        print(f"==> all passed in {time.monotonic() - began:.0f} s", flush=True)
    return code


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    # Hundreds of programs that the tests start would each compile their libraries again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
