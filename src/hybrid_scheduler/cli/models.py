"""`hybrid-scheduler models`: the run times that `HybridExecutor` keeps on disk."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.text import Text

from ..core import InvalidInputError, UnknownNameError
from .command_context import CommandContext
from .options import with_options
from .printer import BYTES, NOTHING, SECONDS, Column, Printer, significant, unit_for, with_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..runtime.duration_store import DurationFile, StoredRun

models = typer.Typer(
    name="models",
    invoke_without_command=True,
    rich_markup_mode=None,
    add_completion=False,
)

#: Panels of a plot: calls with other types of arguments have a panel of their own.
_MAX_PANELS = 4


class _Model(NamedTuple):
    """Run times of one function on one machine."""

    path: Path
    file: DurationFile
    key: str
    rows: list[StoredRun]

    @property
    def name(self) -> str:
        return self.key.rpartition(":")[0] or self.key

    @property
    def code(self) -> str:
        return self.key.rpartition(":")[2]

    @property
    def devices(self) -> list[str]:
        return sorted({row.device_class for row in self.rows})

    @property
    def measured_at(self) -> int:
        return max(row.measured_at for row in self.rows)


class _Call(NamedTuple):
    """Calls of one size: seconds by device, and whether they were measured or come from other sizes."""

    arguments: str
    nbytes: int
    size: float
    seconds: dict[str, float]
    runs: dict[str, int]

    @property
    def best(self) -> str:
        return min(self.seconds, key=self.seconds.__getitem__)


class _Crossover(NamedTuple):
    """A size from which on another device is faster."""

    size: float
    before: str
    after: str


@models.callback()
@with_options()
def list_models(context: typer.Context, folder: Path | None = None) -> None:
    """List the functions whose run times are kept on disk.

    `HybridExecutor` measures the functions that `auto` and `task` make, and its next start begins with these times.

    \b
    Examples:
      hybrid-scheduler models
      hybrid-scheduler models show my_program.step --plot step.png
      hybrid-scheduler models clear --yes
    """
    command: CommandContext = context.obj
    printer = command.printer
    if context.invoked_subcommand is not None:
        if printer.as_json or folder:
            name = context.invoked_subcommand
            raise InvalidInputError("--json" if printer.as_json else "--folder", f"after {name}", f"before {name}")
        return
    where = _folder(folder)
    found = _read(command, where)
    document = {"folder": str(where), "functions": [_entry(entry) for entry in found]}
    printer.outcome(document, lambda: _list(printer, where, found))


def _list(printer: Printer, where: Path, found: list[_Model]) -> None:
    if not found:
        printer.text(f"{where}: no run times are kept here")
        return
    machines = {entry.file.machine: entry.file.description for entry in found}
    columns = [
        Column("function", [entry.name for entry in found], number=False),
        Column("code", [Text(entry.code[:6], "dim") for entry in found], 4, number=False),
        Column("devices", [", ".join(entry.devices) for entry in found], 1, number=False),
        Column("sizes", [str(len({(row.signature, *row.sizes) for row in entry.rows})) for entry in found], 2),
        Column("runs", [f"{sum(row.runs for row in entry.rows):,}" for entry in found], 1),
        Column("last measured", [_time(entry.measured_at) for entry in found], 3, number=False),
    ]
    if len(machines) > 1:
        columns.append(Column("machine", [entry.file.machine for entry in found], 2, number=False))
    printer.table(columns)
    printer.text()
    for machine, description in machines.items():
        printer.text(f"machine {machine}: {description}", "dim")


@models.command()
@with_options()
def show(
    command: CommandContext,
    function: str,
    /,
    plot: Path | None = None,
    folder: Path | None = None,
) -> None:
    """Show a function's run times by size and device, and where another device becomes faster.

    Copies between devices are not part of these times; the executor adds them for each call.

    Example: hybrid-scheduler models show step --plot step.png

    Parameters
    ----------
    function : FUNCTION
        Function: its name, the end of its name, or NAME:CODE for an older version.
    plot : FILE.png
        Draw the run times.
    """
    if plot is not None and plot.suffix.lower() != ".png":
        raise InvalidInputError("--plot", "a file name that ends in .png", plot)
    matching = _matching(_read(command, _folder(folder)), function)
    model = max(matching, key=lambda one: one.measured_at)
    tables = list(_tables(model))
    document = {
        **_entry(model),
        "calls": [_call_entry(call, signature) for signature, calls, _ in tables for call in calls],
        "crossovers": [{"signature": kind, **entry._asdict()} for kind, _, found in tables for entry in found],
    }
    others = sorted(f"{entry.name}:{entry.code[:6]}" for entry in matching if entry is not model)
    command.printer.outcome(document, lambda: _print(command.printer, model, tables, others))
    if plot is not None:
        from ..reports.figure_style import save_png, style_context

        with style_context():
            save_png(_draw(model, tables), plot)
        command.printer.note(f"wrote {plot}")


@models.command()
@with_options()
def clear(
    command: CommandContext,
    function: str | None = None,
    /,
    yes: bool = False,
    folder: Path | None = None,
) -> None:
    """Delete the run times of a function, or all of them.

    The executor then measures anew. Without a function also files of older versions and damaged ones are deleted.

    Example: hybrid-scheduler models clear step --yes

    Parameters
    ----------
    function : [FUNCTION]
        Function: its name, the end of its name, or NAME:CODE for an older version.
    yes
        Do not ask.
    """
    from ..runtime.duration_store import delete_durations, duration_paths

    where = _folder(folder)
    found = _read(command, where, warn=function is not None)
    chosen = found if function is None else _matching(found, function)
    files = duration_paths(where) if function is None else sorted({model.path for model in chosen})
    names = f"the run times of {len(chosen)} function{'' if len(chosen) == 1 else 's'} in {where}"
    if files and not yes:
        if not sys.stdin.isatty():
            raise InvalidInputError("--yes", f"given, to delete {names}", "no --yes", hint="add --yes")
        command.printer.calm()
        typer.confirm(f"Delete {names}?", abort=True, err=True)
    for path in files:
        keys = None if function is None else {model.key for model in chosen if model.path == path}
        delete_durations(path, keys)
    document = {"folder": str(where), "deleted": [_entry(model) for model in chosen]}
    words = f"deleted {names}" if files else f"{where}: no run times are kept here"
    command.printer.outcome(document, lambda: command.printer.text(words))


# ------------------------------------------------------------------------------------------ reading


def _folder(given: Path | None) -> Path:
    from ..runtime.duration_store import duration_folder

    if given is not None and not given.is_dir():
        raise InvalidInputError("--folder", "a folder", given, hint="leave it out for the user's cache folder")
    return given or duration_folder()


def _read(command: CommandContext, folder: Path, *, warn: bool = True) -> list[_Model]:
    """Return the functions of all files in a folder, by name."""
    from ..runtime.duration_store import duration_paths, read_duration_file

    found: list[_Model] = []
    for path in duration_paths(folder):
        try:
            file = read_duration_file(path)
        except (OSError, ValueError) as error:
            if warn:
                command.show_warning(f"{path}: not read: {error}")
            continue
        rows: dict[str, list[StoredRun]] = {}
        for row in file.rows:
            rows.setdefault(row.function, []).append(row)
        found += [_Model(path, file, key, kept) for key, kept in rows.items()]
    return sorted(found, key=lambda one: (one.name, -one.measured_at))


def _matching(found: list[_Model], function: str) -> list[_Model]:

    if not found:
        raise InvalidInputError("FUNCTION", "one whose run times are kept; there is none", function)
    name, _, code = function.partition(":")
    for matches in (
        [entry for entry in found if entry.name == name and entry.code.startswith(code)],
        [entry for entry in found if entry.name.endswith(f".{name}") and entry.code.startswith(code)],
    ):
        if matches:
            return matches
    raise UnknownNameError("FUNCTION", function, {entry.name for entry in found})


def _tables(model: _Model) -> Iterator[tuple[str, list[_Call], list[_Crossover]]]:
    """Yield (types of the arguments, calls by size, crossovers) for each kind of call."""
    import json

    from ..runtime.function_durations import FunctionDurations
    from ..runtime.task_function import CallSizes

    learned = FunctionDurations()
    learned.restore([list(row[:7]) for row in model.rows])
    calls: dict[str, dict[CallSizes, dict[str, int]]] = {}
    for function, device, call, _, runs in learned.rows():
        assert function == model.key
        calls.setdefault(json.dumps(call.signature), {}).setdefault(call, {})[device] = runs
    for signature in sorted(calls, key=lambda one: -len(calls[one])):
        devices = sorted({device for measured in calls[signature].values() for device in measured})
        rows = []
        for call, measured in calls[signature].items():
            seconds = {
                device: estimate.seconds
                for device in devices
                if (estimate := learned.predict(model.key, device, call)) is not None
            }
            size = math.prod(map(math.expm1, call.sizes))
            rows.append(_Call(_arguments(call), call.nbytes, call.nbytes or size, seconds, measured))
        rows.sort(key=lambda one: (one.size, one.arguments))
        yield signature, rows, _crossovers(rows)


def _crossovers(calls: list[_Call]) -> list[_Crossover]:
    """Return the sizes at which another device becomes the fastest, between two neighbours on a log scale."""
    found = []
    for low, high in pairwise(calls):
        before = low.best
        after = high.best
        if before == after or high.size <= low.size or low.size <= 0:
            continue
        lead = math.log(low.seconds[after] / low.seconds[before])
        gain = math.log(high.seconds[before] / high.seconds[after])
        share = lead / (lead + gain) if lead + gain > 0 else 0.5
        found.append(_Crossover(low.size * (high.size / low.size) ** share, before, after))
    return found


def _arguments(call: Any) -> str:
    """Return the arguments of a call as text: 512×512 float64, 7."""
    sizes = [round(math.expm1(size)) for size in call.sizes]
    if call.signature == ("size",):
        return f"size {significant(math.expm1(call.sizes[0]))}"
    words = []
    for part in call.signature:
        if isinstance(part, tuple) and len(sizes) >= part[0]:
            shape = sizes[: part[0]]
            sizes = sizes[part[0] :]
            words.append(f"{'×'.join(map(str, shape)) or 'scalar'} {part[1].removeprefix('torch.')}")
        elif part == "int" and sizes:
            words.append(str(sizes.pop(0)))
        else:
            words.append(str(part))
    return ", ".join(words) or "no arguments"


def _kinds(signature: str) -> str:
    """Return the types of a call's arguments as text: rank 2 float64, int."""
    import json

    words = [f"rank {item[0]} {item[1]}" if isinstance(item, list) else str(item) for item in json.loads(signature)]
    return ", ".join(words) or "no arguments"


