"""What the program says about itself."""

from collections.abc import Callable
from typing import Any

import pytest

import hybrid_scheduler

Run = Callable[..., Any]


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("simulate",),
        ("pipeline",),
        ("train",),
        ("shift",),
        ("schedulers",),
        ("scenarios",),
        ("platforms",),
        ("models",),
    ],
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


def test_help_lists_commands_with_their_whole_first_sentence(run: Run, terminal: Callable[[int], None]) -> None:
    terminal(60)
    text = " ".join(run("--help").stdout.split())
    assert "..." not in text.replace("[ARGS]...", "")
    assert "Import a trace from another format into data/workload_traces." in text


def test_scenarios_and_platforms_are_listed(run: Run) -> None:
    import json

    from hybrid_scheduler.core import PLATFORMS
    from hybrid_scheduler.workload import GRAPHS, SCENARIOS

    table, found = run("scenarios").stdout, json.loads(run("scenarios", "--json").stdout)
    assert [one["name"] for one in found["scenarios"]] == list(SCENARIOS)
    assert [one["name"] for one in found["graphs"]] == list(GRAPHS)
    assert all(name in table for name in (*SCENARIOS, *GRAPHS, "tiles=8"))
    assert list(json.loads(run("platforms", "--json").stdout)["platforms"]) == list(PLATFORMS)
    assert "1,000 cpu, 4,000 gpu" in run("platforms").stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("hybrid-scheduler sim", "simulate"),
        ("hybrid-scheduler simulate --scenario chol", "cholesky"),
        ("hybrid-scheduler compare --schedulers greedy,orac", "greedy,oracle"),
        ("hybrid-scheduler simulate --platform lap", "laptop"),
        ("hybrid-scheduler simulate --physics profiled:h2", "profiled:h200"),
    ],
)
def test_shell_completes_commands_and_names(words: str, found: str, program: Callable[..., Any]) -> None:
    running = program(
        _HYBRID_SCHEDULER_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1)
    )
    assert running.communicate(timeout=120)[0].split() == [found]
