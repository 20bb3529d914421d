"""`hybrid-scheduler db`: commands that create, upgrade and check the database, and delete runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .command_context import CommandContext
from .options import JsonOption
from .printer import Column

if TYPE_CHECKING:
    from ..storage import DatabaseAddress

db = typer.Typer(
    name="db",
    help="Create, upgrade and check the database; delete runs.",
    no_args_is_help=False,
    rich_markup_mode=None,
    add_completion=False,
)

_Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Database to use instead of the settings': sqlite:///FILE or postgresql://…",
        show_default=False,
    ),
]


@db.command()
def init(context: typer.Context, url: _Url = None) -> None:
    """Create the tables.

    A database that already has them is not changed.

    Example: hybrid-scheduler db init
    """
    _upgrade(context.obj, url)


@db.command()
def upgrade(context: typer.Context, url: _Url = None) -> None:
    """Upgrade the tables to this version.

    The engine does the same when it starts.

    Example: hybrid-scheduler db upgrade
    """
    _upgrade(context.obj, url)


@db.command()
def verify(
    context: typer.Context,
    url: _Url = None,
    as_json: JsonOption = False,
) -> None:
    """Check the schema, the file and the rows without changing them.

    The exit code is 1 if something is wrong.

    Example: hybrid-scheduler db verify
    """
    from ..storage.integrity_check import verify as check

    command: CommandContext = context.obj
    address = _address(command, url)
    findings = check(address)
    wrong = [finding.name for finding in findings if not finding.ok]
    if as_json:
        content = {"ok": not wrong, "database": str(address), "checks": [each._asdict() for each in findings]}
        command.printer.document(content)
    else:
        signs = [Text("✓", "green") if finding.ok else Text("✗", "red") for finding in findings]
        command.printer.table(
            [
                Column("", signs, number=False),
                Column("", [finding.name for finding in findings], number=False),
                Column("", [Text(finding.detail) for finding in findings], number=False, flexible=True),
            ]
        )
        command.printer.text(f"{address}: " + (f"wrong: {', '.join(wrong)}" if wrong else "all checks passed"))
    if wrong:
        raise typer.Exit(1)


@db.command("delete-run")
def delete_run(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run to delete.", show_default=False)],
    url: _Url = None,
) -> None:
    """Delete a run with its tasks, results, events and model versions.

    No engine may use the database; a running server deletes runs itself (DELETE /api/runs/ID).

    Example: hybrid-scheduler db delete-run 01KA6X7QH9T3B8ZP4M2N5R6S7V
    """
    from ..storage.retention import delete_run_offline

    command: CommandContext = context.obj
    address = _address(command, url)
    tasks = delete_run_offline(address, run_id)
    command.printer.text(f"{address}: run {run_id} and its {tasks:,} tasks are deleted")


def _upgrade(command: CommandContext, url: str | None) -> None:
    from ..storage.schema_version import upgrade as bring_up_to_date

    address = _address(command, url)
    before, after = bring_up_to_date(address)
    if before == after:
        command.printer.text(f"{address}: is up to date (version {after})")
    elif before is None:
        command.printer.text(f"{address}: created (version {after})")
    else:
        command.printer.text(f"{address}: upgraded from version {before} to {after}")


def _address(command: CommandContext, url: str | None) -> DatabaseAddress:
    settings = command.settings()
    if url is None:
        return settings.storage.address()
    from ..storage import DatabaseAddress

    return DatabaseAddress.from_url(url)