# ------------------------------------------------------------------------------------------ showing


def _print(
    printer: Printer, model: _Model, tables: list[tuple[str, list[_Call], list[_Crossover]]], others: list[str]
) -> None:
    printer.facts([model.name, f"code {model.code[:6]}", f"measured {_time(model.measured_at)}"])
    printer.text(f"machine {model.file.machine}: {model.file.description}", "dim")
    for _, calls, crossovers in tables:
        devices = sorted({device for call in calls for device in call.seconds})
        unit = unit_for([second for call in calls for second in call.seconds.values()], SECONDS)
        columns = [
            Column("arguments", [call.arguments for call in calls], number=False),
            Column("bytes", [with_unit(call.nbytes, BYTES) for call in calls], 1),
        ]
        for device in devices:
            cells = [
                ("" if device in call.runs else "~") + unit.show(call.seconds[device])
                if device in call.seconds
                else NOTHING
                for call in calls
            ]
            best = frozenset(row for row, call in enumerate(calls) if call.best == device)
            columns.append(
                Column(f"{device}\n{unit.symbol}", cells, best=best if len(devices) > 1 else frozenset())
            )
        columns.append(Column("fastest", [call.best for call in calls], 1, number=False))
        printer.text()
        printer.table(columns)
        for crossover in crossovers:
            size = with_unit(crossover.size, BYTES) if calls[0].nbytes else f"size {significant(crossover.size)}"
            printer.text(f"from about {size} on, {crossover.after} is faster than {crossover.before}")
    remark = "~: not measured at this size; estimated from others. Copies between devices are not included."
    printer.text()
    printer.text(remark, "dim")
    if others:
        printer.note(f"also kept: {', '.join(others)}")


