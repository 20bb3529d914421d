"""`hybrid-scheduler doctor`: is everything there that the program needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .command_context import CommandContext
from .table import Column

if TYPE_CHECKING:
    from .diagnostics import Check

_SIGNS = {"ok": ("✓", "green"), "info": ("·", "dim"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Check Python, packages, compiler, settings and the machine.

    Exit code 1 if something necessary is missing. What is optional is only mentioned.

    Example: hybrid-scheduler doctor
    """
    from .diagnostics import run_diagnostics

    command: CommandContext = context.obj
    checks = run_diagnostics(command.config_file)
    failed = list(dict.fromkeys(check.name for check in checks if check.status == "failed"))
    if as_json:
        command.printer.document({"ok": not failed, "checks": [check.as_dict() for check in checks]})
    else:
        command.printer.sheet(_lines(checks))
        command.printer.text(f"not ready: {', '.join(failed)}" if failed else "ready")
    if failed:
        raise typer.Exit(1)


def _lines(checks: list[Check]) -> list[Column]:
    """A sign, a name and what was found; the hint, where there is one, on a line of its own."""
    signs, names, details = [], [], []
    for check in checks:
        signs.append(Text(*_SIGNS[check.status]))
        names.append(check.name)
        details.append(Text(check.detail))
        if check.hint:
            signs.append(Text())
            names.append("")
            details.append(Text.assemble(("hint:", "bold cyan"), f" {check.hint}"))
    return [
        Column("", signs, number=False),
        Column("", names, number=False),
        Column("", details, number=False, flexible=True),
    ]
