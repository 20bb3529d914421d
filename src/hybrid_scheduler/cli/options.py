"""Options that several commands share: one block that describes tasks, machine and schedulers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

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
TASKS = ("scenario", "utilisation", "batch", "tasks", "indivisible")
MACHINE = ("platform", "physics", "noise", "slowdown", "memory_policy", "objective")


class _Own(NamedTuple):
    """An option or argument, whose name, type and default are those of a parameter."""

    make: Callable[..., Any]
    names: tuple[str, ...]
    more: dict[str, Any]

    def named(self, parameter: str, **more: Any) -> Any:
        """Return what typer needs."""
        long = self.make is typer.Argument or any(name.startswith("--") for name in self.names)
        return self.make(*(() if long else (option_of(parameter),)), *self.names, **self.more | more)


def option(help: str, metavar: str | None = None, *names: str, **more: Any) -> _Own:
    """Return an option.

    Parameters
    ----------
    help, metavar
        Text for --help, and the word that stands for the value.
    *names
        Names that are added to the parameter's, such as ``-o``, or that replace it, such as ``--json``.
    **more
        Further arguments of `typer.Option`.
    """
    return _Own(typer.Option, names, {"help": help, "metavar": metavar, **more})


def argument(help: str, metavar: str | None = None, **more: Any) -> _Own:
    """Return an argument; see `option`."""
    return _Own(typer.Argument, (), {"help": help, "metavar": metavar, **more})


def option_of(name: str) -> str:
    """Return the option of a parameter: --memory-policy for memory_policy."""
    return f"--{name.replace('_', '-')}"


def _completion(package: str, *tables: str) -> Callable[[str], list[str]]:
    """Return a completer of the last name in a list separated by commas, from tables of a package."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        module = import_module(f"..{package}", __package__)
        found = [getattr(module, table) for table in tables]
        names = [name for table in found for name in (table() if callable(table) else table)]
        return [before + comma + name for name in names if name.startswith(last)]

    return complete


def _physics_names(incomplete: str) -> list[str]:
    from ..physics import PHYSICS
    from ..profiling.hardware_profile import builtin_profiles

    names = (*PHYSICS, *(f"profiled:{name}" for name in builtin_profiles()), "table:")
    return [name for name in names if name.startswith(incomplete)]


