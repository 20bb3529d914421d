"""The program `hybrid-scheduler`: its commands, its shared options, and exit codes with their error lines."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from .. import __version__
from ..core import HybridSchedulerError, InvalidInputError, MissingExtraError
from .command_context import CommandContext
from .db import db
from .models import models
from .options import with_options
from .printer import Printer
from .run_script import SETTINGS as RUN_SETTINGS

#: Options of the program itself, and whether a value follows each.
_SHARED = {
    "--config": True,
    "--plugin": True,
    "--log-level": True,
    "--quiet": False,
    "-q": False,
    "--version": False,
}


class Program(TyperGroup):
    """Command group that accepts shared options before and after the command's name, and ends every command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move shared options before the command's name, then parse."""
        shared: list[str] = []
        others: list[str] = []
        words = iter(args)
        for word in words:
            name, equals, _ = word.partition("=")
            if word == "--" or (word == "run" and not others):
                others += [word, *words]
            elif name not in _SHARED:
                others.append(word)
            else:
                shared.append(word)
                if _SHARED[name] and not equals:
                    shared += [value for value in (next(words, None),) if value is not None]
        return super().parse_args(ctx, shared + others)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with its whole first sentence."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(limit=1_000)) for name, command in found if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command with a context of its own, and turn its end into an exit code."""
        command = CommandContext()
        parse_and_run = super().main

        def run() -> Any:
            return parse_and_run(args, prog_name, complete_var, False, windows_expand_args, obj=command, **extra)

        code = _exit_code_of(run, command)
        if standalone_mode:
            sys.exit(code)
        return code


app = typer.Typer(
    name="hybrid-scheduler",
    cls=Program,
    invoke_without_command=True,
    rich_markup_mode=None,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 failure, 2 usage error or bad input, 130 interrupted.",
)


def _show_version(requested: bool) -> None:
    if requested:
        Printer().text(f"hybrid-scheduler {__version__}")
        raise typer.Exit


