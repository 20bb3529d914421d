"""Options that several commands share: one block that describes tasks, machine and schedulers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from stat import S_ISCHR, S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_type_hints

import typer

from ..core import InvalidInputError, UnknownNameError
from ..experiments import FIRST_REPORTED_SEED

if TYPE_CHECKING:
    from ..config import Settings
    from ..experiments.spec import ExperimentSpec
    from .command_context import CommandContext

_T = TypeVar("_T")
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
_MAX_SEEDS = 1_000_000
#: Beyond it a seed would change on its way through JSON.
_LARGEST_SEED = 2**53
#: Groups of options that commands offer together.
TASKS = ("scenario", "utilisation", "batch", "tasks", "indivisible")
MACHINE = ("platform", "physics", "noise", "slowdown", "memory_policy", "objective")


class _Shared(NamedTuple):
    """An option with one meaning in every command: its help, metavar, names and further arguments of typer."""

    help: str
    metavar: str | None = None
    names: tuple[str, ...] = ()
    more: dict[str, Any] | None = None


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
    "scenario": _Shared(
        "Kind of tasks, such as mixed or cholesky(tiles=8); see `scenarios`.", "NAME",
        more={"autocompletion": _completion("workload", "SCENARIOS", "GRAPHS")},
    ),
    "utilisation": _Shared("Offered load as a share of the machine's capacity; stretches a trace.", "SHARE"),
    "batch": _Shared("All tasks arrive at time 0."),
    "trace": _Shared("Your own tasks from a file, or a stored trace by its name.", "FILE"),
    "tasks": _Shared("Number of tasks, for each seed.", "N"),
    "indivisible": _Shared("No task may be split between a GPU and its CPU."),
    "seed": _Shared("Random seed; equal seeds give equal tasks and results.", "N"),
    "seeds": _Shared("Number of paired seeds.", "N"),
    "first_seed": _Shared("First seed; the others follow it.", "N"),
    "batches": _Shared("Batches to cut a trace into; 20 by default if it is long enough.", "N"),
    "schedulers": _Shared(
        "Schedulers to compare, such as greedy,oracle(grid=21); or all.", "A,B",
        more={"autocompletion": _completion("schedulers", "schedulers")},
    ),
    "platform": _Shared(
        "Simulated machine, such as laptop, or a FILE.yaml; see `platforms`.", "NAME",
        more={"autocompletion": _completion("core", "PLATFORMS")},
    ),
    "physics": _Shared(
        "Durations: analytic, serial, profiled:PROFILE or table:FILE.csv.", "NAME",
        more={"autocompletion": _physics_names},
    ),
    "noise": _Shared("Log-normal noise on execution times, 0 for none.", "SIGMA"),
    "slowdown": _Shared(
        "Time in which tasks take longer on a device: device=gpu_1,factor=3,start=20,until=40[,every=60].", "A=B,…"
    ),
    "memory_policy": _Shared(
        "Tasks too large for a GPU: clip, to_cpu, fail or page.", "NAME",
        more={"autocompletion": _completion("cluster", "MEMORY_POLICIES")},
    ),
    "objective": _Shared("Weights of latency, energy and cost; the others are 0.", "A=1,B=2"),
    "as_json": _Shared("Print one JSON document to stdout.", names=("--json",)),
    "url": _Shared("Database to use instead of the settings': sqlite:///FILE or postgresql://…", "URL"),
    "folder": _Shared("Folder of the run times instead of the user's cache.", "DIR"),
    "processes": _Shared("Seeds to run in parallel; one per core by default.", "N", more={"min": 1}),
}  # fmt: skip
JsonOption = Annotated[bool, typer.Option("--json", help=_SHARED["as_json"].help)]


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
        files = {"trace": self.trace, "platform": self.platform, "physics": (self.physics or "").partition(":")[2]}
        for name, file in files.items():
            if file:
                check_path(option_of(name), Path(file))
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

    def experiment(
        self, context: CommandContext, more: Mapping[str, Any] | None = None, **others: object
    ) -> tuple[Settings, ExperimentSpec]:
        """Return the settings, and the experiment that they and the options describe.

        Parameters
        ----------
        context, more
            As for `settings`.
        **others
            As for `check`.
        """
        from . import inputs

        settings = self.settings(context, more)
        self.check(**others)
        return settings, inputs.read_experiment(settings, self)

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
        if self.seeds is not None and self.seeds > _MAX_SEEDS:
            raise InvalidInputError("--seeds", f"at most {_MAX_SEEDS:,}", self.seeds)
        if not 0 <= self.first_seed <= _LARGEST_SEED:
            raise InvalidInputError("--first-seed", "a whole number from 0 to 2^53", self.first_seed)
        return range(self.first_seed, self.first_seed + (1 if self.trace else self.seeds or default))


def _refuse(given: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    for name in names:
        if name in given:
            raise InvalidInputError(option_of(name), f"left out with {reason}", given[name])


def with_options(
    names: Sequence[str] = (),
    /,
    *,
    json: bool = True,
    former: Mapping[str, str] | None = None,
    gone: Mapping[str, tuple[type, str]] | None = None,
    **more: dict[str, Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command: its parameters become options, and it gets the shared ones as `inputs`.

    The function takes ``command``, its `CommandContext`, or ``context``, that of typer. A positional-only parameter
    is an argument. The docstring has a section `Parameters` as NumPy writes it: the word that stands for the value
    in place of the type, and the help. There an option of `Inputs` may get a narrower help.

    Parameters
    ----------
    names
        Options of `Inputs` with the common help.
    json
        Whether the command has the option --json, which `Printer.outcome` follows.
    former
        Former names of own options, each with its parameter. They work with a warning, and no help lists them.
    gone
        Former options that are an error: the type of the value, and a hint, with {} for the value.
    **more
        By parameter, further arguments of `typer.Option`; and ``names``, added to the parameter's own, such as
        ``-o``, or in its place, such as ``--map``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        text, described = _described(command)
        own = signature(command, eval_str=True).parameters
        arguments = [name for name, given in own.items() if given.kind is Parameter.POSITIONAL_ONLY]
        kinds = get_type_hints(Inputs)
        offered = {*names, *(described.keys() & kinds.keys() - own.keys())}
        shared = [field for field in fields(Inputs) if field.name in offered]
        if missing := {*names} - kinds.keys() | described.keys() - kinds.keys() - own.keys():
            raise TypeError(f"not options of {command.__name__}: {', '.join(sorted(missing))}")

        def parameter(name: str, kind: Any, default: Any, make: Callable[..., Any] = typer.Option) -> Parameter:
            metavar, help = described.get(name, (None, ""))
            common = _SHARED.get(name, _Shared(help))
            details = {"help": help or common.help, "metavar": metavar or common.metavar, **(common.more or {})}
            extra = dict(more.get(name, {}))
            added = extra.pop("names", common.names)
            long = make is typer.Argument or any(each.startswith("--") for each in added)
            return _option(
                name, kind, default, make(*(() if long else (option_of(name),)), *added, **details | extra)
            )

        parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        for name, given in own.items():
            if name == "inputs":
                parameters += [parameter(field.name, kinds[field.name], field.default) for field in shared]
            elif name not in ("command", "context"):
                make = typer.Argument if name in arguments else typer.Option
                parameters.append(parameter(name, given.annotation, given.default, make))
        if json:
            parameters.append(parameter("as_json", bool, False))
        for old, name in (former or {}).items():
            parameters.append(
                _option(f"old_{name}", own[name].annotation | None, None, typer.Option(old, hidden=True))
            )

        hints = {f"gone{number}": (name, hint) for number, (name, (_, hint)) in enumerate((gone or {}).items())}
        for key, (name, _) in hints.items():
            parameters.append(_option(key, (gone or {})[name][0] | None, None, typer.Option(name, hidden=True)))

        @wraps(command)
        def run(context: typer.Context, **values: Any) -> None:
            context.obj.printer.as_json = values.pop("as_json", context.obj.printer.as_json)
            for old, name in (former or {}).items():
                if (value := values.pop(f"old_{name}", None)) is not None:
                    given = values[name] if values[name] != own[name].default else None
                    values[name] = context.obj.renamed_option(old, value, option_of(name), given)
            for name, value in values.items():
                field = (described[name][0] or "").strip("[].") if name in arguments else option_of(name)
                for path in value if isinstance(value, list) else [value]:
                    if isinstance(path, Path):
                        check_path(field, path)
            for key, (name, hint) in hints.items():
                if (value := values.pop(key, None)) is not None:
                    raise InvalidInputError(name, "left out: it has moved", value, hint=hint.format(value))
            if "inputs" in own:
                values["inputs"] = Inputs(**{field.name: values.pop(field.name) for field in shared})
            values |= {"command": context.obj, "context": context}
            command(
                *[values.pop(name) for name in arguments],
                **{name: value for name, value in values.items() if name in own},
            )

        run.__doc__ = text
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _option(name: str, kind: Any, default: Any, described: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, described])


def _described(command: Callable[..., None]) -> tuple[str, dict[str, tuple[str | None, str]]]:
    """Return the docstring of a command without its section `Parameters`, and metavar and help from there."""
    text, _, section = (getdoc(command) or "").partition("\n\nParameters\n----------\n")
    entries = re.findall(r"^(\w+)(?: : (.+))?\n((?:    .+\n?)+)", section, re.MULTILINE)
    return text, {name: (metavar or None, " ".join(help.split())) for name, metavar, help in entries}


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


def check_path(option: str, path: Path) -> None:
    """Raise `InvalidInputError` for this option if its path cannot be one, or names a pipe, a socket or a device.

    Reading a pipe without a writer would wait forever. A result may be written to a device such as /dev/stdout.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return  # the command says whether the file must exist
    except (OSError, ValueError) as error:
        hint = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(option, "a path that can be used", str(path), hint=hint) from None
    if not (S_ISREG(mode) or S_ISDIR(mode) or (S_ISCHR(mode) and option == "--out")):
        raise InvalidInputError(option, "a regular file or a folder", str(path))


def check_file(option: str, path: Path) -> None:
    """Raise `InvalidInputError` for this option if its path is no file to write; for use before a long run."""
    if path.is_dir() or any(parent.exists() and not parent.is_dir() for parent in path.parents):
        raise InvalidInputError(option, "a file in a folder", str(path))


def check_empty(option: str, folder: Path) -> None:
    """Raise `InvalidInputError` for this option if its folder is not new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(option, "a new or empty folder", str(folder))


def check_folder(option: str, folder: Path | None) -> None:
    """Raise `InvalidInputError` for this option if its folder is a file."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InvalidInputError(option, "a folder", str(folder))


def parsed(option: str, text: str, allowed: str, parse: Callable[[str], _T]) -> _T:
    """Return the value of an option as `parse` reads it; a ValueError becomes an `InvalidInputError`."""
    try:
        return parse(text)
    except ValueError:
        raise InvalidInputError(option, allowed, text) from None


def listed(text: str) -> list[str]:
    """Return the items of a list separated by commas."""
    return [item.strip() for item in text.split(",") if item.strip()]
