"""Command line: one module per command, and what the commands share."""

import sys


def main() -> None:
    """Run the console script `hybrid-scheduler`; imports wait until here, which keeps start-up quick."""
    try:
        from .app import app
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="hybrid-scheduler")


__all__ = ["main"]
