"""Options that several commands share, and checks of option combinations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core import InvalidInputError, UnknownNameError


def _scenario_names(incomplete: str) -> list[str]:
    from ..workload import GRAPHS, SCENARIOS

    return [name for name in (*SCENARIOS, *GRAPHS) if name.startswith(incomplete)]


def _platform_names(incomplete: str) -> list[str]:
    from ..core import PLATFORMS

    return [name for name in PLATFORMS if name.startswith(incomplete)]


def scheduler_names(incomplete: str) -> list[str]:
    """Return completions of the last name in a list separated by commas."""
    from ..schedulers import schedulers

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in schedulers() if name.startswith(last)]


def _physics_names(incomplete: str) -> list[str]:
    from ..physics import PHYSICS
    from ..profiling.hardware_profile import builtin_profiles

    names = (*PHYSICS, *(f"profiled:{name}" for name in builtin_profiles()), "table:")
    return [name for name in names if name.startswith(incomplete)]


ScenarioOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Kind of tasks, such as mixed or cholesky(tiles=8); see `scenarios`.",
        autocompletion=_scenario_names,
    ),
]
UtilisationOption = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Offered load as a share of the machine's capacity; stretches a trace."),
]
BatchOption = Annotated[bool, typer.Option("--batch", help="All tasks arrive at time 0.")]
SchedulersOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Schedulers to compare, such as greedy,oracle(grid=21).",
        autocompletion=scheduler_names,
    ),
]
PlatformOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Simulated machine, such as laptop, or a FILE.yaml; see `platforms`.",
        autocompletion=_platform_names,
    ),
]
PhysicsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Durations: analytic, serial, profiled:PROFILE or table:FILE.csv.",
        autocompletion=_physics_names,
    ),
]
IndivisibleOption = Annotated[
    bool, typer.Option("--indivisible", help="No task may be split between a GPU and its CPU.")
]
NoiseOption = Annotated[
    str | None, typer.Option(metavar="SIGMA", help="Log-normal noise on execution times, 0 for none.")
]
SlowdownOption = Annotated[
    str | None,
    typer.Option(
        metavar="A=B,…",
        help="Time in which tasks take longer on a device: device=gpu_1,factor=3,start=20,until=40[,every=60].",
    ),
]
SeedOption = Annotated[
    str | None, typer.Option(metavar="N", help="Random seed; equal seeds give equal tasks and results.")
]
FirstSeedOption = Annotated[int, typer.Option(metavar="N", help="First seed; the others follow it.")]
ProcessesOption = Annotated[
    int | None, typer.Option(metavar="N", help="Seeds to run in parallel; one per core by default.", min=1)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]

_GOALS = ("latency", "energy", "cost")


def weights(objective: str | None) -> dict[str, str]:
    """Return ``latency=1,energy=0.5`` as settings; goals that are not named get the weight 0."""
    if objective is None:
        return {}
    weights = dict.fromkeys(_GOALS, "0")
    for item in objective.split(","):
        goal, equals, weight = (part.strip() for part in item.partition("="))
        if not (equals and weight):
            raise InvalidInputError("--objective", "weights such as latency=1,energy=0.5", objective)
        if goal not in weights:
            raise UnknownNameError("--objective", goal, _GOALS)
        weights[goal] = weight
    return {f"objective.{goal}": weight for goal, weight in weights.items()}


def check_sources(trace: str | None, **others: object) -> None:
    """Refuse options that contradict each other.

    Parameters
    ----------
    trace
        The option `--trace`: a trace brings its own tasks. A utilisation stretches its arrivals.
    **others
        The other options by name, None where not given. A batch has no utilisation.

    Raises
    ------
    InvalidInputError
        If another option is given with a trace, or a utilisation with a batch.
    """
    from ..workload.task_graphs import is_graph

    graph = str(others.get("scenario") or "")
    for name, value in others.items():
        if name in ("utilisation", "tasks", "batch") and value is not None and graph and is_graph(graph):
            raise InvalidInputError(f"--{name}", f"left out with the graph {graph}", value)
        if trace is not None and value is not None and name != "utilisation":
            raise InvalidInputError(f"--{name.replace('_', '-')}", "left out with --trace", value)
    if others.get("batch") and others.get("utilisation") is not None:
        raise InvalidInputError("--utilisation", "left out with --batch", others["utilisation"])


def check_empty(option: str, folder: Path) -> None:
    """Raise `InvalidInputError` for this option if its folder is not new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(option, "a new or empty folder", str(folder))
