"""Files and commands of the README: each runs as it is written there.

The two set-up commands are not executed here; a test checks that their scripts exist.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "faults")]

from process import served  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAM = "hybrid-scheduler"


def block(kind: str, after: str) -> str:
    """The first block of code of this kind after these words."""
    found = re.search(rf"{re.escape(after)}.*?^```{kind}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found, after
    return found[1]


def commands(name: str) -> list[list[str]]:
    """The README's calls of a command, as words, without comments."""
    return [
        shlex.split(line, comments=True)[1:] for line in README.splitlines() if line.startswith(f"{PROGRAM} {name}")
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds the README's examples, as a clone does."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def run(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hybrid_scheduler", *words],
        cwd=folder, capture_output=True, text=True, timeout=280, check=False, env={**os.environ, "COLUMNS": "160"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_setup_scripts_are_executable() -> None:
    for script in re.findall(r"^\./(\S+)", block("sh", "## Start"), re.MULTILINE):
        assert os.access(ROOT / script, os.X_OK), script


def test_own_tasks_are_simulated(folder: Path) -> None:
    (words,) = commands("simulate")
    said = run(words, folder)
    assert "9 tasks" in said
    assert "lower bound" in said


@pytest.mark.slow
def test_own_scheduler_is_compared(folder: Path) -> None:
    (words,) = commands("compare")
    assert "mine" in run(words, folder)


@pytest.mark.slow
def test_report_is_written(folder: Path) -> None:
    (words,) = commands("report")
    run(words, folder)
    document = (folder / "report.pdf").read_bytes()
    assert document.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", document)) >= 3


def test_own_scheduler_is_served(folder: Path) -> None:
    (words,) = commands("serve")
    environment = {"HYBRID_SIMULATION__SCHEDULERS": ""}  # the README's own choice counts
    with served(folder, *words[1:], environment=environment) as server, server.client() as client:
        status = client.get("/api/status").json()
        assert status["schedulers"] == ["greedy", "mine", "oracle"]
        assert status["scenario"] == "rush-hour"
        known = {one["name"]: one["label"] for one in client.get("/api/schedulers").json()}
        assert known["mine"] == "Mine"


def test_claims_name_commands_that_exist() -> None:
    for module in re.findall(r"python -m (studies\.[\w.]+)", README):
        assert (ROOT / Path(*module.split("."))).with_suffix(".py").is_file(), module
    for script in re.findall(r"python (scripts/\w+\.py)", README):
        assert (ROOT / script).is_file(), script
