"""Command line: one module per command, and what the commands share."""

import sys


def main() -> None:
    """Run the console script `hybrid-scheduler`; imports wait until here, which keeps start-up quick."""
    if sys.argv[1:2] == ["run"]:  # a script waits for it
        from .run import main as run

        run(sys.argv[2:])
        return
    # The imports take a while: the terminal says so at once.
    waiting = sys.stderr.isatty() and not {"-q", "--quiet", "-h", "--help", "--version"} & set(sys.argv)
    if waiting:
        print("starting", end="\r", file=sys.stderr, flush=True)
    try:
        from .app import app

        if waiting:
            print("        ", end="\r", file=sys.stderr, flush=True)
        app(prog_name="hybrid-scheduler")
    except KeyboardInterrupt:  # during the imports, or a second one while the first is reported
        sys.exit(130)


__all__ = ["main"]