def _draw(model: _Model, tables: list[tuple[str, list[_Call], list[_Crossover]]]) -> Figure:
    from ..reports.figure_style import heading, new_figure

    shown = tables[:_MAX_PANELS]
    figure = new_figure(7.0, 3.4 * len(shown), above=0.02)
    devices = sorted({device for _, calls, _ in shown for call in calls for device in call.seconds})
    for number, (signature, calls, crossovers) in enumerate(shown):
        axes = figure.add_subplot(len(shown), 1, number + 1)
        for index, device in enumerate(devices):
            line = [(call.size, call.seconds[device]) for call in calls if device in call.seconds]
            dots = [(call.size, call.seconds[device]) for call in calls if device in call.runs]
            if line:
                axes.plot(*zip(*line, strict=True), "-", color=f"C{index}", linewidth=1.0, label=device)
                axes.plot(*zip(*dots, strict=True), "o", color=f"C{index}", markersize=4)
        for crossover in crossovers:
            axes.axvline(crossover.size, color="0.5", linestyle=":", linewidth=1.0)
        axes.set_xscale("log" if min(call.size for call in calls) > 0 else "symlog")
        axes.set_yscale("log")
        axes.set_xlabel("bytes of the arguments" if calls[0].nbytes else "size of the call")
        axes.set_ylabel("seconds")
        axes.legend()
        heading(
            axes, chr(ord("a") + number), model.name, f"arguments {signature}; dotted: another device is faster"
        )
    return figure


def _entry(model: _Model) -> dict[str, Any]:
    return {
        "function": model.name,
        "code": model.code,
        "machine": model.file.machine,
        "machine_description": model.file.description,
        "devices": model.devices,
        "sizes": len({(row.signature, *row.sizes) for row in model.rows}),
        "runs": sum(row.runs for row in model.rows),
        "measured_at": _time(model.measured_at),
    }


def _call_entry(call: _Call, signature: str) -> dict[str, Any]:
    return {
        "signature": signature,
        "arguments": call.arguments,
        "bytes": call.nbytes,
        "size": call.size,
        "fastest": call.best,
        "devices": {
            device: {"seconds": seconds, "runs": call.runs.get(device, 0)}
            for device, seconds in call.seconds.items()
        },
    }


def _time(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
