"""`hybrid-scheduler db`: commands that create, upgrade and check the database, and delete runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from .command_context import CommandContext
from .options import with_options

if TYPE_CHECKING:
    from ..storage import DatabaseAddress

db = typer.Typer(
    name="db",
    help="Create, upgrade and check the database; delete runs.",
    no_args_is_help=False,
    rich_markup_mode=None,
    add_completion=False,
)


@db.command()
@with_options(json=False)
def init(command: CommandContext, url: str | None = None) -> None:
    """Create the tables.

    A database that already has them is not changed.

    Example: hybrid-scheduler db init
    """
    _upgrade(command, url)


@db.command()
@with_options(json=False)
def upgrade(command: CommandContext, url: str | None = None) -> None:
    """Upgrade the tables to this version.

    The engine does the same when it starts.

    Example: hybrid-scheduler db upgrade
    """
    _upgrade(command, url)


@db.command()
@with_options()
def verify(command: CommandContext, url: str | None = None) -> None:
    """Check the schema, the file and the rows without changing them.

    The exit code is 1 if something is wrong.

    Example: hybrid-scheduler db verify
    """
    from ..storage.integrity_check import verify as check

    address = _address(command, url)
    findings = check(address)
    wrong = [finding.name for finding in findings if not finding.ok]
    document = {"ok": not wrong, "database": str(address), "checks": [each._asdict() for each in findings]}
    checks = [(found.name, "ok" if found.ok else "failed", found.detail, None) for found in findings]
    summary = f"{address}: " + (f"wrong: {', '.join(wrong)}" if wrong else "all checks passed")
    command.printer.outcome(document, lambda: command.printer.checks(checks, summary))
    if wrong:
        raise typer.Exit(1)


@db.command("delete-run")
@with_options(json=False)
def delete_run(command: CommandContext, run_id: str, /, url: str | None = None) -> None:
    """Delete a run with its tasks, results, events and model versions.

    No engine may use the database; a running server deletes runs itself (DELETE /api/runs/ID).

    Example: hybrid-scheduler db delete-run 01KA6X7QH9T3B8ZP4M2N5R6S7V

    Parameters
    ----------
    run_id : ID
        The run to delete.
    """
    from ..storage.retention import delete_run_offline

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
