"""`hybrid-scheduler schedulers`: list of the registered schedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from .command_context import CommandContext
from .options import JsonOption
from .table import Column

if TYPE_CHECKING:
    from ..schedulers import SchedulerInfo

_KNOWLEDGE = {"nothing": "nothing", "told": "durations", "realised": "real durations"}


def schedulers(
    context: typer.Context,
    as_json: JsonOption = False,
) -> None:
    """List every scheduler with its rule and its parameters.

    The column "knows" says which durations a scheduler may use: none, expected ones, or the real ones.

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
    command.printer.table(
        [
            Column("scheduler", names, number=False),
            Column("protocol", [info.protocol for info in known], 2, number=False),
            Column("knows", [_KNOWLEDGE.get(info.knows, str(info.knows)) for info in known], 1, number=False),
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
