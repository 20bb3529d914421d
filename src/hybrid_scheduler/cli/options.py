"""Options that several commands have, and those that are more than one value: taken apart, contradictions found."""

from __future__ import annotations

from typing import Annotated

import typer

from ..core import InvalidInputError, UnknownNameError

ScenarioOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Mix of tasks, such as default, mixed or transfer.")
]
UtilisationOption = Annotated[
    str | None, typer.Option(metavar="SHARE", help="Offered load as a share of the machine's capacity.")
]
BatchOption = Annotated[bool, typer.Option("--batch", help="All tasks are there at time 0.")]
PlatformOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Machine, such as workstation, laptop or mixed-gpus.")
]
NoiseOption = Annotated[
    str | None, typer.Option(metavar="SIGMA", help="Log-normal noise on execution times, 0 for none.")
]

_GOALS = ("latency", "energy", "cost")


def weights(objective: str | None) -> dict[str, str]:
    """``latency=1,energy=0.5`` as settings; whoever names weights names all that count."""
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
    """A trace brings its own tasks and times; a batch has no load."""
    for name, value in others.items():
        if trace is not None and value is not None:
            raise InvalidInputError(f"--{name.replace('_', '-')}", "left out with --trace", value)
    if others.get("batch") and others.get("utilisation") is not None:
        raise InvalidInputError("--utilisation", "left out with --batch", others["utilisation"])
