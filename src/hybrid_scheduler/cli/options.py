"""Options that several commands share: one block that describes tasks, machine and schedulers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from ..core import InvalidInputError, UnknownNameError
from ..experiments import FIRST_REPORTED_SEED

if TYPE_CHECKING:
    from ..config import Settings
    from .command_context import CommandContext

#: Settings key of each option that stands for one.
SETTINGS_KEYS = {
    "scenario": "simulation.scenario",
    "utilisation": "simulation.utilisation",
    "tasks": "simulation.tasks",
    "seed": "simulation.seed",
    "schedulers": "simulation.schedulers",
    "platform": "simulation.platform",
    "memory_policy": "simulation.memory_policy",
    "physics": "physics.name",
    "noise": "physics.noise_sigma",
    "slowdown": "physics.slowdown",
}
#: Groups of options that commands offer together.
MACHINE = ("platform", "physics", "noise", "slowdown", "memory_policy")
TASKS = ("scenario", "utilisation", "batch", "tasks", "indivisible")


def _scenario_names(incomplete: str) -> list[str]:
    from ..workload import GRAPHS, SCENARIOS

    return [name for name in (*SCENARIOS, *GRAPHS) if name.startswith(incomplete)]


def _platform_names(incomplete: str) -> list[str]:
    from ..core import PLATFORMS

    return [name for name in PLATFORMS if name.startswith(incomplete)]


def _scheduler_names(incomplete: str) -> list[str]:
    """Return completions of the last name in a list separated by commas."""
    from ..schedulers import schedulers

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in schedulers() if name.startswith(last)]


def _memory_policies(incomplete: str) -> list[str]:
    from ..cluster import MEMORY_POLICIES

    return [name for name in MEMORY_POLICIES if name.startswith(incomplete)]


def _physics_names(incomplete: str) -> list[str]:
    from ..physics import PHYSICS
    from ..profiling.hardware_profile import builtin_profiles

    names = (*PHYSICS, *(f"profiled:{name}" for name in builtin_profiles()), "table:")
    return [name for name in names if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Options that describe tasks, machine and schedulers, as they were typed.

    A command offers some of them with `with_inputs`; the others keep their defaults. All defaults mean "not given".
    """

    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Kind of tasks, such as mixed or cholesky(tiles=8); see `scenarios`.",
            autocompletion=_scenario_names,
        ),
    ] = None
    utilisation: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Offered load as a share of the machine's capacity; stretches a trace."),
    ] = None
    batch: Annotated[bool, typer.Option("--batch", help="All tasks arrive at time 0.")] = False
    trace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Your own tasks from a file, or a stored trace by its name."),
    ] = None
    tasks: Annotated[str | None, typer.Option(metavar="N", help="Number of tasks, for each seed.")] = None
    indivisible: Annotated[
        bool, typer.Option("--indivisible", help="No task may be split between a GPU and its CPU.")
    ] = False
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="Random seed; equal seeds give equal tasks and results.")
    ] = None
    seeds: Annotated[int | None, typer.Option(metavar="N", help="Number of paired seeds.")] = None
    first_seed: Annotated[int, typer.Option(metavar="N", help="First seed; the others follow it.")] = (
        FIRST_REPORTED_SEED
    )
    batches: Annotated[
        int | None,
        typer.Option(metavar="N", help="Batches to cut a trace into; 20 by default if it is long enough."),
    ] = None
    schedulers: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Schedulers to compare, such as greedy,oracle(grid=21); or all.",
            autocompletion=_scheduler_names,
        ),
    ] = None
    platform: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Simulated machine, such as laptop, or a FILE.yaml; see `platforms`.",
            autocompletion=_platform_names,
        ),
    ] = None
    physics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Durations: analytic, serial, profiled:PROFILE or table:FILE.csv.",
            autocompletion=_physics_names,
        ),
    ] = None
    noise: Annotated[
        str | None, typer.Option(metavar="SIGMA", help="Log-normal noise on execution times, 0 for none.")
    ] = None
    slowdown: Annotated[
        str | None,
        typer.Option(
            metavar="A=B,…",
            help="Time in which tasks take longer on a device: device=gpu_1,factor=3,start=20,until=40[,every=60].",
        ),
    ] = None
    memory_policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Tasks too large for a GPU: clip, to_cpu, fail or page.",
            autocompletion=_memory_policies,
        ),
    ] = None
    objective: Annotated[
        str | None, typer.Option(metavar="A=1,B=2", help="Weights of latency, energy and cost; the others are 0.")
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """Options that were typed, by parameter name."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    def settings(self, context: CommandContext, more: Mapping[str, Any] | None = None) -> Settings:
        """Load the settings with these options on top.

        Parameters
        ----------
        context
            Context of the command.
        more
            Further options by their settings keys.
        """
        options = {key: getattr(self, name) for name, key in SETTINGS_KEYS.items()}
        return context.settings({**options, **weights(self.objective), **(more or {})})

    def check(self, **others: object) -> None:
        """Refuse options that contradict each other.

        A trace brings its own tasks; a utilisation stretches its arrivals. A batch has no utilisation, and a graph
        has its own number of tasks.

        Parameters
        ----------
        **others
            Further options that a trace excludes, by name; None where not given.

        Raises
        ------
        InvalidInputError
            If another option is given with a trace or a graph, or a utilisation with a batch.
        """
        from ..workload.task_graphs import is_graph

        if self.scenario and is_graph(self.scenario):
            _refuse(self.given, ("utilisation", "tasks", "batch"), f"the graph {self.scenario}")
        if self.trace is not None:
            given = self.given | {name: value for name, value in others.items() if value is not None}
            _refuse(given, ("scenario", "tasks", "batch", "seeds", *others), "--trace")
        elif self.batches is not None:
            raise InvalidInputError("--batches", "left out without --trace: a scenario has seeds", self.batches)
        if self.batch and self.utilisation is not None:
            raise InvalidInputError("--utilisation", "left out with --batch", self.utilisation)

    def seed_range(self, default: int, least: int = 1) -> range:
        """Return the seeds of a comparison; a trace is one run.

        Raises
        ------
        InvalidInputError
            If there are fewer than `least`.
        """
        if self.seeds is not None and self.seeds < least:
            reason = ", for an interval" if least > 1 else ""
            raise InvalidInputError("--seeds", f"at least {least}{reason}", self.seeds)
        return range(self.first_seed, self.first_seed + (1 if self.trace else self.seeds or default))


def option_of(name: str) -> str:
    """Return the option of a parameter: --memory-policy for memory_policy."""
    return f"--{name.replace('_', '-')}"


def _refuse(given: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    for name in names:
        if name in given:
            raise InvalidInputError(option_of(name), f"left out with {reason}", given[name])


def with_inputs(*names: str, **helps: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command offer some options of `Inputs` in place of its parameter `inputs`.

    Parameters
    ----------
    *names
        Options with the common help.
    **helps
        Options with a help text of their own, where the command gives them a narrower meaning.
    """
    hints = get_type_hints(Inputs, include_extras=True)
    options = {}
    for field in fields(Inputs):
        if field.name in helps or field.name in names:
            options[field.name] = hints[field.name]
        if field.name in helps:
            kind, option = get_args(hints[field.name])
            described = copy(option)
            described.help = helps[field.name]
            options[field.name] = Annotated[kind, described]
    if missing := {*names, *helps} - options.keys():
        raise TypeError(f"not options of Inputs: {', '.join(sorted(missing))}")

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[Parameter] = []
        for parameter in signature(command, eval_str=True).parameters.values():
            if parameter.name != "inputs":
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
                continue
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(Inputs, name), annotation=annotation)
                for name, annotation in options.items()
            ]

        @wraps(command)
        def run(**values: Any) -> None:
            inputs = Inputs(**{name: values.pop(name) for name in options})
            command(inputs=inputs, **values)

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


ProcessesOption = Annotated[
    int | None, typer.Option(metavar="N", help="Seeds to run in parallel; one per core by default.", min=1)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]

GOALS = ("latency", "energy", "cost")


def weights(objective: str | None) -> dict[str, str]:
    """Return ``latency=1,energy=0.5`` as settings; goals that are not named get the weight 0."""
    if objective is None:
        return {}
    weights = dict.fromkeys(GOALS, "0")
    for item in objective.split(","):
        goal, equals, weight = (part.strip() for part in item.partition("="))
        if not (equals and weight):
            raise InvalidInputError("--objective", "weights such as latency=1,energy=0.5", objective)
        if goal not in weights:
            raise UnknownNameError("--objective", goal, GOALS)
        weights[goal] = weight
    return {f"objective.{goal}": weight for goal, weight in weights.items()}


def check_empty(option: str, folder: Path) -> None:
    """Raise `InvalidInputError` for this option if its folder is not new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(option, "a new or empty folder", str(folder))
