"""`hybrid-scheduler serve` as a process of its own, that may be killed."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

FAST = "round_robin,greedy,oracle"
_PROGRAM = "from hybrid_scheduler.cli import main; main()"

# One fork per start: every start needs the same modules, and importing them takes far longer than failing.
_FORKING_PROGRAM = """
import json, os, sys
import hybrid_scheduler.server.server_process
from hybrid_scheduler.cli import main

for number, (arguments, environment) in enumerate(json.load(sys.stdin)):
    if not os.fork():
        os.mkdir(str(number))
        os.chdir(str(number))
        for stream, name in ((1, "output"), (2, "errors")):
            os.dup2(os.open(f"../{name}{number}", os.O_WRONLY | os.O_CREAT, 0o600), stream)
        os.environ.update(environment)
        sys.argv = ["hybrid-scheduler", "serve", "--port", "0", *arguments]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def base_environment() -> dict[str, str]:
    """Return what a server of the tests inherits, and schedulers that load no models."""
    passed_on = ("PATH", "HOME", "NUMBA_CACHE_DIR", "PYTHONPATH", "HYBRID_SERVER__WARM_WHATIF")
    inherited = {key: os.environ[key] for key in passed_on if key in os.environ}
    return {**inherited, "HYBRID_SIMULATION__SCHEDULERS": FAST}


class FailedStart(NamedTuple):
    """The exit code, output and errors of a server that did not start."""

    code: int
    output: str
    errors: str


def failed_starts(folder: Path, starts: Sequence[tuple[Sequence[str], dict[str, str]]]) -> list[FailedStart]:
    """Start a server with each of these arguments and environments; each must end by itself."""
    done = subprocess.run(
        [sys.executable, "-c", _FORKING_PROGRAM],
        cwd=folder, env=base_environment(), input=json.dumps(starts), capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [
        FailedStart(int(code), *((folder / f"{name}{number}").read_text() for name in ("output", "errors")))
        for number, code in enumerate(done.stdout.split())
    ]


class Served:
    """One process. `url` is where it listens once it is ready."""

    def __init__(self, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "serve", "--port", "0", *arguments],
            cwd=folder,
            env={**base_environment(), **(environment or {})},
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

    def wait_ready(self, seconds: float = 120.0) -> str:
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
