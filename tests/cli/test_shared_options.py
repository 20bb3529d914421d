"""Options that several commands share: which command offers which, and that they reach the run."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.cli.options import Inputs, option_of, with_options

Run = Callable[..., Any]

_RUNS = {"simulate", "compare", "heavy", "report"}
_MACHINE = {*_RUNS, "sweep", "serve"}
#: Commands that offer each shared option. A sweep has lists of scenarios, loads and platforms instead.
OFFERED = {
    "scenario": {*_RUNS, "serve"},
    "utilisation": {*_RUNS, "serve"},
    "batch": _RUNS,
    "trace": {"simulate", "compare", "report", "sweep", "serve", "pipeline"},
    "tasks": {*_RUNS, "sweep"},
    "indivisible": {*_RUNS, "sweep", "import"},
    "seed": {"simulate", "heavy", "serve", "pipeline", "forecast"},
    "seeds": {"compare", "report", "sweep", "shift", "score", "reproduce"},
    "first_seed": {"compare", "report", "sweep", "shift"},
    "batches": {"compare", "report"},
    "schedulers": _MACHINE,
    "platform": {*_RUNS, "serve", "import"},
    "physics": _MACHINE,
    "noise": _MACHINE,
    "slowdown": _MACHINE,
    "memory_policy": _MACHINE,
    "objective": _MACHINE,
}
#: Commands whose options of these names mean something else: real kernels, models, a comparison's record.
_OTHERS = {"execute", "train", "trace"}
SMALL = ("--tasks", "40", "--schedulers", "greedy,oracle")
UNUSUAL = (
    "--memory-policy", "page", "--slowdown", "device=gpu_1,factor=3,start=0,until=9", "--objective",
    "latency=1,energy=1", "--noise", "0.1", "--indivisible", "--physics", "analytic", "--platform", "workstation",
)  # fmt: skip


def test_every_shared_option_is_offered_by_the_listed_commands() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert list(OFFERED) == [field.name for field in fields(Inputs)]
    for name, expected in OFFERED.items():
        found = {
            command.name
            for command in commands.values()
            if command.name not in _OTHERS and any(option_of(name) in one.opts for one in command.params)
        }
        assert found == expected, name


@pytest.mark.parametrize("command", sorted(_RUNS))
def test_options_of_the_machine_reach_every_run(command: str, run: Run) -> None:
    more = {
        "simulate": ("--out", "run"),
        "compare": ("--seeds", "2", "--processes", "1", "--out", "run"),
        "report": ("--seeds", "1", "--keep", "run", "--figures", "makespan"),
        "heavy": ("--out", "run"),
    }
    result = run(command, *SMALL, *UNUSUAL, *more[command])
    assert result.exit_code == 0, result.output
    folder = Path("run/heavy_simulation" if command == "heavy" else "run")
    found = json.loads((folder / "run.json").read_text(encoding="utf-8"))["configuration"]
    assert found["memory_policy"] == "page"
    assert found["physics"]["slowdown"]["factor"] == 3
    assert found["objective"] == {"latency": 1.0, "energy": 1.0, "cost": 0.0}
    assert (found["noise"], found["indivisible"]) == (0.1, True)
    if command != "report":
        for fact in (
            "noise σ 0.1", "gpu_1 takes 3 times as long from 0 s to 9 s", "no task is split",
            "memory policy page", "objective 1 latency + 1 energy",
        ):  # fmt: skip
            assert fact in result.stdout


def test_options_of_the_machine_are_part_of_every_cell_of_a_sweep(run: Run) -> None:
    def mean(*options: str) -> float:
        arguments = ("--scenarios", "mixed", "--loads", "0.6", "--seeds", "1", "--processes", "1", "--json")
        result = run("sweep", "--tasks", "40", "--schedulers", "oracle", *arguments, *options)
        assert result.exit_code == 0, result.output
        return float(json.loads(result.stdout)["groups"][0]["mean"])

    plain = mean()
    assert mean("--slowdown", "device=gpu_0,factor=9,start=0,until=999") > plain
    assert mean("--indivisible") > plain
    assert mean("--objective", "energy=1") > plain


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("compare --memory-policy clp", "--memory-policy: must be one of clip, fail, page, to_cpu, got 'clp'"),
        ("heavy --objective enrgy=1", "--objective: must be one of cost, energy, latency, got 'enrgy'"),
        ("sweep --slowdown fast", "--slowdown: must be name=value pairs, got"),
        ("report --physics none", "--physics: must be one of analytic"),
        ("shift --seeds 1", "--seeds: must be at least 2, for an interval, got 1"),
        ("report --seeds 0", "--seeds: must be at least 1, got 0"),
        ("score --seeds 6 x.py", "--seeds: must be a whole number from 1 to 5, got 6"),
        ("heavy --batch --utilisation 1", "--utilisation: must be left out with --batch, got '1'"),
        ("report run --memory-policy page", "--memory-policy: must be left out with a RUN_DIR, got 'page'"),
    ],
)
def test_a_wrong_shared_option_is_named_in_every_command(arguments: str, error: str, run: Run) -> None:
    Path("x.py").touch()
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {error}")


def test_unknown_name_of_a_shared_option_is_refused_when_the_program_is_built() -> None:
    def command(inputs: Inputs) -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match="not options of command: sede"):
        with_options(("seed", "sede"))(command)
    command.__doc__ = "Do nothing.\n\nParameters\n----------\nsede : N\n    A number."
    with pytest.raises(TypeError, match="not options of command: sede"):
        with_options(("seed",))(command)


def test_every_option_has_a_help() -> None:
    def options_without(command: Any, name: str) -> list[str]:
        found = [f"{name} {each.name}" for each in command.params if not (each.help or getattr(each, "hidden", 0))]
        for sub_name, sub in getattr(command, "commands", {}).items():
            found += options_without(sub, f"{name} {sub_name}")
        return found

    assert options_without(typer.main.get_command(app), "hybrid-scheduler") == []
