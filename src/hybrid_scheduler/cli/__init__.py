"""Command line: one module per command, and what the commands share."""

import sys


def main() -> None:
    """Run the console script `hybrid-scheduler`; imports wait until here, which keeps start-up quick."""
    if sys.argv[1:2] == ["run"]:  # a script waits for it
        from .run import main as run

        run(sys.argv[2:])
        return
    try:
        from .app import app
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="hybrid-scheduler")


__all__ = ["main"]
