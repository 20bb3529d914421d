"""Two ways to run the command line: inside this process, and as a program of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import hybrid_scheduler
from hybrid_scheduler.cli.app import app

Run = Callable[..., Result]
Program = Callable[..., subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and an environment that says nothing about colours, widths or settings."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE",
        "ENVIRONMENT", "NUM_GPUS", "MEMORY_PER_GPU", "RETRAIN_INTERVAL", "LOG_LEVEL", "LOG_FILE",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run() -> Run:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, prog_name="hybrid-scheduler")

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make the in-process streams look like a terminal of some width, one without colours."""

    def terminal(width: int) -> None:
        for name, value in {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": str(width), "LINES": "50"}.items():
            monkeypatch.setenv(name, value)

    return terminal


@pytest.fixture
def program() -> Program:
    def program(*arguments: str, **environ: str) -> subprocess.Popen[str]:
        source = str(Path(hybrid_scheduler.__file__).parents[1])
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            [sys.executable, "-m", "hybrid_scheduler", *arguments],
            env={**os.environ, "PYTHONPATH": source, **environ},
            encoding="utf-8",
            **options,
        )

    return program
