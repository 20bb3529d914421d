"""Schedulers in files of their own, named on the command line or in the environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.schedulers import registry, schedulers, unregister

MINE = """
from hybrid_scheduler import Decision, Online, register


@register("last_gpu", label="Last GPU")
class LastGpu(Online):
    \"""Always the last accelerator.\"""

    def decide(self, task, view):
        return Decision(int(view.platform.accelerators[-1]), 1.0)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE, encoding="utf-8")
    return path


def test_files_of_the_environment_are_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.PLUGIN_VARIABLE, f"{file}{os.pathsep}")
    registry.run_plugin_files()
    try:
        assert schedulers()["last_gpu"].label == "Last GPU"
    finally:
        unregister("last_gpu")


def test_second_plugin_file_is_appended(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(registry.PLUGIN_VARIABLE, raising=False)
    registry.add_plugin_file(file)
    registry.add_plugin_file(file)
    assert os.environ[registry.PLUGIN_VARIABLE] == os.pathsep.join([str(file)] * 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "plug-in mine.py: must be a Python file that can be imported, got 'ZeroDivisionError"),
        ("def (", "SyntaxError"),
        ("from hybrid_scheduler import register\nregister('greedy')(int)", "scheduler name: must be unique"),
    ],
)
def test_a_broken_file_is_named(text: str, message: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv(registry.PLUGIN_VARIABLE, str(file))
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        registry.run_plugin_files()


def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="--plugin: must be a Python file that exists"):
        registry.add_plugin_file(tmp_path / "none.py")
    monkeypatch.setenv(registry.PLUGIN_VARIABLE, str(tmp_path / "none.py"))
    with pytest.raises(InvalidInputError, match="SCHEDULER_PLUGINS"):
        registry.run_plugin_files()
    monkeypatch.setenv(registry.PLUGIN_VARIABLE, str(tmp_path))
    with pytest.raises(InvalidInputError, match="SCHEDULER_PLUGINS"):
        registry.run_plugin_files()


def test_comparison_in_several_processes_knows_a_plugin(file: Path) -> None:
    """Given after the command; the processes that do the work inherit it."""
    words = [sys.executable, "-m", "hybrid_scheduler", "compare", "--plugin", str(file)]
    words += ["--schedulers", "greedy,last_gpu", "--seeds", "3", "--tasks", "60", "--processes", "2", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, cwd=file.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert "last_gpu" in json.loads(done.stdout)["schedulers"]
