"""Build the dashboard if its sources changed since the last build.

    python3 scripts/build_dashboard.py

Needs Node 20.19 or newer with npm. Where it is missing, the server still runs: it then answers programs, and tells
browsers what to install.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bootstrap import ROOT

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
    npm = _npm()
    print("building the dashboard (first run: about a minute)", file=sys.stderr, flush=True)
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    installed = folder / "node_modules" / ".stamp"
    if not installed.is_file() or installed.read_text(encoding="utf-8") != lock:
        # Not `ci`: it insists on the binaries of every platform, and a lock written here may know only some.
        _run(folder, npm, "install", "--no-save", "--no-audit", "--no-fund")
        installed.write_text(lock, encoding="utf-8")
    _run(folder, npm, "run", "build")
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
        yield from sorted(path for path in (folder / name).rglob("*") if path.is_file())


def _npm() -> str:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NoDashboardError("Node is not installed, so the dashboard cannot be built", INSTALL_HINT)
    found = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST_NODE:
        raise NoDashboardError(f"Node {found} is too old to build the dashboard", INSTALL_HINT)
    return npm


def _run(folder: Path, *command: str) -> None:
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
    try:
        print(ensure_dashboard())
    except NoDashboardError as error:
        sys.exit(f"error: {error}\nhint: {error.hint}")
    except KeyboardInterrupt:
        sys.exit(130)