@app.callback()
@with_options(json=False, quiet={"names": ("-q",)}, version={"callback": _show_version, "is_eager": True})
def program(
    context: typer.Context,
    config: Path | None = None,
    plugin: list[Path] | None = None,
    log_level: str | None = None,
    quiet: bool = False,
    version: bool = False,
) -> None:
    """Decide for each task: run it on the CPU, on a GPU, or split it between them.

    The program simulates, compares and executes scheduling policies on machines with CPUs and GPUs.

    Example: hybrid-scheduler simulate --scenario mixed --utilisation 0.7

    Parameters
    ----------
    config : FILE
        Read settings from this file instead of ./config.yaml.
    plugin : FILE
        Load your own schedulers from a Python file; may be repeated.
    log_level : LEVEL
        Lowest level of messages to show and log: debug, info, warning, …
    quiet
        Print only the result and errors.
    version
        Show the version and exit.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(_BAD_INPUT)
    command: CommandContext = context.obj
    command.printer = Printer(quiet=quiet)
    command.printer.busy()
    command.config_file = config
    if plugin:
        from ..schedulers.registry import add_plugin_file

        for file in plugin:
            add_plugin_file(file)
    command.log_level = log_level


#: Module of each command, in the order of the help: programs, live run, comparisons, learning, jobs, real hardware,
#: traces, lists of names, maintenance.
_MODULES = {
    "run": "run_script",
    "serve": "serve",
    "simulate": "simulate",
    "compare": "compare",
    "heavy": "heavy_simulation",
    "sweep": "sweep",
    "score": "score",
    "report": "report",
    "trace": "replay",
    "replay": "replay",
    "pipeline": "pipeline",
    "train": "train",
    "shift": "shift",
    "jobs": "jobs",
    "forecast": "jobs",
    "reproduce": "jobs",
    "profile": "profile",
    "calibrate": "profile",
    "execute": "execute",
    "import": "import_trace",
    "schedulers": "listings",
    "scenarios": "listings",
    "platforms": "listings",
    "bench": "bench",
    "doctor": "doctor",
}
for _name, _module in _MODULES.items():
    _function = getattr(import_module(f".{_module}", __package__), "import_trace" if _name == "import" else _name)
    app.command(_name, **(RUN_SETTINGS if _name == "run" else {}))(_function)
app.add_typer(models)
app.add_typer(db)


# ------------------------------------------------------------------------------------------ exit codes

#: Besides 0 for success: failure, usage error or bad input, interrupted.
_FAILED = 1
_BAD_INPUT = 2
_INTERRUPTED = 130


def _exit_code_of(run: Callable[[], Any], command: CommandContext) -> int:
    """Run a command, explain errors on stderr, and close the log."""
    try:
        # The parser turns an interrupt into the exit code, too.
        with _warnings_as_lines(command):
            code = run()
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        # A new printer: the interrupt may have come in the middle of a line of the old one.
        Printer().report("interrupted", command.after_interrupt)
        # CPython remembers an interrupt inside an `exec` of text, as numba and dataclasses run it: a program
        # started by `python -m` then ends by SIGINT, whatever it exits with. The next `exec` of text clears that.
        exec("")
        return _INTERRUPTED
    except typer.TyperException as error:
        return _explain_usage(error, command)
    except Exception as error:
        return _explain(error, command)
    finally:
        command.close()


@contextmanager
def _warnings_as_lines(command: CommandContext) -> Iterator[None]:
    """Show Python warnings as lines on stderr, so that none of them ends a command.

    Meanwhile, filters that turn warnings into exceptions (``-W error``) only show them. Other filters keep their
    effect.
    """

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        kind = "" if category is UserWarning else f"{category.__name__}: "
        command.show_warning(f"{kind}{message}")

    with warnings.catch_warnings():
        warnings.filters[:] = [  # type: ignore[index]
            ("default" if action == "error" else action, *rest) for action, *rest in warnings.filters
        ]
        warnings.showwarning = show
        yield


def _explain_usage(error: typer.TyperException, command: CommandContext) -> int:
    """Print the parser's message as one line, with the nearest name as the hint."""
    if isinstance(error.__cause__, ValueError) and hasattr(error.__cause__, "errors"):
        return _explain(_wrong_value(error, error.__cause__.errors()[0]), command)
    message = re.sub(r" \(Possible options: .*\)$", "", error.format_message().rstrip("."))
    near = list(getattr(error, "possibilities", None) or ())
    if suggestion := re.search(r"\. Did you mean '(.*?)'.*\?$", message):
        near = [suggestion[1]]
        message = message[: suggestion.start()]
    context = getattr(error, "ctx", None)
    hint = f"see {context.command_path} --help" if context else None
    _tell(command, message[:1].lower() + message[1:], f"did you mean '{near[0]}'?" if near else hint)
    return error.exit_code


def _wrong_value(error: Any, problem: dict[str, Any]) -> InvalidInputError:
    """Return the parser's problem with a value in the form of all other errors."""
    allowed = "a whole number" if problem["type"].startswith("int") else "a number"
    if "ge" in problem.get("ctx", {}):
        allowed = f"at least {problem['ctx']['ge']}"
    field = error.param.opts[0] if error.param.param_type_name == "option" else error.param.metavar
    return InvalidInputError(field, allowed, problem["input"])


def _explain(error: Exception, command: CommandContext) -> int:
    from ..core.errors import EXTRA_OF

    if isinstance(error, ModuleNotFoundError) and error.name in EXTRA_OF:
        error = MissingExtraError(error.name, "this command")
    if isinstance(error, HybridSchedulerError):
        for problem in getattr(error, "problems", [error]):
            _tell(command, str(problem), problem.hint)
        if command.writes_log:  # an explained error needs no new log file
            command.keep_traceback(error)
        return error.exit_code
    file = command.keep_traceback(error)
    if isinstance(error, MemoryError):
        _tell(command, "not enough memory", "fewer tasks or fewer schedulers need less")
    else:
        _tell(command, f"unexpected {type(error).__name__}: {error}" + (f", see {file}" if file else ""))
    return _FAILED


def _tell(command: CommandContext, message: str, hint: str | None = None) -> None:
    command.printer.report("error", message)
    if hint:
        command.printer.report("hint", hint)
