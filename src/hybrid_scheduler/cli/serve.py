"""`hybrid-scheduler serve`: the live run, its interface and its dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .command_context import CommandContext
from .options import UtilisationOption

if TYPE_CHECKING:
    from ..server.composition import RunningServer


def serve(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where to listen; another than 127.0.0.1 needs a token.")
    ] = None,
    port: Annotated[str | None, typer.Option(metavar="N", help="Port to listen on, 0 for any free one.")] = None,
    role: Annotated[
        str, typer.Option(metavar="NAME", help="all, or engine and api in two processes over PostgreSQL.")
    ] = "all",
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME", help="Mix of tasks, such as default or mixed.")
    ] = None,
    utilisation: UtilisationOption = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Same seed, same tasks.")] = None,
    speed: Annotated[str | None, typer.Option(metavar="X", help="Virtual seconds per second.")] = None,
    schedulers: Annotated[str | None, typer.Option(metavar="A,B", help="Who takes part.")] = None,
    no_start: Annotated[bool, typer.Option("--no-start", help="Wait for somebody to start the run.")] = False,
) -> None:
    """Run without end and show it in the browser.

    Begins a run, or goes on with the one that was under way. Everything is kept in the database; Ctrl-C ends the
    server and not the run.

    \b
    Examples:
      hybrid-scheduler serve
      hybrid-scheduler serve --scenario rush-hour --speed 4
      API_TOKEN=$(openssl rand -hex 32) hybrid-scheduler serve --host 0.0.0.0
    """
    # Not above: these bring the web framework, which --help does not need.
    from ..server.server_process import serve as run_server
    from .compile_notice import announced

    command: CommandContext = context.obj
    settings = command.settings(
        {
            "server.host": host,
            "server.port": port,
            "simulation.scenario": scenario,
            "simulation.utilisation": utilisation,
            "simulation.seed": seed,
            "live.speed": speed,
            "simulation.schedulers": schedulers,
        }
    )
    command.after_interrupt = "the run is kept; serve goes on with it"

    def ready(url: str, running: RunningServer) -> None:
        if not url:
            command.printer.text(f"engine on {running.address.redacted}   (Ctrl-C stops; the run is kept)")
        elif running.context.static is None:
            command.printer.text(f"API  {url}/api/status   (dashboard not built; Ctrl-C stops; the run is kept)")
        else:
            command.printer.text(f"dashboard  {url}   (Ctrl-C stops; the run is kept)")

    with announced(command.printer.note):
        chosen = settings.live.speed if speed is not None else None
        run_server(settings, role=role, start=not no_start, speed=chosen, ready=ready)
