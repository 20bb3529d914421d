"""Bring .venv at the project root in line with the locks: run it as often as you like.

    python3 scripts/bootstrap.py          what the command line, the server and its dashboard need
    python3 scripts/bootstrap.py --dev    what the checks and tests need, too

The first run creates the environment and installs the pinned packages, checked against their hashes, and
then the project itself in editable mode. uv installs them in a fifth of pip's time; where it fails, pip does.
A later run compares one stamp and returns at once. Runs that start at the same time wait for each other, and
one that was interrupted is made good by the next.
"""

import sys

# Before anything else, and in words that an older Python can still parse.
if not (3, 11) <= sys.version_info[:2] < (3, 14):
    sys.exit(
        f"error: Python 3.11, 3.12 or 3.13 is needed, this is {sys.version_info[0]}.{sys.version_info[1]}\n"
        "hint: install one (python.org, your package manager, pyenv) and run this again with it"
    )

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parent.parent

RUN_TIME, DEVELOPMENT, NODE = "requirements.txt", "requirements-dev.txt", "requirements-node.txt"
UV = "requirements-uv.txt"

# Other files that an environment with this lock depends on, and the locks that it contains.
MADE_FROM = {RUN_TIME: ("pyproject.toml",), DEVELOPMENT: (RUN_TIME, "pyproject.toml"), NODE: ()}
CONTAINED = {DEVELOPMENT: (RUN_TIME,)}

# Installed beside a lock, from wherever pip finds it: the CPU and CUDA builds of torch share a version but not
# their hashes. The variable names a package index to take it from instead, e.g. one with CPU builds only.
TORCH = "torch==2.13.0"
UNHASHED_FIRST = {DEVELOPMENT: (TORCH,)}
TORCH_INDEX = "TORCH_INDEX"

# Settings of pip that uv does not read, and the options of uv for them.
INDEX_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
    "cert": "--cert",
}

# Messages of a failing pip and hints for them; the first match is printed.
HINTS = {
    "DO NOT MATCH THE HASHES": "a mirror or proxy serves other files than the lock: check pip's settings",
    "No space left on device": "free some disk space and run this again",
    "No matching distribution": "check the network and pip's settings, then run this again",
    "": "run this again, or read the whole log",
}


class SetupError(Exception):
    """The environment could not be made; `hint` says what to try."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def ensure_environment(root: Path = ROOT, *locks: str) -> Path:
    """Bring `root`/.venv up to date with these locks, the run-time one if none is named; return its Python."""
    wanted = set(locks or (RUN_TIME,))
    venv, python = _places(root)
    if wanted <= _installed(root, venv, python):
        return python

    with exclusive_lock(root / ".bootstrap.lock") as lock:
        if wanted <= _installed(root, venv, python):  # the process that held the lock did the work
            return python
        # The lock file is empty unless a run died on the way. A package that was half copied looks installed
        # to pip, so what such a run left behind is thrown away rather than repaired.
        interrupted = lock.read() != ""
        lock.write("unfinished\n")
        lock.flush()

        if interrupted or _was_moved(venv) or not is_usable(python):
            _create(venv, lock)
        present = _installed(root, venv, python)
        _stamp(venv).unlink(missing_ok=True)
        for name in sorted(wanted - present):
            _install(root, venv, python, name, lock)
            present |= {name, *CONTAINED.get(name, ())}
        _stamp(venv).write_text(_stamp_text(root, venv, present), encoding="utf-8")
        lock.truncate(0)
    _say("environment ready")
    return python


def environment_or_exit(*locks: str) -> Path:
    """`ensure_environment` for scripts: a failure ends the process with a message instead of a traceback."""
    try:
        return ensure_environment(ROOT, *locks)
    except SetupError as error:
        sys.exit(f"error: {error}\nhint: {error.hint}")
    except OSError as error:
        sys.exit(f"error: {error}\nhint: is the project folder complete and writable?")
    except KeyboardInterrupt:
        sys.exit(130)


def asks_for_help(arguments: Iterable[str]) -> bool:
    """Return whether a script's arguments ask for help alone."""
    return not {"-h", "--help"}.isdisjoint(arguments)


