"""Reference page of the command line: every command with its help."""

from __future__ import annotations

import re
from typing import Any

from .tools import NOTE, first_paragraph, sections, table

#: Terminal width of the help texts.
_WIDTH = 100


def cli_commands() -> dict[str, Any]:
    """Every command of the program by its full name, groups' own commands included: `db init`."""
    import typer

    from hybrid_scheduler.cli.app import app

    found: dict[str, Any] = {}

    def walk(group: Any, prefix: str) -> None:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                walk(command, f"{prefix}{name} ")
            found[prefix + name] = command

    walk(typer.main.get_command(app), "")
    return found


def _help(command: Any, name: str) -> str:
    context = command.context_class(command, info_name=name, terminal_width=_WIDTH, max_content_width=_WIDTH)
    context.help_option_names = ["-h", "--help"]
    return re.sub(r"[ \t]+$", "", str(command.get_help(context)), flags=re.MULTILINE)


def cli_page() -> str:
    import typer

    from hybrid_scheduler.cli.app import app

    commands = cli_commands()
    rows = [
        (f"[`{name}`](#{name.replace(' ', '-')})", first_paragraph(command.help))
        for name, command in commands.items()
    ]
    parts = [
        NOTE + "# Command line\n\n`hybrid-scheduler` is in `.venv/bin` after the set-up, and on the path after "
        "`source .venv/bin/activate` or `pip install`. Results go to stdout, messages to stderr; `--json` prints "
        "one document.\n",
        table(("command", "purpose"), rows),
        "## The program\n\n```text\n" + _help(typer.main.get_command(app), "hybrid-scheduler") + "\n```\n",
    ]
    parts += [
        f"## {name}\n\n```text\n{_help(command, f'hybrid-scheduler {name}')}\n```\n"
        for name, command in commands.items()
    ]
    return sections(parts)
