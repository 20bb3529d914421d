"""Programs of these tests: a fake GPU, a folder of their own for sockets, and nothing of the user's."""

import os
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Environment of programs; helpers end half a second after their last program."""
    monkeypatch.chdir(tmp_path)
    run = tempfile.mkdtemp()  # paths of sockets must be short
    values = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    yield values | {
        "HYBRID_SCHEDULER_BACKEND": "fake",
        "HYBRID_SCHEDULER_CACHE": str(tmp_path / "cache"),
        "HYBRID_SCHEDULER_HELPER_IDLE": "0.5",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(SOURCE),
        "XDG_RUNTIME_DIR": run,
    }
    shutil.rmtree(run)


@pytest.fixture
def helper(environment, monkeypatch):
    """Let calls of this process go to a helper; the fixture ends it."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ended: list[int] = []
    yield ended
    for pid in filter(None, ended):  # 0 would be this process
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def has_ended():
    """Return a function that waits until a process has ended."""

    def ended(pid, seconds=30.0):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
            except FileNotFoundError:
                return True
            if state == "Z":
                return True
            time.sleep(0.01)
        return False

    return ended
