"""`hybrid-scheduler schedulers`: who can be compared, and what each is allowed to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from .command_context import CommandContext
from .table import Column

if TYPE_CHECKING:
    from ..schedulers import SchedulerInfo

_KNOWS = {"nothing": "nothing", "told": "told times", "realised": "real times"}


def schedulers(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """List every scheduler with its rule and its parameters.

    Example: hybrid-scheduler schedulers --json
    """
    command: CommandContext = context.obj
    from ..schedulers import schedulers as registered

    known = list(registered().values())
    if as_json:
        command.printer.document({"schedulers": [_entry(info) for info in known]})
        return
    names = [Text.assemble((info.look.glyph, info.look.dark), " ", info.name) for info in known]
    rules = [Text.assemble(info.summary, (_parameters(info), "dim")) for info in known]
    command.printer.sheet(
        [
            Column("scheduler", names, number=False),
            Column("protocol", [info.protocol for info in known], 2, number=False),
            Column("knows", [_KNOWS.get(info.knows, str(info.knows)) for info in known], 1, number=False),
            Column("rule, parameters", rules, number=False, flexible=True),
        ]
    )


def _entry(info: SchedulerInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "label": info.label,
        "glyph": info.look.glyph,
        "color": {"dark": info.look.dark, "light": info.look.light},
        "protocol": info.protocol,
        "knows": str(info.knows),
        "published": info.published,
        "summary": info.summary,
        "parameters": info.parameters,
    }


def _parameters(info: SchedulerInfo) -> str:
    return "".join(f" {name}={_short(value)}" for name, value in info.parameters.items())


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 20 else "…"
