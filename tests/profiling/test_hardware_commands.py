"""The commands `calibrate` and `execute`: output, files and bad input."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from hybrid_scheduler.cli.app import Program
from hybrid_scheduler.cli.compare import compare
from hybrid_scheduler.cli.execute import execute
from hybrid_scheduler.cli.profile import calibrate
from hybrid_scheduler.profiling import machine_info, profile_named

TINY = ["--sizes", "16,48", "--tasks", "6", "--kernels", "sort,matmul"]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)
    app = typer.Typer(cls=Program, add_completion=False)
    app.command()(calibrate)
    app.command()(compare)
    app.command()(execute)

    @app.callback()
    def shared() -> None:
        """Make it a program with commands."""

    def run(*words: str) -> int:
        code: int = app(list(words), standalone_mode=False)
        return code

    return run


def test_calibrate_prints_a_table(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("calibrate", "starpu_mirage") == 0
    out = capsys.readouterr().out
    assert "chol_potrf" in out
    assert "kernels within 15%" in out


def test_calibration_is_printed_as_json(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("calibrate", "starpu_sirocco", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) >= {"machine", "median_error_by_kind", "held_out", "physics"}


def test_calibrate_reads_starpu_models(program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(Path(__file__).parent / "starpu")
    assert program("calibrate", "--starpu", folder, "--machine", "mirage", "--out", "m.json") == 0
    assert program("calibrate", "m.json") == 0
    assert program("calibrate", "--starpu", folder) == 2
    assert program("calibrate", "m.json", "--starpu", folder, "--machine", "mirage") == 2
    assert "left out when --starpu" in capsys.readouterr().err


def test_calibrate_without_a_profile_is_refused(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("calibrate") == 2
    err = capsys.readouterr().err
    assert "was not profiled yet" in err
    assert "h200" in err


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": "other"}', '{"format": "hybrid-scheduler hardware profile", "version": 0}']
)
def test_calibrate_refuses_bad_profiles(
    program: Any, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.json").write_text(text, encoding="utf-8")
    assert program("calibrate", "p.json") == 2
    assert capsys.readouterr().err.startswith("error: p.json")


def test_execute_prints_a_table_and_writes_files(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program("execute", *TINY, "--scheduler", "greedy,cpu_only", "--out", "real") == 0
    out = capsys.readouterr().out
    assert "always cpu_wide" in out
    assert "measured" in out
    document = json.loads((tmp_path / "real" / "execution.json").read_text(encoding="utf-8"))
    assert document["source"] == "measured"
    assert len((tmp_path / "real" / "tasks.csv").read_text(encoding="utf-8").splitlines()) == 13


def test_execute_compares_as_json(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert program("execute", *TINY, "--scheduler", "min_completion", "--batch", "--compare", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["mode"] == "batch"
    assert document["compare"]["min_completion"]["simulated_makespan_seconds"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scheduler", "unknown"], "scheduler: must be one of"),
        (["--scheduler", "oracle"], "before a task has run"),
        (["--scheduler", "heft"], "an online scheduler"),
        (["--scheduler", ","], "at least one name"),
        (["--kernels", "sorting"], "kernel: must be one of"),
        (["--mix", "sorting"], "--mix: must be left out with --kernels"),
        (["--sizes", "64"], "two whole numbers"),
        (["--sizes", "64,32"], "a range from 16"),
        (["--tasks", "0"], "tasks: must be"),
        (["--learn", "-1"], "--learn"),
        (["--device", "cuda"], "--device: must be auto, cpu or an accelerator of this machine"),
        (["--backend", "slurm"], "one of local, ray"),
        (["--profile", "h200"], "of this machine"),
        (["--profile", "missing.json"], "a file that exists"),
        (["--timeout", "0"], "timeout"),
    ],
)
def test_execute_refuses_bad_options(
    program: Any,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("hybrid_scheduler.profiling.machine_info.gpu_count", lambda: 0)
    assert program("execute", *TINY, *words) == 2
    assert message in capsys.readouterr().err


def _cpu_only_words() -> list[str]:
    return [*TINY, "--profile", "cpu_only", "--scheduler", "min_completion", "--kernels", "sort"]


@pytest.fixture
def other_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have a processor that no profile was made on."""
    machine = replace(machine_info.describe_machine(), cpu="Unknown CPU 9000")
    monkeypatch.setattr(machine_info, "describe_machine", lambda _gpu: machine)


@pytest.mark.usefixtures("other_cpu")
def test_profile_of_another_cpu_is_refused_unless_asked_for(
    program: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program("execute", *_cpu_only_words()) == 2
    assert "profile: must be of this machine" in capsys.readouterr().err


@pytest.mark.usefixtures("other_cpu")
def test_profile_of_another_cpu_is_used_with_one_warning_line_when_asked_for(
    program: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program("execute", *_cpu_only_words(), "--other-machine") == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning:")]
    assert len(warned) == 1
    assert "the profile is of another machine" in warned[0]


def test_profile_of_this_machine_is_used_without_a_warning(
    program: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = profile_named("cpu_only").machine
    monkeypatch.setattr(machine_info, "describe_machine", lambda _gpu: machine)
    assert program("execute", *_cpu_only_words()) == 0
    assert "warning" not in capsys.readouterr().err


def test_execute_stores_what_it_executes_and_simulates(
    program: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--tasks", "6", "--schedulers", "min_completion", "--json", "--store", "--out", "real"]
    assert program("execute", "--compare", "--batch", *words) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["mode"], document["tasks"]) == ("batch", 6)
    compared = document["compare"]["min_completion"]
    with sqlite3.connect(tmp_path / "data" / "hybrid_scheduler.db") as database:
        ((run_id, source, tasks, config),) = database.execute("SELECT run_id, source, tasks, config FROM runs")
    database.close()
    assert (run_id, source, tasks) == (document["run_id"], "measured", 6)
    assert json.loads(config)["compare"]["min_completion"]["error"] == compared["error"]


@pytest.mark.parametrize("option", ["--real", "--store"])
def test_former_options_of_compare_name_the_command(
    program: Any, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program("compare", option) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error == f"error: {option}: must be left out: it has moved, got True"
    assert hint.startswith("hint: hybrid-scheduler execute --compare --batch")
