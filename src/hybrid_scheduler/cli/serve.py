"""`hybrid-scheduler serve`: server of the live run, its REST interface and its dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ..core import InvalidInputError
from .command_context import CommandContext
from .options import MACHINE, Inputs, with_options

if TYPE_CHECKING:
    from ..server.composition import RunningServer


@with_options(("scenario", "utilisation", "seed", "schedulers", *MACHINE), json=False)
def serve(
    context: typer.Context,
    inputs: Inputs,
    host: str | None = None,
    port: str | None = None,
    role: str = "all",
    repeat: bool = False,
    speed: str | None = None,
    no_start: bool = False,
) -> None:
    """Start the server: a live run, its API and its dashboard.

    The command starts a new run, or resumes the one that was in progress. All results are kept in the database.
    Ctrl-C stops the server; the next start resumes the run, also without its options. Other options, or a changed
    configuration, start a new run. A trace is played with its own arrivals at the run's
    speed, or at the load of --utilisation; a restart continues at its next task. A run without --scenario, --trace
    and --slowdown has a slowdown of its own, which --slowdown none leaves out.

    \b
    Examples:
      hybrid-scheduler serve
      hybrid-scheduler serve --scenario rush-hour --speed 4
      hybrid-scheduler serve --trace week.csv --speed 60 --repeat
      API_TOKEN=$(openssl rand -hex 32) hybrid-scheduler serve --host 0.0.0.0

    Parameters
    ----------
    trace
        Play the tasks of a file, or of a stored trace by its name.
    host : ADDRESS
        Address to listen on; any other than 127.0.0.1 needs a token.
    port : N
        Port to listen on; 0 takes any free one.
    role : NAME
        all, or engine and api for two processes that share PostgreSQL.
    repeat
        Begin the trace again at its end; otherwise the run ends there.
    speed : X
        Simulated seconds per real second.
    no_start
        Do not start the run; wait for the dashboard or the API to start it.
    """
    # Imported here, because --help does not need the web framework.
    from ..server.server_process import serve as run_server

    command: CommandContext = context.obj
    command.keeps_log = True
    from ..config import load_settings

    inputs.check()
    if repeat and inputs.trace is None:
        raise InvalidInputError("--repeat", "left out without --trace", repeat)
    settings = inputs.settings(
        command,
        {
            "server.host": host,
            "server.port": port,
            "simulation.utilisation": None if inputs.trace else inputs.utilisation,
            "live.trace": inputs.trace,
            "live.trace_load": inputs.utilisation if inputs.trace else None,
            "live.repeat": "true" if repeat else None,
            "live.speed": speed,
        },
    )
    command.after_interrupt = "the run is kept; serve resumes it"

    def ready(url: str, running: RunningServer) -> None:
        if not url:
            command.printer.text(f"engine on {running.address.redacted}   (Ctrl-C stops; the run is kept)")
        elif running.context.static is None:
            command.printer.text(f"API  {url}/api/status   (dashboard not built; Ctrl-C stops; the run is kept)")
        else:
            command.printer.text(f"dashboard  {url}   (Ctrl-C stops; the run is kept)")

    given_speed = settings.live.speed if speed is not None else None
    defaults = load_settings(command.config_file)
    run_server(settings, role=role, start=not no_start, speed=given_speed, ready=ready, defaults=defaults)