def print_help_if_asked(text: str | None) -> None:
    """Print a script's docstring and end the process if its arguments ask for help; nothing is set up for that."""
    if asks_for_help(sys.argv[1:]):
        print((text or "").strip())
        sys.exit(0)


def hand_over(*arguments: str) -> NoReturn:
    """Become `python -m hybrid_scheduler ARGUMENTS` inside the environment; for help alone none is made."""
    if asks_for_help(arguments) and not _installed(ROOT, *_places(ROOT)):
        print(f"Arguments are those of `hybrid-scheduler {arguments[0]}`; --help lists them after the set-up.")
        sys.exit(0)
    command = [str(environment_or_exit()), "-m", "hybrid_scheduler", *arguments]
    if os.name == "nt":  # exec on Windows gives the prompt back while the program still runs
        sys.exit(subprocess.call(command))
    os.execv(command[0], command)


def _places(root: Path) -> tuple[Path, Path]:
    """Return the folder of the environment and its Python."""
    venv = root / ".venv"
    return venv, venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _stamp(venv: Path) -> Path:
    return venv / ".lock-stamp"


def _stamp_text(root: Path, venv: Path, locks: Iterable[str]) -> str:
    """The environment's place, and each lock that it holds with a digest of all that it was made from."""
    return "\n".join([str(venv), *(_stamp_line(root, venv, name) for name in sorted(locks))]) + "\n"


def _stamp_line(root: Path, venv: Path, lock: str) -> str:
    digest = hashlib.sha256()
    # pyvenv.cfg names the Python and version that the environment was made from.
    for path in (root / lock, *(root / name for name in MADE_FROM[lock]), venv / "pyvenv.cfg"):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{lock} {digest.hexdigest()}"


def _installed(root: Path, venv: Path, python: Path) -> set[str]:
    """The locks that the environment holds as they are now."""
    try:
        place, *lines = _stamp(venv).read_text(encoding="utf-8").splitlines()
        if place != str(venv) or not python.exists():
            return set()
        return {name for name in MADE_FROM if _stamp_line(root, venv, name) in lines}
    except (FileNotFoundError, ValueError):
        return set()


def _was_moved(venv: Path) -> bool:
    """Installed scripts name their Python by absolute path, so they do not survive a move of the folder."""
    stamp = _stamp(venv)
    return stamp.exists() and stamp.read_text(encoding="utf-8").splitlines()[:1] != [str(venv)]


