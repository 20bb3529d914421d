"""The command line: thin commands, one printer."""

import sys


def main() -> None:
    """The door of the console script. What it needs is imported behind it, to keep start-up quick."""
    try:
        from .app import app
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="hybrid-scheduler")


__all__ = ["main"]
