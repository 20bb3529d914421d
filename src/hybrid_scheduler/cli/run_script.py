"""Declaration of the command `run` for the help and for shared options before its name; `run` executes it."""

from __future__ import annotations

from typing import Any

import typer

from .options import with_options
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


@with_options(json=False, module={"names": ("-m",)})
def run(
    context: typer.Context,
    module: str | None = None,
    only: str | None = None,
    device: str = "auto",
    explain: bool = False,
) -> None:
    """Run an unchanged Python script; heavy NumPy and SciPy calls choose between CPU and GPU.

    Example: hybrid-scheduler run --explain script.py

    Parameters
    ----------
    module : MODULE
        Run a module, as python -m does.
    only : NAMES
        Functions or modules to intercept: solve,numpy.fft
    device : DEVICE
        auto, or gpu for every call that has a GPU variant.
    explain
        Print a table of calls and times at the end.
    """
    quiet = ["-q"] if context.obj.printer.quiet else []
    words = ["--device", device, *(["--only", only] if only else []), *(["--explain"] if explain else [])]
    main([*words, *quiet, *(["-m", module] if module else []), *context.args])