def is_usable(python: Path) -> bool:
    """Whether this Python starts (its base may be gone), is a supported one and has pip."""
    probe = "import sys, pip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))"
    try:
        return subprocess.call([python, "-I", "-c", probe], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def _create(venv: Path, lock: IO[str]) -> None:
    for module in ("venv", "ensurepip"):
        if find_spec(module) is None:
            hint = "on Debian and Ubuntu: apt install python3-venv; elsewhere: use the Python of python.org"
            raise SetupError(f"this Python comes without {module}", hint)
    if venv.exists():
        _say("removing .venv: it is unfinished, was moved or has no usable Python")
        try:
            shutil.rmtree(venv)
        except OSError as error:
            raise SetupError(f"cannot remove .venv: {error}", "end the programs that use it") from error
    _say("creating .venv")
    venv.mkdir()
    # The base interpreter: this script may itself run in the .venv that was just removed.
    base = getattr(sys, "_base_executable", sys.executable)
    run_step(venv, lock, base, "-m", "venv", str(venv))


def _install(root: Path, venv: Path, python: Path, name: str, lock: IO[str]) -> None:
    files = [root / name, *(root / other for other in CONTAINED.get(name, ()))]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    pins = len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
    what = "Node (60 MB)" if name == NODE else f"{pins} pinned packages (first run: two or three minutes)"
    _say(f"installing {what}")
    # -I: what PYTHONPATH or the current folder holds must not shadow what is installed.
    # --no-compile: Python compiles what is imported, which is a small part of what these packages hold.
    pip = (str(python), "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-compile")
    index = os.environ.get(TORCH_INDEX)
    unhashed = [(*(("--index-url", index) if index else ()), pin) for pin in UNHASHED_FIRST.get(name, ())]
    if name == NODE:
        run_step(venv, lock, *pip, "--require-hashes", "-r", str(root / name))
        return
    # A lock names every package, so none has to be looked up, and torch can be installed beside the others.
    own = venv / name
    own.write_text(re.sub(r"(?m)^-r .*$", "", files[0].read_text(encoding="utf-8")), encoding="utf-8")
    with ThreadPoolExecutor(1) as beside:
        rest = beside.submit(_install_locked, root, venv, python, pip, [own, *files[1:]], lock)
        for words in unhashed:
            run_step(venv, lock, *pip, "--no-deps", *words, log_name="bootstrap-torch.log")
        rest.result()
    for words in unhashed:  # what they need beyond the lock
        run_step(venv, lock, *pip, *words)
    run_step(venv, lock, *pip, "--no-deps", "--no-build-isolation", "-e", str(root))


def _install_locked(
    root: Path, venv: Path, python: Path, pip: tuple[str, ...], files: list[Path], lock: IO[str]
) -> None:
    """Install the packages of locks by uv, or by pip where uv has no build or does not get through to an index."""
    locked = ("--no-deps", "--require-hashes", *(word for file in files for word in ("-r", str(file))))
    try:
        run_step(venv, lock, *pip, "--no-deps", "--require-hashes", "-r", str(root / UV))
        uv = (str(python.with_name("uv")), "pip", "install", "--no-progress", "--python", str(python))
        # Packages of one name may be in several indexes: the hashes say which file is meant.
        run_step(venv, lock, *uv, "--index-strategy", "unsafe-best-match", *index_options(python), *locked)
    except SetupError:
        run_step(venv, lock, *pip, *locked)


def index_options(python: Path) -> list[str]:
    """Return the package indexes of pip's settings as options of uv."""
    command = [str(python), "-I", "-m", "pip", "config", "list"]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
    found: dict[str, list[str]] = {}
    for section in ("global.", "install.", ":env:."):  # the later ones overrule
        for line in lines:
            key, _, value = line.removeprefix(section).partition("=")
            if line.startswith(section) and key in INDEX_OPTIONS:
                found[key] = value.strip("'\"").replace("\\n", " ").split()
    return [word for key, values in found.items() for value in values for word in (INDEX_OPTIONS[key], value)]


def run_step(venv: Path, lock: IO[str], *command: str, log_name: str = "bootstrap.log") -> None:
    """Run one step with its output in the log; if it fails, the end of that output is the message."""
    path = venv / log_name
    with path.open("a+", encoding="utf-8", errors="replace") as log:
        start = log.tell()
        print("$", *command, file=log, flush=True)
        # The child holds the lock too: if this process is killed, the next one waits until pip has ended.
        shared = () if os.name == "nt" else (lock.fileno(),)
        code = subprocess.call(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, pass_fds=shared
        )
        log.seek(start)
        output = log.read()
    if code:
        tail = "\n".join(output.splitlines()[-20:])
        hint = next(hint for words, hint in HINTS.items() if words in output)
        raise SetupError(f"set-up failed; the end of {path}:\n{tail}", hint)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[IO[str]]:
    """Hold `path` for this process alone. The system lets go of it however the process ends."""
    # Neither "w" nor "a": the content tells how the last run ended and is replaced in place.
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+", encoding="utf-8") as file:
        if not try_lock(file):
            _say("another set-up is running: waiting for it")
            while not try_lock(file):
                time.sleep(0.2)
        yield file


if sys.platform == "win32":
    import msvcrt

    def try_lock(file: IO[str]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    environment_or_exit(DEVELOPMENT if "--dev" in sys.argv[1:] else RUN_TIME)
