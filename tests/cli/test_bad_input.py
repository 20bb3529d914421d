"""Every mistake gets one line, a hint where there is one, and exit code 2."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


SERIAL = (
    "error: physics: must be one whose two parts run at once on a cluster, got 'serial'",
    "hint: serial physics is for isolated studies only",
)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ("simulte", ("error: no such command 'simulte'", "hint: did you mean 'simulate'?")),
        ("bogus", ("error: no such command 'bogus'", "hint: see hybrid-scheduler --help")),
        ("simulate --sede 3", ("error: no such option: --sede", "hint: did you mean '--seed'?")),
        ("--quit simulate", ("error: no such option: --quit", "hint: did you mean '--quiet'?")),
        ("simulate --tasks", ("error: option '--tasks' requires an argument",)),
        (
            "simulate extra",
            ("error: got unexpected extra argument(s) (extra)", "hint: see hybrid-scheduler simulate --help"),
        ),
        ("serve --speed 100000", ("error: --speed: must be a number from 0.01 to 10000, got '100000'",)),
        ("serve --port none", ("error: --port: must be a port from 0 to 65535, 0 for any free one, got 'none'",)),
        ("simulate --tasks 0", ("error: --tasks: must be a whole number from 1 to 1000000000, got '0'",)),
        (
            "simulate --tasks x --noise -1 --utilisation nan",
            (
                "error: --tasks: must be a whole number from 1 to 1000000000, got 'x'",
                "error: --utilisation: must be a finite number > 0, or null, got 'nan'",
                "error: --noise: must be a number from 0 to 10, got '-1'",
            ),
        ),
        (
            "simulate --memory-policy clp",
            (
                "error: --memory-policy: must be one of clip, fail, page, to_cpu, got 'clp'",
                "hint: did you mean 'clip'?",
            ),
        ),
        (
            "simulate --schedulers oracle(grd=3)",
            (
                "error: --schedulers: parameter of scheduler oracle: must be one of grid, got 'grd'",
                "hint: did you mean 'grid'?",
            ),
        ),
        (
            "simulate --schedulers oracle(grid=1)",
            ("error: --schedulers: grid: must be 0 (closed form) or 2 to 1001 points, got 1",),
        ),
        ("simulate --physics serial", SERIAL),
        ("simulate --physics serial --schedulers all", SERIAL),
        (
            "simulate --objective latency",
            ("error: --objective: must be weights such as latency=1,energy=0.5, got 'latency'",),
        ),
        (
            "simulate --objective enrgy=1",
            (
                "error: --objective: must be one of cost, energy, latency, got 'enrgy'",
                "hint: did you mean 'energy'?",
            ),
        ),
        (
            "simulate --objective cost=0",
            ("error: --objective: must be at least one weight above 0, got 'all weights 0'",),
        ),
        (
            "simulate --trace no.csv",
            ("error: --trace: must be a file, or the name of a trace in data/workload_traces, got 'no.csv'",),
        ),
        ("simulate --trace a/no.csv", ("error: --trace: must be a file that exists, got 'no.csv'",)),
        ("simulate --trace a.csv --batch", ("error: --batch: must be left out with --trace, got True",)),
        ("simulate --batch --utilisation 0.5", ("error: --utilisation: must be left out with --batch, got '0.5'",)),
        ("simulate --config no.yaml", ("error: --config: must be a file that exists, got 'no.yaml'",)),
        (
            "--log-level inf simulate",
            (
                "error: --log-level: must be one of critical, debug, error, info, success, trace, warning,"
                " got 'inf'",
                "hint: did you mean 'info'?",
            ),
        ),
    ],
)
def test_bad_option_is_one_error_line_with_a_hint(arguments: str, lines: tuple[str, ...], run: Run) -> None:
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert result.stderr.splitlines() == list(lines)
    assert result.stdout == ""


@pytest.mark.parametrize("name", ["scenario", "platform", "schedulers", "physics"])
def test_unknown_name_lists_the_known_ones(name: str, run: Run) -> None:
    result = run("simulate", f"--{name}", "nonsense")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --{name}: must be one of ")
    assert result.stderr.endswith(", got 'nonsense'\n")


def test_error_in_config_yaml_names_file_and_line(run: Run) -> None:
    Path("config.yaml").write_text("simulation:\n  tsks: 5\n", encoding="utf-8")
    result = run("simulate")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: config.yaml:2: key: must be a known one of section simulation, got 'simulation.tsks'",
        "hint: did you mean 'simulation.tasks'?",
    ]


def test_unexpected_exception_is_reported_and_logged(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("hybrid_scheduler.cli.inputs.read_experiment", broken)
    result = run("simulate")
    assert result.exit_code == 1
    assert result.stderr == "error: unexpected ZeroDivisionError: on purpose, see logs/app.log\n"
    assert "Traceback" in Path("logs/app.log").read_text(encoding="utf-8")


def test_traceback_goes_to_the_log_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FILE", "logs/app.log")
    assert "Traceback" not in run("simulate", "--physics", "serial").stderr
    assert "Traceback" in Path("logs/app.log").read_text(encoding="utf-8")


def test_mistyped_option_creates_no_log(run: Run) -> None:
    run("simulate", "--sede", "1")
    run("simulate", "--tasks", "x")
    assert not Path("logs").exists()


def test_memory_error_has_a_hint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("hybrid_scheduler.cli.inputs.read_experiment", greedy)
    result = run("simulate")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "error: not enough memory",
        "hint: fewer tasks or fewer schedulers need less",
    ]


def test_interrupt_exits_with_130_and_writes_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hybrid_scheduler.cli.inputs.read_experiment", interrupted)
    result = run("simulate", "--out", "results")
    assert result.exit_code == 130
    assert result.stderr == "interrupted: nothing was written\n"
    assert not Path("results").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in its file system")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ("simulate --trace pipe.csv", "--trace"),
        ("simulate --config pipe.yaml", "--config"),
        ("simulate --platform pipe.yaml", "--platform"),
        ("simulate --physics table:pipe.csv", "--physics"),
        ("simulate --physics profiled:pipe.json", "--physics"),
        ("simulate --plugin pipe.py", "--plugin"),
        ("simulate --schedulers hybrid_ml(model=pipe)", "pipe"),
        ("import pipe.csv", "FILE"),
        ("score pipe.py", "FILE"),
        ("score x.py --sealed pipe.json", "--sealed"),
        ("calibrate pipe.json", "PROFILE"),
        ("report --verify pipe.html", "--verify"),
        ("report run", "RUN_DIR"),
        ("replay run", "RUN_DIR"),
        ("trace run", "RUN_DIR"),
        ("trace x --out pipe.json", "--out"),
        ("execute --profile pipe.json", "--profile"),
    ],
)
def test_a_pipe_is_refused_instead_of_waited_for(arguments: str, field: str, run: Run) -> None:
    Path("run").mkdir()
    for name in ("pipe.csv", "pipe.yaml", "pipe.json", "pipe.py", "pipe.html", "pipe", "run/run.json"):
        os.mkfifo(name)
    result = run(*arguments.split())
    assert result.exit_code in (1, 2), result.output
    assert result.stderr.startswith(f"error: {field}"), result.stderr


@pytest.mark.parametrize(
    "arguments", ["trace", "replay", "import", "simulate --out", "score", "simulate --trace", "calibrate"]
)
def test_a_name_that_cannot_be_a_path_is_explained(arguments: str, run: Run) -> None:
    result = run(*arguments.split(), "a" * 3000)
    assert result.exit_code == 2
    assert "unexpected" not in result.stderr
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "spec", ["oracle(grid=nan)", "oracle(grid=x)", "late_binding(deferred=x)", "round_robin(variant=3)"]
)
def test_a_parameter_of_a_wrong_type_is_explained(spec: str, run: Run) -> None:
    result = run("simulate", "--tasks", "20", "--schedulers", spec)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --schedulers: ")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("compare --seeds x", "--seeds: must be a whole number, got 'x'"),
        ("compare --seeds 1.5", "--seeds: must be a whole number, got '1.5'"),
        ("compare --seeds 99999999999999999999", "--seeds: must be at most 1,000,000, got 99999999999999999999"),
        ("shift --first-seed -1", "--first-seed: must be a whole number from 0 to 2^53, got -1"),
        ("compare --processes 0", "--processes: must be at least 1, got '0'"),
        ("import a.csv --scale much", "--scale: must be a number, got 'much'"),
        ("score x.py --answer-seconds nan", "--answer-seconds: must be at least 0.01, got 'nan'"),
    ],
)
def test_a_number_that_cannot_be_read_names_option_and_value(arguments: str, error: str, run: Run) -> None:
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert result.stderr == f"error: {error}\n"


@pytest.mark.parametrize("arguments", ["calibrate h200 --out", "profile --out", "trace run --out"])
@pytest.mark.parametrize("name", ["folder", "", "file/below"])
def test_a_file_to_write_is_checked_before_the_run(arguments: str, name: str, run: Run) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    result = run(*arguments.split(), name)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --out: must be a ")
