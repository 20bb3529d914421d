"""`hybrid-scheduler calibrate`: duration models fitted to a hardware profile, and their error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .command_context import CommandContext
from .options import JsonOption
from .printer import NOTHING, Column, Printer
from .profile import PROFILE

if TYPE_CHECKING:
    from ..profiling.calibration import Calibration
    from ..profiling.hardware_profile import Profile

#: Largest median error of a kernel whose predictions count as good.
_GOOD = 0.15
_HOST_MEMORY = "pinned"


def calibrate(
    context: typer.Context,
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROFILE]", help="Profile to read: a file, or a built-in one such as h200 or cpu_only."
        ),
    ] = None,
    host_memory: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Host memory of GPU copies: pinned or pageable.", show_default=_HOST_MEMORY
        ),
    ] = None,
    old_host_memory: Annotated[str | None, typer.Option("--road", hidden=True)] = None,
    starpu: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Read StarPU performance models from this folder instead.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="NAME", help="Machine of the StarPU models, such as mirage.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the profile that was read to this file, for instance StarPU's."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit duration models to a hardware profile, and test them.

    There is one model per kernel and device, tested on sizes that were left out of its fit. Without an argument
    the command reads the profile that `hybrid-scheduler profile` wrote.

    \b
    Examples:
      hybrid-scheduler calibrate
      hybrid-scheduler calibrate h200 --json
      hybrid-scheduler calibrate --starpu sampling --machine mirage --out mirage.json
    """
    command: CommandContext = context.obj
    command.settings()
    from ..profiling.calibration import calibrate as fit
    from ..profiling.hardware_profile import save_profile

    read = _read(profile, starpu, machine)
    memory = command.renamed_option("--road", old_host_memory, "--host-memory", host_memory) or _HOST_MEMORY
    found = fit(read, transfer=memory)
    if out is not None:
        save_profile(read, out)
        command.printer.note(f"wrote {out}")
    if as_json:
        command.printer.document({"machine": read.machine.as_dict(), **found.as_dict()})
    else:
        _show(command.printer, read, found)


def _read(profile: str | None, starpu: Path | None, machine: str | None) -> Profile:
    from ..core import InvalidInputError
    from ..profiling.hardware_profile import profile_named, shipped_profiles
    from ..profiling.starpu_models import read_starpu

    if starpu is not None:
        if profile is not None:
            raise InvalidInputError("PROFILE", "left out when --starpu is given", profile)
        if machine is None:
            raise InvalidInputError("--machine", "the suffix of the files' names, such as mirage", None)
        return read_starpu(starpu, machine)
    if profile is None and not PROFILE.exists():
        hint = f"hybrid-scheduler profile measures this machine; built-in are {', '.join(shipped_profiles())}"
        raise InvalidInputError("PROFILE", "given, since this machine was not profiled yet", None, hint=hint)
    return profile_named(profile or PROFILE)


def _show(printer: Printer, profile: Profile, found: Calibration) -> None:
    machine = profile.machine
    printer.facts([machine.cpu, *([machine.gpu.name] if machine.gpu else []), f"machine {machine.id}"])
    printer.text()
    kinds = [one.kind for one in found.held_out]
    names = [kind if i == 0 or kinds[i - 1] != kind else "" for i, kind in enumerate(kinds)]
    by_kind = [_percent(found.by_kind[kind]) if name else "" for kind, name in zip(kinds, names, strict=True)]
    good = frozenset(i for i, kind in enumerate(kinds) if names[i] and (found.by_kind[kind] or 1.0) <= _GOOD)
    printer.table(
        [
            Column("kernel", names, number=False),
            Column("held-out\nerror", by_kind, best=good),
            Column("device", [one.device for one in found.held_out], number=False),
            Column("median", [_percent(one.median) for one in found.held_out]),
            Column("worst", [_percent(one.worst) for one in found.held_out], 2),
            Column("sizes", [str(one.points) for one in found.held_out], 3),
            Column("form", [one.form for one in found.held_out], 1, number=False),
        ]
    )
    printer.text()
    printer.text(Text(_headline(found), style="bold"))


def _headline(found: Calibration) -> str:
    known = {kind: error for kind, error in found.by_kind.items() if error is not None}
    if not known:
        return "too few sizes to leave one out: the error is unknown"
    worst = max(known, key=lambda kind: known[kind])
    within = sum(error <= _GOOD for error in known.values())
    return (
        f"{within} of {len(known)} kernels within {100 * _GOOD:.0f}% (median over left-out sizes); "
        f"worst {worst} with {_percent(known[worst])}"
    )


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f}%"
