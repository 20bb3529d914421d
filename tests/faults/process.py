"""`hybrid-scheduler serve` as a process of its own, that may be killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import httpx

FAST = "round_robin,greedy,oracle"
_PROGRAM = "from hybrid_scheduler.cli import main; main()"

# A start is a fork of a process that has imported everything: importing takes far longer than what is tested.
# Between the two is a process that waits for the server and reports its exit code.
_FORK_SERVER = """
import gc, json, os, signal, socket, sys
import aiosqlite, asyncpg
import hybrid_scheduler.server.server_process
from hybrid_scheduler import LiveConfig
from hybrid_scheduler.cli import main
from hybrid_scheduler.server.compiling import compile_live_code
from hybrid_scheduler.storage import SqlJournal, schema_version

compile_live_code(LiveConfig(schedulers=sys.argv[1].split(",")))
gc.collect()
gc.freeze()  # no server looks through the libraries again
requests = socket.socket(fileno=0)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the tests and their servers
while True:
    message, files, _, _ = socket.recv_fds(requests, 2**16, 3)
    if not message:
        break
    if os.fork():
        for file in files:
            os.close(file)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *output, status = files
    server = os.fork()
    if server:
        for file in output:
            os.close(file)
        os.write(status, f"{server}\\n".encode())
        os.write(status, f"{os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])}\\n".encode())
        os._exit(0)
    os.close(status)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, arguments, environment = json.loads(message)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # in place of the connection
    for number, file in enumerate(output, 1):
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w", buffering=1)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["hybrid-scheduler", *arguments]
    sys.exit(main())
"""


def base_environment() -> dict[str, str]:
    """Return what a server of the tests inherits, and schedulers that load no models."""
    passed_on = ("PATH", "HOME", "NUMBA_CACHE_DIR", "PYTHONPATH", "HYBRID_SERVER__WARM_WHATIF")
    inherited = {key: os.environ[key] for key in passed_on if key in os.environ}
    return {**inherited, "HYBRID_SIMULATION__SCHEDULERS": FAST}


@cache
def _fork_server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The connection and the process, one for all tests; the process ends with the connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-c", _FORK_SERVER, FAST]
    with theirs:
        return ours, subprocess.Popen(command, stdin=theirs.fileno(), env=base_environment())


class ForkedProcess:
    """A server that the fork server started, with as much of `subprocess.Popen` as tests need."""

    def __init__(self, folder: Path, arguments: Sequence[str], environment: dict[str, str]) -> None:
        pipes = [os.pipe() for _ in range(3)]
        message = json.dumps([str(folder), arguments, environment]).encode()
        socket.send_fds(_fork_server()[0], [message], [write for _, write in pipes])
        for _, write in pipes:
            os.close(write)
        self.stdout, self.stderr, self._status = (os.fdopen(read, encoding="utf-8") for read, _ in pipes)
        self.pid = int(self._status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("serve", timeout or 0.0)
            with self._status:
                self.returncode = int(self._status.readline())
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended since
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class FailedStart(NamedTuple):
    """The exit code, output and errors of a server that did not start."""

    code: int
    output: str
    errors: str


def failed_starts(folder: Path, starts: Sequence[tuple[Sequence[str], dict[str, str]]]) -> list[FailedStart]:
    """Start a server with each of these arguments and environments; each must end by itself."""
    failed = []
    for number, (arguments, environment) in enumerate(starts):
        with served(folder / str(number), *arguments, environment=environment, ready=False) as server:
            code = server.wait(240)
            failed.append(FailedStart(code, "\n".join(server.output), "\n".join(server.errors)))
    return failed


class Served:
    """One process. `url` is where it listens once it is ready."""

    def __init__(self, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        words = ("serve", "--port", "0", *arguments)
        variables = {**base_environment(), **(environment or {})}
        self.process: ForkedProcess | subprocess.Popen[str]
        if (environment is None or "PYTHONPATH" not in environment) and "--plugin" not in arguments:
            self.process = ForkedProcess(folder, words, variables)
        else:  # other packages or plug-ins than those that the fork server has imported
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *words],
                cwd=folder,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.output: list[str] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.output, self.lines)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.errors, None)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, collected: list[str], lines: queue.Queue[str | None] | None) -> None:
        with stream:
            for line in stream:
                collected.append(line.rstrip())
                if lines is not None:
                    lines.put(line)
        if lines is not None:
            lines.put(None)

    def wait_ready(self, seconds: float = 280.0) -> str:
        line = self.lines.get(timeout=seconds)
        assert line is not None, self.errors
        found = re.search(r"http://localhost:(\d+)", line)
        self.port = int(found[1]) if found else 0
        self.url = f"http://127.0.0.1:{self.port}"
        return self.url

    def client(self, **arguments) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **arguments)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        return self._end(number)

    def _end(self, number: signal.Signals) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds: float = 60.0) -> int:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        for reader in self._readers:
            reader.join(10)
        return code


@contextmanager
def served(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None, ready: bool = True
) -> Iterator[Served]:
    process = Served(folder, *arguments, environment=environment)
    try:
        if ready:
            process.wait_ready()
        yield process
    finally:
        process.kill()
