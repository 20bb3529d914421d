"""The command line as a program of its own: exit codes, streams, signals and reproducibility."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Program = Callable[..., Any]


def test_piped_output_is_plain(program: Program) -> None:
    process = program("simulate", "--tasks", "50", TERM="xterm-256color")
    output, talk = process.communicate(timeout=120)
    assert process.returncode == 0, talk
    assert "\x1b" not in output + talk
    assert "Per-task best" in output


def test_bad_input_exits_with_2(program: Program) -> None:
    process = program("simulate", "--tasks", "none")
    output, talk = process.communicate(timeout=120)
    assert (process.returncode, output) == (2, "")
    assert talk.startswith("error: --tasks: must be ")


def test_output_does_not_depend_on_the_environment(program: Program) -> None:
    arguments = ("simulate", "--json", "--tasks", "300", "--scenario", "bursty", "--noise", "0.2")
    runs = [
        program(*arguments, PYTHONHASHSEED="1", TZ="Asia/Tokyo", NUMBA_NUM_THREADS="1", LC_ALL="C"),
        program(*arguments, PYTHONHASHSEED="2", TZ="America/Lima", NUMBA_NUM_THREADS="2", LC_ALL="C.UTF-8"),
    ]
    first, second = (process.communicate(timeout=120)[0] for process in runs)
    assert first == second
    assert json.loads(first)["tasks"] == 300


def test_missing_glyphs_are_replaced(program: Program) -> None:
    process = program("simulate", "--tasks", "20", "--schedulers", "oracle", PYTHONIOENCODING="ascii")
    output, talk = process.communicate(timeout=120)
    assert process.returncode == 0, talk
    assert "? Per-task best" in output


def test_interrupt_inside_executed_text_exits_with_130(program: Program) -> None:
    Path("interrupted.py").write_text("exec('raise KeyboardInterrupt')", encoding="utf-8")
    process = program("simulate", "--plugin", "interrupted.py")
    output, talk = process.communicate(timeout=60)
    assert (process.returncode, output, talk) == (130, "", "interrupted: nothing was written\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for a single child there")
def test_ctrl_c_writes_nothing(program: Program) -> None:
    process = program(
        "simulate", "--log-level", "info", "--json", "--out", "results/new",
        "--scenario", "mixed", "--tasks", "200000", "--schedulers", "shortest_first",
    )  # fmt: skip
    assert process.stderr.readline() == "info: simulating 200000 tasks with shortest_first\n"
    process.send_signal(signal.SIGINT)
    output, talk = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output == ""
    assert talk == "interrupted: nothing was written\n"
    assert not list(Path().iterdir())
