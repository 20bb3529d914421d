"""`hybrid-scheduler calibrate`: how well can times on this machine be predicted?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .command_context import CommandContext
from .number_format import NOTHING
from .printer import Printer
from .profile import PROFILE
from .table import Column

if TYPE_CHECKING:
    from ..profiling.calibration import Calibration
    from ..profiling.hardware_profile import Profile

#: Median error of a kind from which predictions of it are called poor.
GOOD = 0.15


def calibrate(
    context: typer.Context,
    profile: Annotated[
        str | None, typer.Argument(metavar="[PROFILE]", help="A file, or a shipped one such as h200 or cpu_only.")
    ] = None,
    road: Annotated[
        str, typer.Option(metavar="NAME", help="Memory that GPU copies start from: pinned or pageable.")
    ] = "pinned",
    starpu: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Read StarPU performance models from here instead.")
    ] = None,
    machine: Annotated[str | None, typer.Option(metavar="NAME", help="Which of StarPU's machines.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the profile that was read, for instance StarPU's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Fit times per kind and device to a hardware profile, and test them on sizes that were left out.

    Without an argument the profile that `hybrid-scheduler profile` wrote is read.

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
    found = fit(read, transfer=road)
    if out is not None:
        save_profile(read, out)
        command.printer.note(f"wrote {out}")
    if as_json:
        command.printer.document({"machine": read.machine.as_dict(), **found.as_dict()})
    else:
        show(command.printer, read, found)


def _read(profile: str | None, starpu: Path | None, machine: str | None) -> Profile:
    from ..core import InvalidInputError
    from ..profiling.hardware_profile import profile_named, shipped_profiles
    from ..profiling.starpu_models import read_starpu

    if starpu is not None:
        if profile is not None:
            raise InvalidInputError("PROFILE", "left out when --starpu is given", profile)
        if machine is None:
            raise InvalidInputError("--machine", "the ending of the files' names, such as mirage", None)
        return read_starpu(starpu, machine)
    if profile is None and not PROFILE.exists():
        hint = f"hybrid-scheduler profile measures this machine; shipped are {', '.join(shipped_profiles())}"
        raise InvalidInputError("PROFILE", "given, since this machine was not profiled yet", None, hint=hint)
    return profile_named(profile or PROFILE)


def show(printer: Printer, profile: Profile, found: Calibration) -> None:
    machine = profile.machine
    printer.facts([machine.cpu, *([machine.gpu.name] if machine.gpu else []), f"machine {machine.id}"])
    printer.text()
    kinds = [one.kind for one in found.held_out]
    names = [kind if i == 0 or kinds[i - 1] != kind else "" for i, kind in enumerate(kinds)]
    by_kind = [_percent(found.by_kind[kind]) if name else "" for kind, name in zip(kinds, names, strict=True)]
    good = frozenset(i for i, kind in enumerate(kinds) if names[i] and (found.by_kind[kind] or 1.0) <= GOOD)
    printer.sheet(
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
    printer.text(Text(headline(found), style="bold"))


def headline(found: Calibration) -> str:
    known = {kind: error for kind, error in found.by_kind.items() if error is not None}
    if not known:
        return "too few sizes to leave one out: the error is unknown"
    worst = max(known, key=lambda kind: known[kind])
    within = sum(error <= GOOD for error in known.values())
    return (
        f"{within} of {len(known)} kernels within {100 * GOOD:.0f}% (median over left-out sizes); "
        f"worst {worst} with {_percent(known[worst])}"
    )


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f}%"