#: Options of `Inputs`, and those with one meaning in every command that has a parameter of the name.
_SHARED = {
    "scenario": option(
        "Kind of tasks, such as mixed or cholesky(tiles=8); see `scenarios`.", "NAME",
        autocompletion=_completion("workload", "SCENARIOS", "GRAPHS"),
    ),
    "utilisation": option("Offered load as a share of the machine's capacity; stretches a trace.", "SHARE"),
    "batch": option("All tasks arrive at time 0."),
    "trace": option("Your own tasks from a file, or a stored trace by its name.", "FILE"),
    "tasks": option("Number of tasks, for each seed.", "N"),
    "indivisible": option("No task may be split between a GPU and its CPU."),
    "seed": option("Random seed; equal seeds give equal tasks and results.", "N"),
    "seeds": option("Number of paired seeds.", "N"),
    "first_seed": option("First seed; the others follow it.", "N"),
    "batches": option("Batches to cut a trace into; 20 by default if it is long enough.", "N"),
    "schedulers": option(
        "Schedulers to compare, such as greedy,oracle(grid=21); or all.", "A,B",
        autocompletion=_completion("schedulers", "schedulers"),
    ),
    "platform": option(
        "Simulated machine, such as laptop, or a FILE.yaml; see `platforms`.", "NAME",
        autocompletion=_completion("core", "PLATFORMS"),
    ),
    "physics": option(
        "Durations: analytic, serial, profiled:PROFILE or table:FILE.csv.", "NAME", autocompletion=_physics_names
    ),
    "noise": option("Log-normal noise on execution times, 0 for none.", "SIGMA"),
    "slowdown": option(
        "Time in which tasks take longer on a device: device=gpu_1,factor=3,start=20,until=40[,every=60].", "A=B,…"
    ),
    "memory_policy": option(
        "Tasks too large for a GPU: clip, to_cpu, fail or page.", "NAME",
        autocompletion=_completion("cluster", "MEMORY_POLICIES"),
    ),
    "objective": option("Weights of latency, energy and cost; the others are 0.", "A=1,B=2"),
    "as_json": option("Print one JSON document to stdout.", None, "--json"),
    "processes": option("Seeds to run in parallel; one per core by default.", "N", min=1),
}  # fmt: skip
JsonOption = Annotated[bool, _SHARED["as_json"].named("as_json")]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Options that describe tasks, machine and schedulers, as they were typed.

    A command offers some of them with `with_options`; the others keep their defaults, which mean "not given".
    """

    scenario: str | None = None
    utilisation: str | None = None
    batch: bool = False
    trace: str | None = None
    tasks: str | None = None
    indivisible: bool = False
    seed: str | None = None
    seeds: int | None = None
    first_seed: int = FIRST_REPORTED_SEED
    batches: int | None = None
    schedulers: str | None = None
    platform: str | None = None
    physics: str | None = None
    noise: str | None = None
    slowdown: str | None = None
    memory_policy: str | None = None
    objective: str | None = None

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


def _refuse(given: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    for name in names:
        if name in given:
            raise InvalidInputError(option_of(name), f"left out with {reason}", given[name])


def _parameter(name: str, default: Any, kind: Any, own: _Own, **more: Any) -> Parameter:
    annotation = Annotated[kind, own.named(name, **more)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_options(
    names: Sequence[str] = (), /, *, json: bool = True, former: Mapping[str, str] | None = None, **own: str | _Own
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command: describe its options, and give it the shared ones as `inputs`.

    The function takes ``command``, its `CommandContext`, or ``context``, that of typer.

    Parameters
    ----------
    names
        Options of `Inputs` with the common help.
    json
        Whether the command has the option --json, which `Printer.outcome` follows.
    former
        Former names of own options, each with its parameter. They work with a warning, and no help lists them.
    **own
        Options of `Inputs` with a help text of their own, where the command gives them a narrower meaning; and the
        options and arguments of this command alone, by parameter.
    """
    narrower = {name: {"help": text} for name, text in own.items() if isinstance(text, str)}
    described = _SHARED | {name: given for name, given in own.items() if isinstance(given, _Own)}
    if missing := {*names, *narrower} - {field.name for field in fields(Inputs)}:
        raise TypeError(f"not options of Inputs: {', '.join(sorted(missing))}")
    hints = get_type_hints(Inputs)
    shared = [
        _parameter(
            field.name, field.default, hints[field.name], _SHARED[field.name], **narrower.get(field.name, {})
        )
        for field in fields(Inputs)
        if field.name in {*names, *narrower}
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        own_parameters = signature(command, eval_str=True).parameters
        for name, parameter in own_parameters.items():
            if name == "inputs":
                parameters += shared
            elif name not in ("command", "context"):
                parameters.append(_parameter(name, parameter.default, parameter.annotation, described[name]))
        if json:
            parameters.append(_parameter("as_json", False, bool, _SHARED["as_json"]))
        renamed = {f"old_{name}": (old, name) for old, name in (former or {}).items()}
        for parameter_name, (old, name) in renamed.items():
            kind = own_parameters[name].annotation
            hidden = option("", None, old, hidden=True)
            parameters.append(_parameter(parameter_name, None, kind | None, hidden))

        @wraps(command)
        def run(context: typer.Context, **values: Any) -> None:
            context.obj.printer.as_json = values.pop("as_json", context.obj.printer.as_json)
            for parameter_name, (old, name) in renamed.items():
                if (value := values.pop(parameter_name, None)) is not None:
                    given = values[name] if values[name] != own_parameters[name].default else None
                    values[name] = context.obj.renamed_option(old, value, option_of(name), given)
            if "inputs" in own_parameters:
                values["inputs"] = Inputs(**{field.name: values.pop(field.name) for field in shared})
            if "command" in own_parameters:
                values["command"] = context.obj
            else:
                values["context"] = context
            command(**values)

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


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


def check_folder(option: str, folder: Path | None) -> None:
    """Raise `InvalidInputError` for this option if its folder is a file."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InvalidInputError(option, "a folder", str(folder))


def listed(text: str) -> list[str]:
    """Return the items of a list separated by commas."""
    return [item.strip() for item in text.split(",") if item.strip()]
