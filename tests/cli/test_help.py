"""What the program says about itself."""

from collections.abc import Callable
from typing import Any

import pytest

import hybrid_scheduler

Run = Callable[..., Any]


@pytest.mark.parametrize(
    "command", [(), ("simulate",), ("pipeline",), ("train",), ("shift",), ("schedulers",), ("doctor",)]
)
def test_help_has_an_example_and_fits(command: tuple[str, ...], run: Run) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert " ".join(("hybrid-scheduler", *command)) in result.stdout
    assert run(*command, "-h").stdout == result.stdout


def test_no_arguments_print_the_help(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: hybrid-scheduler ")


@pytest.mark.parametrize("arguments", [("--version",), ("simulate", "--version")])
def test_version_option_prints_the_version(arguments: tuple[str, ...], run: Run) -> None:
    assert run(*arguments).stdout == f"hybrid-scheduler {hybrid_scheduler.__version__}\n"


def test_schedulers_lists_the_registry(run: Run) -> None:
    import json

    from hybrid_scheduler.schedulers import schedulers

    known = schedulers()
    table = run("schedulers").stdout
    entries = json.loads(run("schedulers", "--json").stdout)["schedulers"]
    assert [entry["name"] for entry in entries] == list(known)
    (oracle,) = (entry for entry in entries if entry["name"] == "oracle")
    assert oracle["protocol"] == "online"
    assert oracle["knows"] == "realised"
    assert oracle["parameters"] == {"grid": 0}
    for info in known.values():
        assert f"{info.look.glyph} {info.name} " in table
        assert info.summary in table
    assert "grid=0" in table


def test_schedulers_table_fits_the_terminal(run: Run, terminal: Callable[[int], None]) -> None:
    terminal(80)
    lines = run("schedulers").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "variant=published" in " ".join(lines)
