"""A program as a process of its own: started, awaited until it says that it is ready, and ended."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from hybrid_scheduler.compiled.code_cache import code_folder

#: The machine code of these sources is on this machine; a home folder of a test has none.
COMPILED = {"NUMBA_CACHE_DIR": str(code_folder().parent)}
#: Rules that need no model: they start at once.
FAST = {"HYBRID_SIMULATION__SCHEDULERS": "round_robin,greedy,oracle"}
_READY = re.compile(r"http://localhost:(\d+)|engine on ")


class Program:
    """`url` is where it listens; the engine alone listens nowhere."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command, cwd=folder, env={**COMPILED, **environment},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.said: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()
        self.url = ""

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.said.append(line)
                if found := _READY.search(line):
                    self.url = f"http://127.0.0.1:{found[1]}" if found[1] else ""
                    self._ready.set()
        self._ready.set()  # it ended: stop waiting for it

    def wait_ready(self) -> None:
        assert self._ready.wait(800), self.said
        assert self.process.poll() is None, self.said

    def client(self, token: str = "", **arguments) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, timeout=60, headers=headers, trust_env=False, **arguments)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code after this signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._reader.join(10)
        return code


@contextmanager
def started(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[Program]:
    program = Program(command, folder, environment)
    try:
        program.wait_ready()
        yield program
    finally:
        program.stop(signal.SIGKILL)


def said(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """What a command that must succeed prints."""
    done = subprocess.run(
        command, cwd=folder, env={**COMPILED, **environment}, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
