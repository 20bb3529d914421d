"""`hybrid-scheduler serve` as a process of its own, that may be killed."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

FAST = "round_robin,greedy,oracle"
_PROGRAM = "from hybrid_scheduler.cli import main; main()"


class Served:
    """One process. `url` is where it listens once it is ready."""

    def __init__(self, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        passed_on = ("PATH", "HOME", "NUMBA_CACHE_DIR", "PYTHONPATH")
        inherited = {key: os.environ[key] for key in passed_on if key in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "serve", "--port", "0", *arguments],
            cwd=folder,
            env={**inherited, "HYBRID_SIMULATION__SCHEDULERS": FAST, **(environment or {})},
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
