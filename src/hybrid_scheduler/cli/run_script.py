"""Declaration of the command `run` for the help and for shared options before its name; `run` executes it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .run import main

#: What follows the script belongs to it, whatever it looks like.
SETTINGS: dict[str, Any] = {
    "context_settings": {
        "allow_interspersed_args": False,
        "allow_extra_args": True,
        "ignore_unknown_options": True,
    },
    "options_metavar": "[OPTIONS] SCRIPT [ARGUMENTS]",
}


def run(
    context: typer.Context,
    module: Annotated[
        str | None, typer.Option("--module", "-m", metavar="MODULE", help="Run a module, as python -m does.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Functions or modules to intercept: solve,numpy.fft", show_default=False
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", help="auto, or gpu for every call that has a GPU variant.")
    ] = "auto",
    explain: Annotated[
        bool, typer.Option("--explain", help="Print a table of calls and times at the end.")
    ] = False,
) -> None:
    """Run an unchanged Python script; heavy NumPy and SciPy calls choose between CPU and GPU.

    Example: hybrid-scheduler run --explain script.py
    """
    quiet = bool(context.parent and context.parent.params.get("quiet"))
    words = ["--device", device, *(["--only", only] if only else []), *(["--explain"] if explain else [])]
    main([*words, *(["-q"] if quiet else []), *(["-m", module] if module else []), *context.args])
